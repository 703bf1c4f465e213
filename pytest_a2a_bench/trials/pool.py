"""Many trials in flight in one process: daemon threads over a queue, each waiting for its conversation.

tau2's orchestrator is synchronous, so each conversation has a thread; what it waits for is served by the one event
loop of the A2A client. Threads are daemons, because a model call that does not return must not keep Ctrl-C waiting.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from pytest_a2a_bench.model import TrialKey, TrialResult

Run = Callable[[TrialKey, threading.Event], TrialResult]


class Pool:
    """Runs trials ahead, at most ``concurrency`` at a time, in the order in which they were submitted.

    :param run: runs one trial; usually ``Runner.run``.
    :param abort: aborts what is in flight; usually ``Runner.cancel_all``.
    """

    def __init__(self, run: Run, concurrency: int, abort: Callable[[], None] | None = None) -> None:
        self.concurrency = concurrency
        self._run = run
        self._abort = abort
        self._queue: queue.SimpleQueue[tuple[TrialKey, Future[TrialResult]] | None] = queue.SimpleQueue()
        self._futures: dict[TrialKey, Future[TrialResult]] = {}
        self._threads: list[threading.Thread] = []
        self._cancel = threading.Event()
        self._lock = threading.Lock()
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """How many trials are running now."""
        return self._in_flight

    def submit(self, key: TrialKey) -> Future[TrialResult]:
        """Queue a trial and return its future; the same key again gives the same future."""
        with self._lock:
            known = self._futures.get(key)
            if known is not None:
                return known
            future: Future[TrialResult] = Future()
            self._futures[key] = future
            if self._cancel.is_set():
                future.cancel()
                return future
            self._queue.put((key, future))
            if len(self._threads) < min(self.concurrency, len(self._futures)):
                self._start_thread()
        return future

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"a2a-trial-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while not self._cancel.is_set():
            job = self._queue.get()
            if job is not None and job[1].set_running_or_notify_cancel():
                self._run_one(*job)

    def _run_one(self, key: TrialKey, future: Future[TrialResult]) -> None:
        with self._lock:
            self._in_flight += 1
        try:
            result = self._run(key, self._cancel)
        except BaseException as exc:
            future.set_exception(exc)
        else:
            future.set_result(result)
        finally:
            with self._lock:
                self._in_flight -= 1

    def cancel_all(self) -> None:
        """Start no further trial and abort those in flight."""
        self._cancel.set()
        with self._lock:
            futures = list(self._futures.values())
            for _ in self._threads:
                # A thread that waits for its next trial looks up and finds that there is none.
                self._queue.put(None)
        for future in futures:
            future.cancel()
        if self._abort is not None:
            self._abort()

    def close(self, grace: float = 5.0) -> None:
        """Cancel what is left and wait for the threads, at most ``grace`` seconds for all of them."""
        self.cancel_all()
        deadline = time.monotonic() + grace
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
