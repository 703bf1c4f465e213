from __future__ import annotations

import pytest

from pytest_a2a_bench.conformance.catalogue import load_requirements, requirement
from pytest_a2a_bench.conformance.finding import BINDINGS
from pytest_a2a_bench.errors import ConfigurationError


@pytest.mark.parametrize(("version", "least"), [("1.0", 267), ("0.3", 45)])
def test_the_catalogue_is_complete_and_well_formed(version: str, least: int) -> None:
    rows = load_requirements(version)
    assert len(rows) >= least
    assert len({r.id for r in rows}) == len(rows)
    for row in rows:
        assert row.version == version
        assert row.level in ("MUST", "SHOULD", "MAY")
        assert row.text
        assert row.spec
        assert row.bindings == ("card",) or set(row.bindings) <= set(BINDINGS)


def test_ids_are_unique_over_both_versions() -> None:
    ids = [r.id for version in ("1.0", "0.3") for r in load_requirements(version)]
    assert len(set(ids)) == len(ids)


def test_one_requirement_is_found_by_id() -> None:
    assert requirement("CARD-001").text == "An agent card is published at /.well-known/agent-card.json"
    assert requirement("V03-CARD-002", "0.3").version == "0.3"


def test_an_unknown_id_names_its_neighbours() -> None:
    with pytest.raises(ConfigurationError, match=r"no requirement 'SIGN-099'.*SIGN-001, SIGN-002"):
        requirement("SIGN-099")
    with pytest.raises(ConfigurationError, match=r"'CARD-001' of version 0\.3"):
        requirement("CARD-001", "0.3")
    with pytest.raises(ConfigurationError, match=r"version '2\.0'; use 1\.0 or 0\.3"):
        load_requirements("2.0")
