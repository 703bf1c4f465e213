"""Workers that are killed while several trials are in flight: nothing passes, and each lost trial is named once."""

import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from harness import Bench, junit_properties, log_of, verdict_of
from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.plugin.state import LIFELINE, WORKER_INPUT, Collected, WorkerPart
from pytest_a2a_bench.plugin.xdist import Controller, watch_controller
from pytest_a2a_bench.results.store import Store

KILL = "import signal\n            os.kill(os.getpid(), signal.SIGKILL)"
FIXTURE = """
import os, signal
import pytest

@pytest.fixture
def killer(request, trial):
    yield
    if "ok-kill" in request.node.name:
        os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.desk("front")
def test_desk(trial, killer):
    assert trial.success
"""


def outcomes_of(run: Bench) -> dict[str, tuple[str, str | None, str]]:
    """Return status, reward and junit's word of each trial, which is once in junit and in the files, and the same."""
    cases = [c for c in ElementTree.parse(run.path / "j.xml").iter("testcase") if "-t0]" in c.attrib["name"]]
    assert len({case.attrib["name"] for case in cases}) == len(cases)
    found: dict[str, tuple[str, str | None, str]] = {}
    for case in cases:
        properties = junit_properties(case)
        assert len(list(case.iter("property"))) == len(properties)
        tags = {child.tag for child in case} - {"properties", "system-out", "system-err"}
        found[properties["a2a.key"]] = properties["a2a.status"], properties.get("a2a.reward"), " ".join(tags)
    assert {key: each[:2] for key, each in found.items()} == {
        str(r.key): (r.status, None if r.reward_info is None else str(r.reward))
        for r in Store(run.path / "a2a-results").read_all()
    }
    return {key.removeprefix("desk/front/").removesuffix("#0"): each for key, each in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ahead", "restart"),
    [
        pytest.param(3, 4, id="replaced"),
        pytest.param(1, 4, id="replaced, one at a time"),
        pytest.param(4, 0, id="not replaced"),
    ],
)
def test_a_kill_with_several_trials_in_flight(desk: Bench, ahead: int, restart: int) -> None:
    source = (desk.path / "desk.py").read_text()
    (desk.path / "desk.py").write_text(source.replace("os._exit(9)", KILL))
    # Not at a moment at which another conversation ends: that one's result might be lost before it is stored.
    desk.tasks("ok-0.1-a ok-0.1-b crash-0.25 " + " ".join(f"ok-0.1-{i}" for i in range(7)))
    result = desk(
        *("-n2", f"--a2a-concurrency={2 * ahead}", f"--max-worker-restart={restart}"),
        *("--a2a-min-pass=0.1", "--a2a-set=inconclusive=pass", "--junitxml=j.xml"),
    )
    assert result.ret not in (0, 5)
    # The lost ones are in every denominator: in files, properties and the summary.
    message = {name: (status, tags) for name, (status, _, tags) in outcomes_of(desk).items()}
    assert (len(message), message["crash-0.25"]) == (10, ("infrastructure_error", "error"))
    # Without a replacement, items of trials that had ended ahead of them do not run either.
    left = {("evaluated", "error")} if restart == 0 else set()
    assert set(message.values()) <= {("infrastructure_error", "error"), ("evaluated", ""), *left}
    lost = [name for name, (status, _) in message.items() if status == "infrastructure_error"]
    verdict = verdict_of(desk)
    assert verdict["verdict"] != "pass"
    assert verdict["failed"] is True
    assert verdict["errors"] == len(lost)
    stored = {r.key.task_id: r for r in Store(desk.path / "a2a-results").read_all()}
    assert stored["crash-0.25"].error_type == "WorkerCrashed"
    if restart == 0:
        assert sum(each != ("evaluated", "") for each in message.values()) >= 2
        return
    assert result.ret == 1
    # Whichever item waits when a conversation that ran ahead kills the worker is lost with it.
    assert len(lost) <= ahead
    # One that ran ahead may end at the very moment of the crash, before its result is stored.
    finished = [task for task in log_of(desk, "end") if task.startswith("ok")]
    assert len(finished) - len(set(finished)) < ahead
    result.stdout.re_match_lines([r"desk/front +10 +10 +[789] .* [123] +2\.0"])
    result.stdout.no_fnmatch_line("*unknown*")


@pytest.mark.parametrize("ahead", [pytest.param("1", marks=pytest.mark.slow), "8"])
def test_a_kill_after_a_trial_was_evaluated(desk: Bench, ahead: str) -> None:
    desk.makepyfile(test_desk=FIXTURE)
    desk.tasks("ok-kill ok-a ok-b ok-c ok-d ok-e")
    result = desk("-n1", f"--a2a-concurrency={ahead}", "--a2a-min-pass=0.5", "--junitxml=j.xml")
    assert result.ret == 1
    message = outcomes_of(desk)
    assert message.pop("ok-kill") == ("evaluated", "1.0", "error")
    assert list(message.values()) == [("evaluated", "1.0", "")] * 5
    verdict = verdict_of(desk)
    assert (verdict["verdict"], verdict["failed"]) == ("inconclusive", True)
    result.stdout.fnmatch_lines(["items *1 trial was evaluated, and its item ended in an error: desk/front/ok-kill#0"])


