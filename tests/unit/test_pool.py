"""The pool: order, limits, cancellation."""

from __future__ import annotations

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


def test_cancel_is_prompt_and_keeps_what_is_finished() -> None:
    run = Recorder(seconds=0.01)
    pool = Pool(run, 1)
    first = pool.submit(key(0))
    first.result()
    run.seconds = 3600
    running, waiting = pool.submit(key(1)), pool.submit(key(2))
    while pool.in_flight == 0:
        time.sleep(0.005)
    pool.close(grace=60)
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
