"""Never twice: resume, shards, merge."""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from commands import command, refused
from examples import rotating
from harness import Bench, junit_cases, junit_properties, log_of, verdict_of, wait_for

from pytest_a2a_bench.results import manifest, merge
from pytest_a2a_bench.results.lock import InUseError, locked

VOLATILE = ("run_id", "reused_from", "started_at", "duration", "turn_latencies", "metrics", "context_id")


def stored(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the trial files of a results directory, without what no two conversations have in common."""
    found = {}
    for path in directory.joinpath("trials").iterdir():
        data = json.loads(path.read_text())
        found[path.name] = {k: v for k, v in data.items() if k not in VOLATILE}
    return found


def test_only_what_has_no_result_is_held_again(desk: Bench) -> None:
    desk.tasks("ok-a ok-b bad-c flaky-d broken-e")
    desk().assert_outcomes(passed=2, failed=1, errors=2)
    result = desk("--a2a-resume", "--junitxml=j.xml")
    result.assert_outcomes(passed=3, failed=1, errors=1)
    result.stdout.fnmatch_lines(["reused, not run again (--a2a-resume): 3 of 5 trials (3 of run *"])
    started = log_of(desk)
    assert {task: started.count(task) for task in set(started)} == {
        "ok-a": 1,
        "ok-b": 1,
        "bad-c": 1,
        "flaky-d": 2,
        "broken-e": 2,
    }
    cases = junit_cases(desk.path / "j.xml")
    assert "a2a.reused_from" in junit_properties(cases["test_desk[ok-a-t0]"])
    assert "a2a.reused_from" not in junit_properties(cases["test_desk[flaky-d-t0]"])


BESIDE = """
import dataclasses, os, pytest

@pytest.fixture(scope="session")
def a2a_message_metadata():
    return {"tenant": os.environ["BY_FIXTURE"]}

def pytest_a2a_bench_prepare_trial(key, metadata):
    metadata["house"] = os.environ["BY_HOOK"]

@pytest.fixture(scope="session")
def a2a_client_config(a2a_client_config):
    return dataclasses.replace(a2a_client_config, streaming=os.environ["BY_CONFIG"])
"""


@pytest.mark.slow
def test_data_beside_the_conversation_are_part_of_the_question(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.add_to_conftest(BESIDE)
    doors = ("BY_FIXTURE", "BY_HOOK", "BY_CONFIG")
    for name in doors:
        monkeypatch.setenv(name, "on")
    for many, changed in enumerate(["BY_FIXTURE", *doors]):
        monkeypatch.setenv(changed, "off" if many else "on")
        for _ in range(2 if not many else 1):
            desk("--a2a-resume").assert_outcomes(passed=1)
            assert len(log_of(desk)) == many + 1, changed


def test_misses_are_tried_again_and_what_is_not_recorded_is_held_again(desk: Bench) -> None:
    desk.tasks("ok-a bad-b")
    desk("--a2a-min-pass=0.3").assert_outcomes(passed=2)  # the gate is one of them
    desk("--a2a-missed", "--a2a-resume").assert_outcomes(failed=1)
    assert log_of(desk) == ["ok-a", "bad-b", "bad-b"]
    for _ in range(2):
        desk("--a2a-resume", "--a2a-record=tapes", "-k", "ok").assert_outcomes(passed=1)
    assert log_of(desk) == ["ok-a", "bad-b", "bad-b", "ok-a"]
    assert len([p for p in (desk.path / "tapes").glob("*.json") if p.name != "agent.json"]) == 1


@pytest.mark.slow
def test_a_run_can_be_killed_at_any_moment(desk: Bench) -> None:
    desk.tasks(" ".join([*(f"ok-0.1-{i}" for i in range(16)), *(f"bad-0.1-{i}" for i in range(4))]))
    desk("-n2").assert_outcomes(passed=16, failed=4)
    undisturbed = stored(desk.path / "a2a-results")
    assert len(undisturbed) == 20
    source = random.Random(20)
    for number, moment in enumerate(rotating([source.uniform(0.1, 4.0) for _ in range(20)], 2)):
        how = ("-n2",) if number % 2 == 0 else ()
        shutil.rmtree(desk.path / "a2a-results", ignore_errors=True)
        (desk.path / "log.txt").unlink(missing_ok=True)
        process = desk.popen(*how, "--a2a-concurrency=4")
        time.sleep(moment)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        ended = len(log_of(desk, "end"))
        desk(*how, "--a2a-resume").assert_outcomes(passed=16, failed=4)
        assert not list((desk.path / "a2a-results").rglob("*.tmp"))
        # At most the four conversations in flight are lost.
        assert sum(trial["reused_from"] is not None for trial in desk.stored()) >= ended - 4
        assert stored(desk.path / "a2a-results") == undisturbed


TASKS = " ".join(f"{'bad' if i % 3 == 0 else 'ok'}-0.0{i % 5}-{i}" for i in range(17))


def test_merged_shards_are_the_whole_and_all_obstacles_are_reported_together(desk: Bench) -> None:
    desk.tasks(TASKS)
    desk("--a2a-results=whole").assert_outcomes(passed=11, failed=6)
    for i in (1, 2, 3):
        desk(f"--a2a-shard={i}/3", f"--a2a-results=part{i}")
    assert sorted(log_of(desk)) == sorted(TASKS.split() * 2)

    assert "desk/front: 11 of 17 trials passed" in command("merge", "part1", "part2", "part3", "-o", "merged").out
    whole, merged = stored(desk.path / "whole"), stored(desk.path / "merged")
    assert merged.keys() == whole.keys()
    for name, data in merged.items():
        # The parts were asked for the same: what makes a difference to a result is the same, and so is its result.
        assert data == whole[name]
    assert set(json.loads((desk.path / "merged" / "run.json").read_text())["keys"]) == {
        f"desk/front/{task}#0" for task in TASKS.split()
    }

    desk("--a2a-shard=2/3", "--a2a-results=other", "--a2a-seed=1")
    lost = next((desk.path / "part1" / "trials").iterdir())
    lost.unlink()

    message = command("merge", "part1", "part2", "-o", "none", code=2).err
    assert "are in none of the directories (shards given: 1/3, 2/3)" in message
    assert "part1 (shard 1/3) has no result of its run for 1 trial: desk/front/" in message
    assert not (desk.path / "none").exists()

    message = command("merge", "part2", "other", "part3", "-o", "none", code=2).err
    assert "trials are in several directories, part2 (shard 2/3) and other (shard 2/3): desk/front/" in message
    assert "seed differs: 300 in part2 (shard 2/3), 1 in other (shard 2/3)" in message

    said = command("merge", "part1", "nowhere", "-o", "none", code=2).err
    assert "nowhere is not the results directory of a run: no such directory" in said

    (desk.path / "full").mkdir()
    (desk.path / "full" / "x").touch()
    command("merge", "part2", "-o", "full", code=2)


def test_more_shards_than_trials_leave_empty_parts(desk: Bench) -> None:
    desk.tasks("ok-a ok-b")
    for i in (1, 2, 3):
        result = desk(f"--a2a-shard={i}/3", f"--a2a-results=part{i}", "--a2a-min-pass=0")
        assert result.ret == 0
    result.stdout.fnmatch_lines(["a2a: shard 3/3 has nothing to do: there are 2 trials"])
    assert json.loads((desk.path / "part3" / "run.json").read_text())["keys"] == []
    assert "desk/front: 2 of 2 trials passed" in command("merge", "part3", "part1", "part2", "-o", "merged").out
    again = desk("--a2a-shard=3/3", "--a2a-results=part3", "-k", "nothing-like-this")
    assert again.ret == 5, "that there is nothing at all is no part's fault"


@pytest.mark.slow
def test_a_killed_run_leaves_no_verdict_of_an_earlier_one(desk: Bench) -> None:
    results = desk.path / "a2a-results"
    desk.tasks("ok bad")
    desk("--a2a-min-pass=0.1")
    assert json.loads((results / "verdict.json").read_text())["verdict"] == "pass"
    (desk.path / "log.txt").unlink()

    desk.tasks("ok bad ok-60")
    with desk.popen("--a2a-min-pass=0.1", "--a2a-concurrency=4") as process:
        wait_for(lambda: any("ok-60" in line for line in log_of(desk, "start")))
        os.killpg(process.pid, signal.SIGKILL)

    assert not (results / "verdict.json").exists()
    # What it missed is not forgotten: it is the last run that ended.
    again = desk("--co", "-q", "--a2a-missed")
    again.stdout.fnmatch_lines(["*test_desk[[]bad-t0]"])
    assert "ok-t0" not in again.stdout.str()
    desk("--a2a-missed")
    assert json.loads((results / "verdict.json").read_text())["trials"]["missed"] == 1
    assert not (results / "verdict.earlier.json").exists()


# Two runs in one results directory at a time: the second is refused, and loses nothing of the first.


@pytest.mark.slow
def test_a_second_run_is_refused_until_the_first_is_gone(desk: Bench) -> None:
    desk.tasks("slow-600")
    process = desk.popen()
    wait_for(lambda: len(log_of(desk)) == 1 or process.poll() is not None)
    desk.tasks("ok")
    result = desk()
    assert result.ret == 4
    (line,) = [line for line in result.errlines if line.strip()]
    assert f"results directory {desk.path}/a2a-results is in use by pytest, process {process.pid} on " in line
    desk("--a2a-results=another").assert_outcomes(passed=1)
    assert log_of(desk) == ["slow-600", "ok"]
    process.kill()
    process.communicate()
    desk().assert_outcomes(passed=1)
    assert not (desk.path / "a2a-results" / "run.lock").exists()


def test_commands_that_write_wait_their_turn_and_others_do_not(desk: Bench) -> None:
    desk().assert_outcomes(passed=1)
    directory = desk.path / "a2a-results"
    with locked(directory, "pytest"):
        with pytest.raises(InUseError, match="a2a-results is in use by pytest, process "):
            merge.write_rescored(manifest.load_selected(directory), [], directory, "rescored")
        before = (directory / "verdict.json").read_bytes()
        said = refused("gate", "a2a-results")
        assert "a2a-results is in use by pytest, process " in said
        assert "; wait for it, or name another directory; if " in said  # not by --a2a-results, which gate has not
        assert (directory / "verdict.json").read_bytes() == before
        command("merge", "a2a-results", "-o", "whole")
        command("export", "html", "a2a-results")
    assert not (desk.path / "whole" / "run.lock").exists()


def test_the_failures_of_a_shard_all_run_again_and_none_is_forgotten(desk: Bench) -> None:
    desk.tasks(" ".join(f"bad-{c}" for c in "abcdefgh"))
    shard = "--a2a-shard=2/2"
    desk(shard)
    missed = sorted(m["key"] for m in verdict_of(desk)["missed"])
    assert len(missed) == 4
    for again in (("--lf",), ("--a2a-missed",)):
        desk(shard, *again).assert_outcomes(failed=4)
    # One that is stopped leaves the others for the next.
    desk(shard, "--a2a-missed", "-x").assert_outcomes(failed=1)
    assert sorted(m["key"] for m in verdict_of(desk)["missed"]) == missed
    # The misses of a whole are divided.
    desk("--a2a-min-pass=0")
    assert len(verdict_of(desk)["missed"]) == 8
    desk(shard, "--a2a-missed").assert_outcomes(failed=4)
