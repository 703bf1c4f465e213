"""The vectors: what is expected of each is found, and they can be handed to others as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.vectors import KINDS, load


def test_each_answer_has_the_findings_that_are_expected_of_it() -> None:
    answers = load("answers")

    assert [(v.name, v.found) for v in answers if v.found != list(v.findings)] == []
    assert any(v.findings for v in answers)
    assert {v.content["operation"] for v in answers if not v.findings} >= {
        *("SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "SubscribeToTask")
    }


def test_they_are_exported_as_files_with_an_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_exporting_them_wants_a_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "vectors"]) == 2
    assert "-o DIR" in capsys.readouterr().err
