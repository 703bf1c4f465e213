"""What tau2 itself makes of an exported file."""

import dataclasses
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from finished_runs import write_run

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results.stats import summarise
from pytest_a2a_bench.results.store import Store


def mock_keys(trials: int, *tasks: str) -> list[TrialKey]:
    names = tasks or tuple(t.task_id for t in index.load_tasks("mock"))
    return [TrialKey("tau2", "mock", task, trial) for task in names for trial in range(trials)]


def export(directory: Path, *arguments: str) -> dict[str, Any]:
    target = directory / "out.json"
    assert main(["export", "tau2", str(directory), "-o", str(target), *arguments]) == 0
    found: dict[str, Any] = json.loads(target.read_text())
    return found


def loaded(file: Path) -> Any:
    """Return what tau2 itself reads of a file."""
    return importlib.import_module("tau2.data_model.simulation").Results.load(file)


@pytest.mark.slow
def test_tau2s_own_code_reads_it_and_computes_our_numbers(
    some: list[TrialResult], run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = export(run)
    results = loaded(run / "out.json")
    metrics = importlib.import_module("tau2.metrics.agent_metrics").compute_metrics(results)
    (ours,) = summarise(some, registry.variant_of)
    assert 0 < ours.successes < 6
    assert metrics.avg_reward == pytest.approx(ours.mean_reward)
    assert metrics.pass_hat_ks == pytest.approx(ours.pass_hat_k)
    assert {(s.task_id, s.trial): s.reward_info.reward for s in results.simulations} == {
        (r.key.task_id, r.key.trial): r.reward for r in some
    }
    assert all(s.messages for s in results.simulations)
    assert exported["info"]["num_trials"] == 2
    assert exported["info"]["environment_info"]["policy"]

    verify = importlib.import_module("tau2.scripts.leaderboard.verify_trajectories_public")
    assert verify.check_num_trials(results) == (True, "")
    # Not the whole base split, and its own check notices just that.
    passed, reason = verify.check_tasks(results)
    assert not passed
    assert reason.startswith("Missing tasks")
    prepare = importlib.import_module("tau2.scripts.leaderboard.prepare_submission")
    assert prepare.validate_submission_traj_set([results]) == (True, "")
    assert set(prepare.get_metrics([results])[0]) == {"mock"}

    monkeypatch.setattr("builtins.input", lambda *_: "")  # the viewer asks for notes
    view = importlib.import_module("tau2.scripts.view_simulations")
    capsys.readouterr()
    view.display_simulation_list(results)
    view.display_simulation_with_task(results.simulations[0], results.tasks[0], "out.json", 0)
    shown = capsys.readouterr().out
    assert "create_task_1" in shown
    assert "user_stop" in shown.lower()


def test_tau2_evaluates_the_exported_conversations_to_the_same_and_they_say_who_played_the_user(run: Path) -> None:
    exported = export(run)
    results = loaded(run / "out.json")
    again = importlib.import_module("tau2.scripts.evaluate_trajectories").compute_simulation_rewards(results)
    assert [s.reward_info.reward for s in again.simulations] == [s.reward_info.reward for s in results.simulations]
    assert exported["info"]["user_info"]["implementation"] == "scripted"
    assert exported["info"]["user_info"]["llm"] is None
    ours = exported["a2a_bench"]
    assert ours["submission_type"] == "custom"
    assert not ours["leaderboard_ready"]
    assert any("scripted" in reason for reason in ours["not_leaderboard_ready_because"])
    assert any("name of each task" in reason for reason in ours["not_leaderboard_ready_because"])


def test_only_a_complete_run_with_a_model_as_user_is_ready(some: list[TrialResult], tmp_path: Path) -> None:
    (one,) = [r for r in some if str(r.key) == "tau2/mock/update_task_1#0"]
    provenance = {**one.provenance, "user": "llm", "user_llm": "m", "tagged": False}
    every = [
        dataclasses.replace(one, key=key, provenance=provenance, simulation={**one.simulation, "task_id": key.task_id})
        for key in mock_keys(4)
        if one.simulation is not None
    ]
    exported = export(write_run(tmp_path / "run", every))
    assert exported["a2a_bench"]["leaderboard_ready"]
    assert exported["info"]["user_info"]["llm"] == "m"
    fewer = export(write_run(tmp_path / "fewer", [r for r in every if r.key.trial < 3]))
    assert fewer["a2a_bench"]["not_leaderboard_ready_because"] == ["fewer than 4 trials of each task"]


def test_a_trial_without_a_reward(some: list[TrialResult], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error: dict[str, Any] = {"error": "e", "error_type": "TransportError"}
    broken = dataclasses.replace(some[0], status="infrastructure_error", reward_info=None, simulation=None, **error)
    failed, missing = "tau2/mock/create_task_1#0", "tau2/mock/create_task_1_with_env_assertions#0"
    directory = write_run(tmp_path / "run", [broken, *some[1:]], absent=[missing])
    target = directory / "out.json"
    assert main(["export", "tau2", str(directory), "-o", str(target)]) == 2
    assert f"{failed} (infrastructure_error), {missing} (missing)" in capsys.readouterr().err
    assert not target.exists()

    exported = export(directory, "--allow-incomplete")
    assert f"counted as a failure: {missing} (missing)" in capsys.readouterr().out
    results = loaded(target)
    metrics = importlib.import_module("tau2.metrics.agent_metrics").compute_metrics(results)
    assert len(results.simulations) == 7
    assert metrics.avg_reward == pytest.approx(sum(r.reward for r in some[1:]) / 7)
    assert set(exported["a2a_bench"]["not_evaluated"]) == {failed, missing}


def test_one_domain_one_label_and_the_last_run_are_exported_and_no_other_benchmark(
    some: list[TrialResult], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = write_run(tmp_path / "two", some[:1], absent=["tau2/airline/1#0"])
    assert main(["export", "tau2", str(two), "-o", str(tmp_path / "x")]) == 2
    assert "tau2/airline/1#0 (missing)" in capsys.readouterr().err
    assert json.loads((tmp_path / "x-mock").read_text())["simulations"], "the complete domain is written all the same"
    assert len(export(two, "--domain", "mock")["simulations"]) == 1
    assert main(["export", "tau2", str(two), "-o", str(tmp_path / "x"), "--domain", "retail"]) == 2
    assert "no trials of the domain 'retail'" in capsys.readouterr().err
    labelled = dataclasses.replace(some[0], key=dataclasses.replace(some[0].key, label="other"))
    doubled = write_run(tmp_path / "labels", [some[0], labelled])
    assert main(["export", "tau2", str(doubled), "-o", str(tmp_path / "x")]) == 2
    assert "several labels" in capsys.readouterr().err
    directory = write_run(tmp_path / "run", some[:2])
    Store(directory).write(dataclasses.replace(some[3], run_id="earlier"))
    assert len(export(directory)["simulations"]) == 2
    assert "1 trial file is of other runs or selections and does not count" in capsys.readouterr().out
    other = dataclasses.replace(some[0], key=TrialKey("desk", "front", "a"))
    directory = write_run(tmp_path / "desk", [other])
    assert main(["export", "tau2", str(directory), "-o", str(tmp_path / "x")]) == 2
    assert "no tau2 trials" in capsys.readouterr().err
    assert main(["export", "tau2", str(tmp_path / "nothing"), "-o", str(tmp_path / "x")]) == 2
    assert "not the results directory of a run" in capsys.readouterr().err
