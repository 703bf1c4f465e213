"""The pool: order, limits, cancellation."""

import threading
import time
from concurrent.futures import CancelledError

import pytest

from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.trials.pool import Pool


def key(number: int) -> TrialKey:
    return TrialKey("tau2", "mock", str(number))


class Recorder:
    def __init__(self, seconds: float = 0.02) -> None:
        self.seconds = seconds
        self.started: list[TrialKey] = []
        self.peak = 0
        self.live = 0
        self.lock = threading.Lock()

    def __call__(self, trial: TrialKey, cancel: threading.Event) -> TrialResult:
        with self.lock:
            self.started.append(trial)
            self.live += 1
            self.peak = max(self.peak, self.live)
        cancel.wait(self.seconds)
        with self.lock:
            self.live -= 1
        if trial.task_id == "13":
            raise RuntimeError("unlucky")
        return TrialResult(trial, "infrastructure_error" if cancel.is_set() else "evaluated")


def test_at_most_n_in_flight_in_order() -> None:
    run = Recorder()
    pool = Pool(run, 4)
    futures = [pool.submit(key(i)) for i in range(12)]
    assert [f.result(60).key for f in futures] == [key(i) for i in range(12)]
    assert 2 <= run.peak <= 4
    assert sorted(run.started) == sorted(key(i) for i in range(12))
    pool.close()


def test_one_key_runs_once() -> None:
    run = Recorder()
    pool = Pool(run, 2)
    assert pool.submit(key(1)) is pool.submit(key(1))
    pool.submit(key(1)).result(60)
    assert run.started == [key(1)]
    pool.close()


def test_only_what_has_ended_is_forgotten() -> None:
    run = Recorder(seconds=3600)
    pool = Pool(run, 1)
    pool.forget(key(1))
    running = pool.submit(key(1))
    pool.forget(key(1))
    assert pool.submit(key(1)) is running
    pool.close(grace=60)
    assert running.done()
    pool.forget(key(1))
    assert pool.submit(key(1)) is not running


def test_cancel_is_prompt_and_keeps_what_is_finished() -> None:
    run = Recorder(seconds=0.01)
    aborted: list[bool] = []
    pool = Pool(run, 1, lambda: aborted.append(True))
    first = pool.submit(key(0))
    first.result()
    run.seconds = 3600
    running, waiting = pool.submit(key(1)), pool.submit(key(2))
    while pool.in_flight == 0:
        time.sleep(0.005)
    assert not aborted
    pool.close(grace=60)
    assert aborted == [True]
    # Done although nobody waited an hour for it, and close() returned only after its thread had ended.
    assert running.done()
    assert running.result().status == "infrastructure_error"
    with pytest.raises(CancelledError):
        waiting.result()
    assert pool.submit(key(3)).cancelled()
    assert pool.submit(key(0)) is first
    assert first.result().status == "evaluated"


def test_an_exception_reaches_who_asks() -> None:
    pool = Pool(Recorder(), 1)
    with pytest.raises(RuntimeError, match="unlucky"):
        pool.submit(key(13)).result(60)
    assert pool.in_flight == 0
    assert pool.submit(key(1)).result(60).status == "evaluated"
    pool.close()


# -- trials that do not come back --


class Stuck:
    """Trials of which number 1 does not come back before it is let go, whatever anybody does."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.came_back = threading.Event()
        self.cancelled: threading.Event | None = None
        self.thread = threading.current_thread()

    def __call__(self, trial: TrialKey, cancel: threading.Event) -> TrialResult:
        if trial.task_id == "1":
            self.cancelled, self.thread = cancel, threading.current_thread()
            assert self.let_go.wait(120)
            self.came_back.set()
        return TrialResult(trial, "evaluated")

    def give_up(self, trial: TrialKey) -> TrialResult:
        return TrialResult(trial, "infrastructure_error", error_type="TrialTimeoutError")


def test_a_trial_that_does_not_come_back_is_given_up_and_others_run() -> None:
    run = Stuck()
    pool = Pool(run, 1, patience=lambda began: began + 0.05, give_up=run.give_up)
    stuck, others = pool.submit(key(1)), [pool.submit(key(i)) for i in (2, 3)]
    assert stuck.result(60).error_type == "TrialTimeoutError"
    assert [f.result(60).status for f in others] == ["evaluated"] * 2
    assert run.cancelled is not None
    assert run.cancelled.is_set()
    # What comes back late changes nothing, and its thread takes no further trial.
    run.let_go.set()
    assert run.came_back.wait(60)
    assert pool.submit(key(4)).result(60).status == "evaluated"
    assert stuck.result().error_type == "TrialTimeoutError"
    pool.close(grace=60)
    run.thread.join(60)
    assert not any(thread.is_alive() for thread in (*pool._threads, run.thread))


def test_an_answer_during_cancellation_does_not_count() -> None:
    run = Stuck()

    def give_up(trial: TrialKey) -> TrialResult:
        run.let_go.set()
        assert run.came_back.wait(60)
        return run.give_up(trial)

    def patience(began: float) -> float:
        # The second trial has time, whatever the machine does.
        return began + 3600 * run.came_back.is_set()

    pool = Pool(run, 1, patience=patience, give_up=give_up)
    assert pool.submit(key(1)).result(60).error_type == "TrialTimeoutError"
    assert pool.submit(key(2)).result(60).status == "evaluated"
    pool.close(grace=60)


def test_a_trial_that_ends_just_then_is_waited_for() -> None:
    run = Stuck()
    looked = threading.Event()

    def give_up(trial: TrialKey) -> None:
        looked.set()

    pool = Pool(run, 1, patience=lambda began: began, give_up=give_up)
    future = pool.submit(key(1))
    assert looked.wait(60)
    run.let_go.set()
    assert future.result(60).status == "evaluated"
    pool.close()


def test_giving_up_that_fails_reaches_who_asks() -> None:
    run = Stuck()

    def give_up(trial: TrialKey) -> TrialResult:
        raise OSError("disk full")

    seconds = iter((3600, 0.01, 3600))
    pool = Pool(run, 1, patience=lambda began: began + next(seconds), give_up=give_up)
    # The clock has nothing to look at for an hour, and then there is something.
    assert pool.submit(key(0)).result(60).status == "evaluated"
    with pytest.raises(OSError, match="disk full"):
        pool.submit(key(1)).result(60)
    assert pool.submit(key(2)).result(60).status == "evaluated"
    run.let_go.set()
    pool.close(grace=60)
