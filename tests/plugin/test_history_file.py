"""``--a2a-history-file``: runs are added, what changed is told, and nothing is added that would mislead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import Bench


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["alone", "workers"])
def test_runs_are_added_and_compared(
    pytester: pytest.Pytester, desk: Bench, workers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SHA", "0123456789abcdef")
    monkeypatch.setenv("DESK_TASKS", "ok turn")
    options = (*workers, "--a2a-history-file=runs.jsonl", "--a2a-min-pass=0.1", "--a2a-html=page.html")
    desk(*options)
    monkeypatch.setenv("DESK_TASKS", "ok turn")
    result = desk(*options)
    result.stdout.fnmatch_lines(["a2a: success rate of the last 2 of 2 runs, this one last: *"])
    lines = [json.loads(line) for line in (pytester.path / "runs.jsonl").read_text().splitlines()]
    assert [line["revision"] for line in lines] == ["0123456789ab"] * 2
    assert lines[0]["tasks"].keys() == lines[1]["tasks"].keys()
    assert "Over time" in (pytester.path / "page.html").read_text()


def test_named_trials_and_shards_are_not_added(pytester: pytest.Pytester, desk: Bench) -> None:
    result = desk("--a2a-history-file=runs.jsonl", "--a2a-shard=1/2")
    result.stdout.fnmatch_lines(["a2a: a shard is not added to the history*"])
    assert not Path(pytester.path / "runs.jsonl").exists()


def test_a_history_that_cannot_be_read_fails_the_run(
    pytester: pytest.Pytester, desk: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_TASKS", "ok")
    (pytester.path / "runs.jsonl").write_text("no json\n")
    result = desk("--a2a-history-file=runs.jsonl")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["a2a: this run is not in the history: *runs.jsonl:1 is no run of a history*"])
