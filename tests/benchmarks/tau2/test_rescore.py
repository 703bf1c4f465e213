"""Stored conversations, evaluated again."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from finished_runs import write_run
from trials import RunTrials

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.registry import Suite
from pytest_a2a_bench.benchmarks.tau2 import upstream
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import Reward, TrialKey, TrialResult, UserFault
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.merge import rescore

KEYS = [TrialKey("tau2", "mock", task) for task in ("create_task_1", "update_task_1", "impossible_task_1")]


@pytest.fixture
def some(some: list[TrialResult]) -> list[TrialResult]:
    """The first trial of each task."""
    return some[::2]


def test_the_same_evaluators_give_the_same_rewards(
    some: list[TrialResult],
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # No judge is asked, and what asks models takes seconds to import.
    monkeypatch.setattr(upstream, "load_litellm", Mock(side_effect=ImportError))
    (tmp_path / "again").mkdir()
    assert main(["gate", "--rescore", str(run), "-o", str(tmp_path / "again")]) == 0
    assert "3 trials: 0 rewards changed, 3 are the same, 0 not evaluated" in capsys.readouterr().out
    again = manifest.load_selected(tmp_path / "again")
    assert {r.key: r.reward_info for r in again.results} == {r.key: r.reward_info for r in some}
    assert again.manifest.run_id.startswith("rescored-")
    assert again.results[0].provenance["rescored_from"]["run_id"] == "run"


def test_a_reward_that_changes_is_shown_and_nothing_is_written_untold(
    some: list[TrialResult], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = dataclasses.replace(some[0], reward_info=Reward(1.0, ("DB",)), fingerprint="f")
    directory = write_run(tmp_path / "run", [old, *some[1:]])
    before = {path: path.read_bytes() for path in directory.rglob("*.json")}
    assert main(["gate", "--rescore", str(directory)]) == 1
    assert "tau2/mock/create_task_1#0: reward 1 -> 0\n" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in directory.rglob("*.json")} == before

    assert main(["gate", "--rescore", str(directory), "--in-place"]) == 1
    found = manifest.load_selected(directory)
    changed = found.results[0]
    assert changed.reward == 0.0
    assert changed.reward_info is not None
    assert changed.reward_info.db_diff
    assert changed.fingerprint == ""
    assert changed.provenance["rescored_from"]["reward"] == 1.0
    assert main(["gate", "--rescore", str(directory)]) == 0


def test_a_success_has_no_user_at_fault_and_other_data_another_question() -> None:
    """What the user did wrong is why there was no success; where an evaluator says otherwise, nothing was wrong."""
    fault = UserFault("ended_before_the_write")
    data = {"benchmark": "tau2 1"}
    held = TrialResult(KEYS[0], "evaluated", "run", Reward(0.0), user_fault=fault, provenance=data, fingerprint="f")
    selected: Any = SimpleNamespace(results=[held])
    for reward, by, expected in ((Reward(1.0), {"benchmark": "tau2 2"}, (None, "")), (Reward(0.5), data, (fault, "f"))):
        [found] = rescore(selected, Mock(return_value=(reward, by)), "now")
        assert (found.result.user_fault, found.result.fingerprint) == expected


def test_conversations_without_an_evaluation_are_kept_and_named(
    run_trials: RunTrials, some: list[TrialResult], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = TrialKey("tau2", "mock", "create_task_1_with_env_assertions")
    (broken,) = run_trials("readonly", Settings(tag_trials=True), [task])
    assert broken.status == "evaluator_error"
    assert broken.simulation is not None
    lost = dataclasses.replace(some[0], status="infrastructure_error", reward_info=None, simulation=None)
    directory = write_run(tmp_path / "run", [broken, lost, some[1]], absent=["tau2/mock/create_task_2#0"])
    assert main(["gate", "--rescore", str(directory), "-o", str(tmp_path / "again")]) == 2
    shown = capsys.readouterr().out
    assert f"{task}#0".replace("#0#0", "#0") in shown
    assert "own evaluator raised" in shown
    assert "tau2/mock/create_task_1#0: not evaluated again: there is no finished conversation" in shown
    assert "tau2/mock/create_task_2#0: there is no result" in shown
    assert "4 trials: 0 rewards changed, 1 are the same, 3 not evaluated" in shown
    statuses = [r.status for r in manifest.load_selected(tmp_path / "again").results]
    assert statuses == ["evaluator_error", "infrastructure_error", "evaluated"]


def test_a_directory_in_use_is_not_written_to_and_a_damaged_conversation_is_no_reward_of_0(
    some: list[TrialResult], run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_run(tmp_path / "other", some[:1], run_id="other")
    assert main(["gate", "--rescore", str(run), "-o", str(other)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert manifest.load_selected(other).manifest.run_id == "other"
    assert some[1].simulation is not None
    damaged = dataclasses.replace(some[1], simulation={**some[1].simulation, "messages": "gone"})
    directory = write_run(tmp_path / "damaged", [damaged])
    assert main(["gate", "--rescore", str(directory)]) == 2
    assert "cannot read the conversation" in capsys.readouterr().out


def test_a_benchmark_may_offer_it_or_not(
    some: list[TrialResult], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other_benchmark.py").write_text(
        "from pytest_a2a_bench.model import Reward\n"
        "class Able:\n"
        "    name = 'able'\n"
        "    def rescore(self, result, settings):\n"
        "        return Reward(0.5)\n"
        "    def data_version(self, domain, settings):\n"
        "        return 'able 2'\n"
        "BENCHMARK = Able()\n"
    )
    (tmp_path / "unable_benchmark.py").write_text("class U:\n    name = 'unable'\nBENCHMARK = U()\n")
    monkeypatch.syspath_prepend(tmp_path)
    offered = {
        name: Suite(name, ("x",), lambda: ("x",), lambda domain: ("base",), lambda domain, split: [], benchmark=module)
        for name, module in (("able", "other_benchmark"), ("unable", "unable_benchmark"))
    }
    monkeypatch.setattr(registry, "_registered", offered)
    able = dataclasses.replace(some[0], key=TrialKey("able", "x", "1"))
    unable = dataclasses.replace(some[0], key=TrialKey("unable", "x", "1"))
    directory = write_run(tmp_path / "run", [able, unable])
    assert main(["gate", "--rescore", str(directory), "--in-place"]) == 2
    shown = capsys.readouterr().out
    assert "able/x/1#0: reward 0 -> 0.5" in shown
    assert "unable/x/1#0: not evaluated again: the benchmark unable cannot evaluate stored conversations" in shown
    assert manifest.load_selected(directory).results[0].provenance["benchmark"] == "able 2"
