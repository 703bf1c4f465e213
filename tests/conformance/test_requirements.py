import json
import re
from pathlib import Path

import pytest
from one_test import in_one_test

from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.conformance.catalogue import load_requirements, requirement, rule_ids
from pytest_a2a_bench.conformance.checks import asking as asking_module
from pytest_a2a_bench.conformance.checks.binding import MISTAKES
from pytest_a2a_bench.conformance.checks.errors import PROVOKED_BY
from pytest_a2a_bench.conformance.finding import BINDINGS
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS
from pytest_a2a_bench.conformance.vectors import KINDS, load
from pytest_a2a_bench.conformance.wire.reply import ERRORS
from pytest_a2a_bench.errors import ConfigurationError


@in_one_test(("version", "least"), [("1.0", 267), ("0.3", 45)])
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


def test_ids_are_unique_over_both_versions_and_those_that_checks_name_exist() -> None:
    ids = [r.id for version in ("1.0", "0.3") for r in load_requirements(version)]
    assert len(set(ids)) == len(ids)
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(asking_module.__file__).parent.glob("*.py"))
    assert set(re.findall(r"\b(?:V03-)?[A-Z]+-\d{3}\b", sources)) <= set(ids)


def test_one_requirement_is_found_by_id_and_an_unknown_id_names_its_neighbours() -> None:
    assert requirement("CARD-001").text == "An agent card is published at /.well-known/agent-card.json"
    assert requirement("V03-CARD-002", "0.3").version == "0.3"
    with pytest.raises(ConfigurationError, match=r"no requirement 'SIGN-099'.*SIGN-001, SIGN-002"):
        requirement("SIGN-099")
    with pytest.raises(ConfigurationError, match=r"'CARD-001' of version 0\.3"):
        requirement("CARD-001", "0.3")
    with pytest.raises(ConfigurationError, match=r"version '2\.0'; use 1\.0 or 0\.3"):
        load_requirements("2.0")


def test_requests_of_the_catalogue_are_well_formed() -> None:
    rows = [r for version in ("1.0", "0.3") for r in load_requirements(version)]
    asking = [r for r in rows if r.ask.requests]
    assert len(asking) > 50
    for row in asking:
        for request in row.ask.requests:
            assert request.get("operation", "SendMessage") in OPERATIONS, row.id
            assert set(request.get("errors", row.ask.errors)) <= set(ERRORS), row.id
            words = re.findall(r"\"(\{\w+\})\"", json.dumps([request.get("params"), request.get("message")]))
            assert set(words) <= set(asking_module.GIVEN), row.id
        if "asking." in f"{row.check} {row.stress}":
            assert all(request["what"] for request in row.ask.requests), row.id
    assert {r.id for r in rows if "asking." in str(r.check)} <= {r.id for r in asking}
    provoking = {*PROVOKED_BY.values(), *MISTAKES, "VAL-001"}
    assert provoking <= {r.id for r in asking}


def test_the_consequences_in_the_catalogue_are_of_requirements_on_the_same_bindings() -> None:
    entries = {r.id: r for r in load_requirements("1.0")}
    named = [(r, entries[id], words) for r in entries.values() for words, ids in r.explains.items() for id in ids]
    assert named
    for cause, consequence, words in named:
        assert re.compile(words)
        assert set(cause.bindings) & set(consequence.bindings), (cause.id, consequence.id)
        assert cause.id != consequence.id


def test_rules_of_a_card_have_one_id_in_each_version() -> None:
    names = [[name for r in load_requirements(version) for name in r.rules] for version in ("1.0", "0.3")]
    assert set(names[0]) == set(names[1]) == set(rule_ids("1.0"))
    assert all(len(set(each)) == len(each) for each in names)


# -- the vectors: what is expected of each is found, and others can have them as files --


def test_each_answer_has_the_findings_that_are_expected_of_it() -> None:
    answers = load("answers")
    assert [(v.name, v.found) for v in answers if v.found != list(v.findings)] == []
    assert any(v.findings for v in answers)
    assert {v.content["operation"] for v in answers if not v.findings} >= {
        *("SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "SubscribeToTask")
    }


def test_they_are_exported_as_files_with_an_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "vectors"]) == 2
    assert "-o DIR" in capsys.readouterr().err
    assert main(["export", "vectors", "-o", str(tmp_path / "out")]) == 0

    index = json.loads((tmp_path / "out" / "index.json").read_text(encoding="utf-8"))
    vectors = [vector for kind in KINDS for vector in load(kind)]
    assert len(index) == len(vectors)
    assert f"{len(vectors)} vectors" in capsys.readouterr().out
    known = {r.id: r for version in ("1.0", "0.3") for r in load_requirements(version)}
    for entry, vector in zip(index, vectors, strict=True):
        assert json.loads((tmp_path / "out" / entry["file"]).read_text(encoding="utf-8")) == vector.content
        assert [(f["requirement"], f["pointer"]) for f in entry["findings"]] == list(vector.findings)
        assert all(f["spec"] == known[f["requirement"]].spec for f in entry["findings"])