@pytest.mark.slow
def test_a_kill_after_an_items_last_report_takes_nothing_back(desk: Bench) -> None:
    """xdist hears of the end of an item after its reports: it would say that the worker crashed while running it."""
    desk.add_to_conftest("""
import os, signal
def pytest_runtest_logfinish(nodeid):
    if "ok-kill" in nodeid and "PYTEST_XDIST_WORKER" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
""")
    desk.tasks("ok-a ok-kill ok-b ok-c")
    result = desk("-n1", "--a2a-concurrency=4", "--junitxml=j.xml")
    result.assert_outcomes(passed=4)
    assert result.ret == 0
    assert list(outcomes_of(desk).values()) == [("evaluated", "1.0", "")] * 4


def test_a_replacement_is_known_by_its_number() -> None:
    assert WorkerPart.of({"workercount": 2, LIFELINE: "x"}) == WorkerPart(lifeline="x", workers=2)
    parts = [WorkerPart.of({"workerid": f"gw{i}", "workercount": 2}) for i in range(4)]
    assert [part.is_replacement for part in parts] == [False, False, True, True]


def test_what_workers_found_is_counted_once() -> None:
    collected = Collected()
    run: Any = SimpleNamespace(collected=collected)
    for notes in (["a", "b"], ["b", "a"]):
        found = {"used": notes[0] == "a", "left_out": len(notes), "notes": notes, "exchanges": 3}
        Controller(run).pytest_testnodedown(SimpleNamespace(workeroutput={WORKER_INPUT: found}), None)
    Controller(run).pytest_testnodedown(SimpleNamespace(), "crashed")
    assert (collected.notes, collected.left_out, collected.exchanges, collected.used) == (["a", "b"], 2, 6, True)


@given(st.integers(1, 50), st.integers(1, 500))
def test_a_limit_for_all_is_divided_among_the_workers(workers: int, total: int) -> None:
    shares = [WorkerPart.of({"workerid": f"gw{i}", "workercount": workers}).share(total) for i in range(workers)]
    assert sum(shares) == max(total, workers)
    assert max(shares) - min(shares) <= 1


def test_the_end_of_the_controller_is_noticed_once_and_on_another_machine_never(tmp_path: Path) -> None:
    lifeline, stopped, died = tmp_path / "lifeline", threading.Semaphore(0), threading.Event()
    lifeline.touch()
    watch_controller(str(lifeline), stopped.release, died.set)
    assert not stopped.acquire(timeout=0.5)
    lifeline.unlink()
    assert stopped.acquire(timeout=60)
    assert not stopped.acquire(timeout=0.5)
    assert not died.is_set()
    elsewhere = threading.Event()
    watch_controller(None, elsewhere.set, lambda: None)
    assert not elsewhere.wait(0.5)


# ``--reruns`` of pytest-rerunfailures: a miss is never repeated, trouble is, and every report tells the same.


pytest.importorskip("pytest_rerunfailures")
RERUNS = ("-ppytest_rerunfailures", "--reruns=2", "--junitxml=j.xml")


# By the name of its entry point, by which pytest-rerunfailures looks for it.
XDIST = ("-pxdist", "--numprocesses")
GATE = ("--a2a-min-pass=0.5",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "gate"),
    [
        pytest.param((), (), id="alone-no gate"),
        pytest.param((), GATE, id="alone-gate"),
        pytest.param((*XDIST, "2"), (), id="workers-no gate"),
        pytest.param((*XDIST, "1"), GATE, id="worker-gate"),
        pytest.param((*XDIST, "2", "--a2a-concurrency=4"), GATE, id="ahead-gate"),
    ],
)
def test_trouble_is_repeated_and_a_miss_never(desk: Bench, workers: tuple[str, ...], gate: tuple[str, ...]) -> None:
    desk.tasks("flaky bad ok-a ok-b down")
    result = desk(*RERUNS, *workers, *gate)
    assert result.ret == 1
    assert Counter(log_of(desk)) == {"flaky": 2, "bad": 1, "ok-a": 1, "ok-b": 1, "down": 3}
    assert {name: each[:2] for name, each in outcomes_of(desk).items()} == {
        **dict.fromkeys(("flaky", "ok-a", "ok-b"), ("evaluated", "1.0")),
        "bad": ("evaluated", "0.0"),
        "down": ("infrastructure_error", None),
    }
    verdict = verdict_of(desk)
    counts = {"reported": 5, "succeeded": 3, "missed": 1, "skipped": 0, "errors": 1, "not_run": 0, "cut_short": False}
    counts |= {"decided": 0}
    assert verdict["trials"] == counts | {"user_faults": 0, "user_retries": 0, "blameless": 5, "blameless_succeeded": 3}
    assert verdict["verdict"] == ("inconclusive" if gate else "failed")
    result.assert_outcomes(passed=3 + len(gate), errors=1, failed=0 if gate else 1)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", ["1", "3"])
def test_a_crash_is_repeated_and_told_once(desk: Bench, ahead: str) -> None:
    source = (desk.path / "desk.py").read_text()
    once = 'if kind == "crash" and not (HERE / key.file_stem).exists():\n            (HERE / key.file_stem).touch()\n'
    (desk.path / "desk.py").write_text(source.replace('if kind == "crash":\n', once))
    desk.tasks("crash-0.2 ok-a ok-b ok-c ok-d")
    result = desk(*RERUNS, *XDIST, "1", f"--a2a-concurrency={ahead}", "--a2a-min-pass=0.5")
    assert list(outcomes_of(desk).values()) == [("evaluated", "1.0", "")] * 5, result.stdout.str()
    assert result.ret == 0
    assert log_of(desk).count("crash-0.2") == 2
