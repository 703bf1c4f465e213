"""Schema drift: new names work, old ones are refused, and the records are the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from small_org import open_small_org, plain

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.drift import SHARES, DriftLevel, drift_schema, drifted
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.standard import FULL

_LEVELS: list[DriftLevel] = ["low", "medium", "high"]


@pytest.fixture(scope="module")
def org() -> Iterator[LocalOrg]:
    org = open_small_org()
    yield org
    org.close()


def _renamed(level: DriftLevel, seed: int = 0) -> dict[tuple[str, str], str]:
    schema = drift_schema(FULL, level, seed)
    return {(each.name, field.column): field.name for each in schema.objects for field in each.fields if field.column}


@pytest.mark.parametrize("level", _LEVELS)
def test_the_share_is_renamed_and_no_id(level: DriftLevel) -> None:
    fields = sum(field.type != "id" for sobject in FULL.objects for field in sobject.fields)
    renamed = _renamed(level)
    assert len(renamed) == round(fields * SHARES[level])
    assert not any(old == "Id" for _, old in renamed)
    assert all(new.endswith("__c") == old.endswith("__c") for (_, old), new in renamed.items())


def test_it_is_the_same_for_a_seed_and_grows_with_the_level() -> None:
    assert _renamed("low") == _renamed("low")
    assert _renamed("low") != _renamed("low", seed=1)
    assert _renamed("low").items() <= _renamed("medium").items() <= _renamed("high").items()
    assert _renamed("low")["CaseHistory__c", "CreatedDate"] == "OpenedDate"


@pytest.mark.parametrize("seed", range(20))
def test_names_stay_apart(seed: int) -> None:
    for sobject in drift_schema(FULL, "high", seed).objects:
        names = [field.name.lower() for field in sobject.all_fields]
        walks = [field.relationship.lower() for field in sobject.all_fields if field.relationship]
        assert len(set(names)) == len(names)
        assert len(set(walks)) == len(walks)


@pytest.mark.parametrize("level", _LEVELS)
def test_every_field_by_its_new_name(org: LocalOrg, level: DriftLevel) -> None:
    changed = drifted(org, level, seed=3)
    try:
        for before, after in zip(org.schema.objects, changed.schema.objects, strict=True):
            for old, new in zip(before.fields, after.fields, strict=True):
                values = [
                    plain(record)[old.name] for record in org.run(f"SELECT {old.name} FROM {before.name}").records
                ]
                records = changed.run(f"SELECT {new.name} FROM {after.name}").records
                assert [plain(record) for record in records] == [{new.name: value} for value in values]
                if old.name != new.name and old.name.lower() not in {each.name.lower() for each in after.fields}:
                    with pytest.raises(OrgError, match=f"No such column '{old.name}' on entity '{before.name}'"):
                        changed.run(f"SELECT {old.name} FROM {after.name}")
    finally:
        changed.close()


def test_a_reference_takes_its_relationship_along(org: LocalOrg) -> None:
    changed = drifted(org, "high", seed=0)
    try:
        moved = [
            (sobject.name, field)
            for sobject in changed.schema.objects
            for field in sobject.fields
            if field.column and field.refers_to and field.refers_to[0] == "Account"
        ]
        assert moved
        for name, field in moved:
            stem = field.name.removesuffix("Id") if not field.custom else field.name.replace("__c", "__r")
            assert field.relationship == stem
            changed.run(f"SELECT {field.relationship}.Id FROM {name}")
    finally:
        changed.close()


def test_the_agent_is_told_the_new_names(org: LocalOrg) -> None:
    told = {each["object"]: each["fields"] for each in drift_schema(FULL, "medium").to_json()}
    assert told["Account"]["Label"] == "Name of the company"
    assert "Name" not in told["Account"]


def test_drift_of_a_drifted_org(org: LocalOrg) -> None:
    once = drifted(org, "medium", seed=1)
    twice = drifted(once, "medium", seed=2)
    once.close()
    try:
        names = [field.name for field in twice.schema.objects[3].fields]
        assert twice.run(f"SELECT {', '.join(names)} FROM Case").total_size == 7
    finally:
        twice.close()
