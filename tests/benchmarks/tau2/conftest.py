import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from finished_runs import write_run
from trials import run_against

from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult


@pytest.fixture(scope="session")
def some(builtin: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> list[TrialResult]:
    """Two trials of each of three tasks, of which an agent that writes nothing solves some."""
    tasks = ("create_task_1", "update_task_1", "impossible_task_1")
    keys = [TrialKey("tau2", "mock", task, trial) for task in tasks for trial in range(2)]
    return run_against(builtin("readonly"), Settings(tag_trials=True), keys, tmp_path_factory.mktemp("some"))


@pytest.fixture
def run(some: list[TrialResult], tmp_path: Path) -> Path:
    """The results directory of these trials."""
    return write_run(tmp_path / "run", some)


@pytest.fixture
def judged_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a judge alone decide about every task that is loaded."""
    original = index.load_task_json

    def load(domain: str, task_id: str, data: Path | None = None) -> dict[str, Any]:
        task = json.loads(json.dumps(original(domain, task_id, data)))
        task["evaluation_criteria"]["reward_basis"] = ["NL_ASSERTION"]
        return task  # type: ignore[no-any-return]

    monkeypatch.setattr(index, "load_task_json", load)
