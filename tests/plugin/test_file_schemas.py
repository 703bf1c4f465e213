"""Every file that real runs leave is as its published schema says."""

import copy
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from commands import command, run
from harness import Bench
from jsonschema import Draft202012Validator
from one_test import in_one_test
from stored_schemas import generate, to_text

from pytest_a2a_bench import schemas


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def check(name: str, *paths: Path) -> None:
    """Fail unless the files are valid, and none of them is without any one of its required members."""
    assert paths
    validator = Draft202012Validator(schemas.load(name))
    for path in paths:
        data = read(path)
        assert [e.message for e in validator.iter_errors(data)] == []
        for member in schemas.load(name)["required"]:
            less = copy.deepcopy(data)
            del less[member]
            assert not validator.is_valid(less), f"{path} without {member}"
        assert not validator.is_valid({**data, "schema_version": 0})


@in_one_test("name", sorted(schemas.FORMS))
def test_the_shipped_schema_is_what_the_generator_writes(name: str) -> None:
    shipped = files("pytest_a2a_bench.schemas") / "data" / schemas.file_name(name)
    assert shipped.read_text(encoding="utf-8") == to_text(generate(name)), (
        "run python tools/stored_schemas.py; raise the version if readers of the old form would misread it"
    )
    Draft202012Validator.check_schema(schemas.load(name))


@pytest.mark.slow
def test_tau2_with_gates_recorded_and_promoted(bench: Bench) -> None:
    bench("--a2a-endpoint=builtin:readonly", "--a2a-suite=mock", "--a2a-record=tapes", "--a2a-min-pass=0.1")
    results = bench.path / "a2a-results"
    baseline = bench.path / "base.json"
    command("gate", results, "--write-baseline", baseline)
    check("trial", *(results / "trials").glob("*.json"))
    check("run", results / "run.json")
    check("verdict", results / "verdict.json")
    check("baseline", baseline)
    check("cassette", *(p for p in (bench.path / "tapes").rglob("*.json") if p.name != "agent.json"))
    bench("--a2a-endpoint=builtin:readonly", "--a2a-suite=mock", f"--a2a-baseline={baseline}", "--a2a-trials=2")
    check("verdict", results / "verdict.json")
    assert read(results / "verdict.json")["comparison"]
    check("trial", *(results / "trials").glob("*.json"))
    assert {read(p)["status"] for p in (results / "trials").glob("*.json")} >= {"evaluated", "evaluator_error"}


@pytest.mark.slow
def test_crmarena_and_every_kind_of_trouble(bench: Bench, desk: Bench) -> None:
    bench.tasks("ok-a bad-b down-c skip-d broken-e")
    desk("--a2a-results=desk", "--a2a-min-pass=0.5", "test_desk.py")
    desk("--a2a-results=org", "--a2a-suite=mini", "-k", "00-t0", "--a2a-trials=1")
    for name in ("desk", "org"):
        trials = list((bench.path / name / "trials").glob("*.json"))
        assert len(trials) >= 4
        check("trial", *trials)
        check("run", bench.path / name / "run.json")
        check("verdict", bench.path / name / "verdict.json")


@pytest.mark.slow
def test_formats_of_the_conformance_command(noop_url: str, tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    card.write_text('{"name": "bad"}')
    (tmp_path / "card-report.json").write_text(command("check", "--card", card, "--format", "json", code=1).out)
    (tmp_path / "report.json").write_text(run("check", noop_url, "--format", "json")[1])
    check("conformance", tmp_path / "report.json", tmp_path / "card-report.json")


def test_a_schema_is_printed_or_written(tmp_path: Path) -> None:
    assert json.loads(command("export", "schema", "baseline").out) == schemas.load("baseline")
    command("export", "schema", "baseline", "-o", tmp_path / "schema.json")
    assert json.loads((tmp_path / "schema.json").read_text()) == schemas.load("baseline")
