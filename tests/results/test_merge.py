"""What the manifest of joined parts says."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from commands import run
from finished_runs import write_run
from made_trials import made_trial

from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.merge import MergeError, merge

KEYS = ("crmarena/mini/1#0", "crmarena/mini/2#0", "crmarena/mini/3#0")
CATEGORIES = {"crmarena/mini/1": "handle_time", "crmarena/mini/2": "handle_time", "crmarena/mini/3": "knowledge_qa"}


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    """Return the whole of two parts, each of which knows what its own tasks are about."""
    parts = []
    for number, keys in enumerate((KEYS[:1], KEYS[1:])):
        trials = [made_trial(key, category=CATEGORIES[key.partition("#")[0]]) for key in keys]
        part = write_run(tmp_path / f"part{number}", trials, run_id=f"run{number}")
        own = {task: CATEGORIES[task] for task in (key.partition("#")[0] for key in keys)}
        dataclasses.replace(manifest.load(part), whole=KEYS, categories=own).write(part)
        parts.append(part)
    merge(parts, tmp_path / "whole")
    return tmp_path / "whole"


def test_the_whole_knows_what_the_tasks_of_every_part_are_about_and_a_lost_one_counts(merged: Path) -> None:
    assert manifest.load(merged).categories == CATEGORIES
    (lost,) = (path for path in (merged / "trials").iterdir() if json.loads(path.read_text())["key"] == KEYS[1])
    lost.unlink()
    _, out, _ = run("gate", merged, "--min-pass", "crmarena/mini/handle_time=0.9")
    assert "1 of 2 trials succeeded" in out


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        ("https://a.example/agent", "https://b.example/agent", True),
        ("https://a.example/agent", "https://a.example/agent/", False),
        # Each machine has an agent of its own there.
        ("http://127.0.0.1:9000", "http://localhost:9001", False),
        ("http://127.0.0.1:9000", "https://a.example/agent", True),
        ("builtin:oracle", "builtin:echo", True),
    ],
)
def test_parts_of_different_endpoints_are_not_one_run(tmp_path: Path, first: str, second: str, refused: bool) -> None:
    parts = []
    for number, (keys, endpoint) in enumerate(((KEYS[:1], first), (KEYS[1:], second))):
        part = write_run(tmp_path / f"part{number}", [made_trial(key) for key in keys], run_id=f"run{number}")
        dataclasses.replace(manifest.load(part), whole=KEYS, endpoint=endpoint).write(part)
        parts.append(part)
    if refused:
        with pytest.raises(MergeError, match=f"endpoint differs: '{first}' in .*, '{second}' in "):
            merge(parts, tmp_path / "whole")
    else:
        merge(parts, tmp_path / "whole")
