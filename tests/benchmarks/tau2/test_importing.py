"""Results of tau2's own runner, in each of their layouts, are a run like any other."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.tau2 import files
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.store import StoreError


@pytest.fixture
def written(run: Path) -> dict[str, Any]:
    """What tau2's own runner would have written of a run."""
    target = run / "out.json"
    assert main(["export", "tau2", str(run), "-o", str(target)]) == 0
    content: dict[str, Any] = json.loads(target.read_text())
    del content["a2a_bench"]
    content["info"]["user_info"] = {"implementation": "user_simulator", "llm": "gpt-4.1", "llm_args": {}}
    content["simulation_index"] = None
    return content


def whole(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "anything.json"
    path.write_text(json.dumps(content))
    return path


def apart(folder: Path, content: dict[str, Any]) -> Path:
    (folder / "simulations").mkdir()
    for number, simulation in enumerate(content["simulations"]):
        (folder / "simulations" / f"{number}.json").write_text(json.dumps(simulation))
    (folder / "results.json").write_text(json.dumps({k: v for k, v in content.items() if k != "simulations"}))
    return folder


def submitted(folder: Path, content: dict[str, Any]) -> Path:
    (folder / "trajectories").mkdir()
    (folder / "submission.json").write_text("{}")
    whole(folder / "trajectories", content)
    return folder


@in_one_test("layout", [whole, apart, submitted])
def test_every_layout_is_read(some: list[TrialResult], written: dict[str, Any], tmp_path: Path, layout: Any) -> None:
    theirs = tmp_path / layout.__name__
    theirs.mkdir()
    found = files.read(layout(theirs, written))
    assert found is not None
    ours = {str(r.key): r for r in some}
    assert found.manifest.keys == tuple(str(r.key) for r in found.results)
    assert set(found.manifest.keys) == set(ours)
    assert found.manifest.agent == "a2a Readonly 1.0"
    for one in found.results:
        mine = ours[str(one.key)]
        assert mine.reward_info is not None
        assert one.reward_info == dataclasses.replace(mine.reward_info, db_diff=())
        for name in ("status", "termination_reason", "transcript", "seed", "user_facts"):
            assert getattr(one, name) == getattr(mine, name), name
        assert (one.user, one.provenance["benchmark"]) == ("gpt-4.1", mine.provenance["benchmark"])


def test_the_pages_of_a_viewer(some: list[TrialResult], written: dict[str, Any], tmp_path: Path) -> None:
    tasks = {task["id"]: task for task in written["tasks"]}
    folder = tmp_path / "viewer"
    folder.mkdir()
    (folder / "index.json").write_text("{}")
    for number, one in enumerate(s for s in written["simulations"] if s["trial"] == 0):
        message = {"simulation_id": one["id"], "timestamp": one["start_time"], "duration_sec": one["duration"]}
        message |= {name: one[name] for name in ("termination_reason", "agent_cost", "user_cost")}
        task = json.loads(json.dumps(tasks[one["task_id"]]))
        task["user_scenario"]["instructions"] = {"domain": "mock"}
        page = {"task": task, "run_info": message, **{n: one[n] for n in ("task_id", "reward_info", "messages")}}
        (folder / f"task_{number}.json").write_text(json.dumps(page))
    (folder / "task_9.json").write_text(json.dumps({"task_id": "x", "task": {"id": "x"}, "messages": []}))
    found = files.read(folder)
    assert found is not None
    assert {str(r.key): r.reward for r in found.results} == {str(r.key): r.reward for r in some[::2]}


def test_every_command_reads_it(written: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(whole(tmp_path, written))
    assert main(["gate", path, "--min-pass", "0.1"]) == 0
    other = tmp_path / "other.json"
    other.write_text(Path(path).read_text())
    assert main(["compare", path, str(other), "--strict"]) in (0, 1)
    assert "not comparable" not in capsys.readouterr().out
    assert main(["gate", path, "--rescore"]) == 0
    assert "0 rewards changed, 6 are the same" in capsys.readouterr().out
    main(["show", "--results", path])
    assert "never called create_task" in capsys.readouterr().out
    assert main(["export", "html", path, "-o", str(tmp_path / "page.html")]) == 0
    assert main(["merge", path, "-o", str(tmp_path / "kept")]) == 0
    kept = manifest.load_selected(tmp_path / "kept")
    assert len(kept.results) == 6
    assert kept.results[0].provenance["imported_from"] == "anything.json"


@pytest.mark.parametrize("of_task", [True, False])
def test_other_data_are_named_by_their_commit(written: dict[str, Any], tmp_path: Path, of_task: bool) -> None:
    if of_task:
        written["tasks"][0]["evaluation_criteria"]["actions"] = []
    else:
        written["simulations"][0]["reward_info"]["action_checks"][0]["action"]["arguments"] = {}
    written["info"]["git_commit"] = "0123456789abcdef"
    found = files.read(whole(tmp_path, written))
    assert found is not None
    assert {r.provenance["variant"] for r in found.results} == {"data of tau2 at 0123456789ab"}


def test_files_of_a_submission_are_one_run_and_rewards_of_other_data_are_explained(
    written: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written["tasks"][0]["evaluation_criteria"]["actions"] = []
    written["info"]["git_commit"] = "0123456789abcdef"
    for simulation in written["simulations"]:
        simulation["reward_info"]["reward"] = 1.0
    first, second = written["simulations"][:1], written["simulations"][1:]
    path = submitted(tmp_path, {**written, "simulations": first})
    (path / "trajectories" / "more.json").write_text(json.dumps({**written, "simulations": second}))
    assert main(["gate", str(path), "--rescore"]) == 1
    message = capsys.readouterr().out
    assert "6 trials: " in message
    assert "there is no result" not in message
    assert "the conversations are of tau2 at 0123456789ab, evaluated by " in message


@in_one_test(
    ("change", "message"),
    [
        ({"simulations": []}, "no simulation"),
        (
            {"simulations": [{"ticks": [1], "task_id": "1"}]},
            "has full-duplex .voice. conversations, which are not read",
        ),
        ({"simulations": [{"messages": []}]}, "KeyError: 'task_id'"),
        ({"info": {}}, "KeyError: 'environment_info'"),
        ({"info": None}, "TypeError"),
    ],
)
def test_unreadable_input_is_one_line(
    written: dict[str, Any], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        files.read(whole(tmp_path, {**written, **change}))


def test_calls_of_tools_that_only_a_fork_has_are_left_out_of_a_rescoring(
    written: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = {"name": "check_for_stop", "arguments": {}}
    for simulation in written["simulations"]:
        asks = {"role": "user", "content": None, "tool_calls": [{**message, "id": "x1", "requestor": "user"}]}
        answer = {"role": "tool", "id": "x1", "content": "no", "requestor": "user", "error": False}
        simulation["messages"][2:2] = [asks, answer]
    assert main(["gate", str(whole(tmp_path, written)), "--rescore"]) == 0
    assert "0 rewards changed, 6 are the same" in capsys.readouterr().out


def test_files_of_others_are_not_imported(tmp_path: Path) -> None:
    for name, text in {"a.json": "{", "b.json": "[]", "c.json": '{"tasks": {}}', "d.txt": "{}"}.items():
        (tmp_path / name).write_text(text)
        assert files.read(tmp_path / name) is None
        with pytest.raises(StoreError, match="neither a results directory nor a file of results"):
            manifest.load_selected(tmp_path / name)
    assert files.read(tmp_path) is None
    assert files.read(tmp_path / "nowhere") is None
