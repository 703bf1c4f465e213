import json
import re
import signal
import threading
from pathlib import Path

import pytest
import xdist.remote
from harness import Bench, junit_cases, log_of, wait_for

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.base import Benchmark
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results.store import Store, is_alive
from pytest_a2a_bench.trials import runner

AHEAD = pytest.mark.skipif(
    not hasattr(xdist.remote, "TestQueue"),
    reason="this pytest-xdist keeps what it sends where nobody can look: one conversation a worker",
)


def many(kind: str, count: int) -> str:
    return " ".join(f"{kind}-{i}" for i in range(count))


def peak(path: Path) -> int:
    """Return how many conversations were in flight at once."""
    running = most = 0
    for line in path.read_text().splitlines():
        running += 1 if line.startswith("start") else -1
        most = max(most, running)
    return most


@pytest.mark.parametrize(("concurrency", "expected"), [(1, 1), (4, 4)])
def test_conversations_in_flight(desk: Bench, concurrency: int, expected: int) -> None:
    desk.tasks(many(f"meet-{expected}", 8))
    result = desk(f"--a2a-concurrency={concurrency}", "-v")
    result.assert_outcomes(passed=8)
    assert peak(desk.path / "log.txt") == expected
    order = [line.split("[")[1].split("]")[0] for line in result.outlines if "PASSED" in line]
    assert order == [f"meet-{expected}-{i}-t0" for i in range(8)]


@pytest.mark.slow
@AHEAD
def test_conversations_run_ahead_in_every_worker(desk: Bench) -> None:
    desk.tasks(many("meet-7", 14))
    desk("-n2", "--a2a-concurrency=7").assert_outcomes(passed=14)
    assert peak(desk.path / "log.txt") == 7
    assert len(log_of(desk)) == 14


@AHEAD
@pytest.mark.slow
@pytest.mark.parametrize(("dist", "expected"), [("loadfile", 4), ("worksteal", 2), ("each", 4)])
def test_a_worker_begins_what_it_was_sent_however_items_are_distributed(desk: Bench, dist: str, expected: int) -> None:
    desk.tasks(many(f"meet-{expected}", 8))
    # Where items may be taken away again, a worker is only sure of two.
    desk("-n1", "--a2a-concurrency=4", "--dist", dist).assert_outcomes(passed=8)
    assert len(log_of(desk)) == 8
    assert peak(desk.path / "log.txt") >= expected


def test_items_that_may_be_skipped_start_nothing(desk: Bench) -> None:
    desk.tasks("ok")
    desk.makepyfile(
        test_desk="""
        import pytest
        @pytest.mark.skip
        @pytest.mark.desk("front", label="a")
        def test_skip(trial): pass
        @pytest.mark.xfail(run=False)
        @pytest.mark.desk("front", label="b")
        def test_xfail(trial): pass
        @pytest.mark.skipif(False, reason="")
        @pytest.mark.desk("front", label="c")
        def test_runs(trial): assert trial.success
        """
    )
    desk("--a2a-concurrency=4").assert_outcomes(passed=1, skipped=1, xfailed=1)
    assert log_of(desk) == ["ok"]


def test_stopping_at_the_first_failure_starts_no_more(desk: Bench) -> None:
    desk.tasks("bad " + many("ok-600", 20))
    desk("-x", "--a2a-concurrency=3").assert_outcomes(failed=1)
    assert len(log_of(desk)) <= 4
    assert log_of(desk, "end") == ["bad"]
    assert sorted(log_of(desk, "cancelled")) == sorted(log_of(desk))[1:]


def test_deterministic_errors_are_not_rerun(desk: Bench) -> None:
    pytest.importorskip("pytest_rerunfailures")
    desk.tasks("bug broken down")
    desk("-ppytest_rerunfailures", "--reruns=1").stdout.fnmatch_lines(["*3 error*3 rerun in*"])
    assert sorted(log_of(desk)) == ["broken", "bug", "down", "down"]


@AHEAD
@pytest.mark.slow
def test_files_of_an_earlier_run_acquit_nobody_of_a_crash(desk: Bench) -> None:
    tasks = ["ok-0.6-a", "ok-0.6-b", "ok-0.6-c", "crash-0.1"]
    desk.tasks(" ".join(tasks))
    store = Store(desk.path / "a2a-results")
    for task in tasks:
        store.write(TrialResult(TrialKey("desk", "front", task), "evaluated", run_id="earlier"))
    desk("-n1", "--a2a-concurrency=4").assert_outcomes(passed=2, errors=2)


@pytest.mark.parametrize(
    ("workers", "signum"),
    [
        pytest.param((), signal.SIGINT, id="alone-Ctrl-C", marks=pytest.mark.slow),
        pytest.param((), signal.SIGTERM, id="alone-SIGTERM"),
        pytest.param(("-n2",), signal.SIGINT, id="workers-Ctrl-C", marks=[AHEAD, pytest.mark.slow]),
        pytest.param(("-n1",), signal.SIGTERM, id="worker-SIGTERM", marks=[AHEAD, pytest.mark.slow]),
    ],
)
def test_interruption_keeps_finished_work(desk: Bench, signum: signal.Signals, workers: tuple[str, ...]) -> None:
    desk.tasks("ok-a ok-b slow-600-a slow-600-b ok-c ok-d")
    desk.add_to_conftest("""
import os, pathlib
def pytest_runtest_logreport(report):
    if report.when == "teardown" and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(pathlib.Path(__file__).parent / "log.txt", "a") as stream:
            stream.write(f"reported {report.nodeid.partition('[')[2]}\\n")
""")
    process = desk.popen(*workers, "--a2a-concurrency=8", "--junitxml=j.xml")
    wait_for(lambda: len(log_of(desk, "end")) >= 4 or process.poll() is not None)
    wait_for(lambda: len(log_of(desk, "reported")) >= 2 or process.poll() is not None)
    process.send_signal(signum)
    out = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 2, out
    assert "a2a benchmark summary" in out
    assert "finished, but not reported by an item: " in out
    assert len(junit_cases(desk.path / "j.xml")) >= 2
    files = [json.loads(p.read_text()) for p in (desk.path / "a2a-results" / "trials").glob("*.json")]
    assert sum(f["status"] == "evaluated" for f in files) == 4
    assert sorted(log_of(desk, "cancelled")) == ["slow-600-a", "slow-600-b"]


@pytest.mark.slow
@pytest.mark.parametrize("busy", ["gw1", "gw0 gw1"])
def test_workers_that_collect_are_not_waited_for(desk: Bench, monkeypatch: pytest.MonkeyPatch, busy: str) -> None:
    desk.tasks("ok-a ok-b")
    monkeypatch.setenv("BUSY", busy)
    desk.add_to_conftest("""
import os, pathlib, threading

def note(what):
    (pathlib.Path(__file__).parent / f"{what}.txt").touch()

def pytest_collection_modifyitems():
    if os.environ.get("PYTEST_XDIST_WORKER") in os.environ["BUSY"].split():
        note("collecting")
        try:
            threading.Event().wait(600)
        except KeyboardInterrupt:
            # What xdist's workers get when half of the controller's ten seconds are over.
            note("waited-for")
            raise

def pytest_xdist_node_collection_finished():
    note("collected")
""")
    process = desk.popen("-n2", "--a2a-concurrency=1")
    begun = ["collecting.txt", *(["collected.txt"] if busy == "gw1" else [])]
    wait_for(lambda: all((desk.path / name).exists() for name in begun) or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    out = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 2, out
    assert "Terminated: interrupted by SIGTERM" in out
    assert not (desk.path / "waited-for.txt").exists()


@AHEAD
@pytest.mark.slow
def test_workers_stop_when_their_controller_is_killed(desk: Bench) -> None:
    desk.tasks(many("slow-600", 4))
    process = desk.popen("-n2", "--a2a-concurrency=4")
    wait_for(lambda: len(log_of(desk)) == 4)
    pids = {int(line.split()[2]) for line in (desk.path / "log.txt").read_text().splitlines()}
    process.kill()
    process.wait()
    wait_for(lambda: len(log_of(desk, "cancelled")) == 4)
    wait_for(lambda: not any(map(is_alive, pids)))
    if process.stdout:
        process.stdout.close()


def test_a_hook_prepares_each_trial_in_its_own_thread(desk: Bench) -> None:
    desk.tasks("ok bad")
    desk.add_to_conftest("""
import threading
def pytest_a2a_bench_prepare_trial(key, metadata):
    assert metadata == {"tenant": "blue"}
    assert threading.current_thread() is not threading.main_thread()
    if key.task_id == "bad":
        raise ValueError("no room for " + str(key))

import pytest
@pytest.fixture(scope="session")
def a2a_message_metadata():
    return {"tenant": "blue"}
""")
    result = desk()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*ValueError: no room for desk/front/bad#0"])


@pytest.mark.slow
def test_reported_results_are_released(desk: Bench) -> None:
    desk.tasks(" ".join(f"ok-0-{i}" for i in range(12)))
    desk.add_to_conftest("""
import gc
from pytest_a2a_bench.model import TrialResult
def pytest_runtest_logfinish():
    gc.collect()
    print('results in memory:', sum(type(o) is TrialResult for o in gc.get_objects()))
""")
    counts = [int(n) for n in re.findall(r"results in memory: (\d+)", desk.apart("-s").stdout.str())]
    assert len(counts) == 12
    # The last one may still be in the hands of the thread that held it.
    assert max(counts) <= 2


def test_what_trials_import_is_imported_before_their_threads(desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports of LiteLLM and of benchmarks hide warnings of dependencies, which several threads let out again."""
    importing: list[tuple[str, threading.Thread]] = []

    def get_benchmark(suite: str) -> Benchmark:
        importing.append((suite, threading.current_thread()))
        return registry.get_benchmark(suite)

    monkeypatch.setattr(runner, "get_benchmark", get_benchmark)
    monkeypatch.setattr(runner, "load_litellm", lambda: importing.append(("litellm", threading.current_thread())))
    desk.tasks("ok")
    desk()
    assert importing == [("desk", threading.main_thread())]
    importing.clear()
    desk("--a2a-set=agent-model=gpt-4")
    assert importing == [("litellm", threading.main_thread()), ("desk", threading.main_thread())]
