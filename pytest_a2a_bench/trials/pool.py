"""Many trials in flight in one process: daemon threads over a queue, each waiting for its conversation.

tau2's orchestrator is synchronous, so each conversation has a thread; its requests are served by the one event
loop of the A2A client. Threads are daemons, because a model call that does not return must not keep Ctrl-C waiting.
For the same reason a trial's time is kept here too: one whose thread is not back a while after its deadline is given
up, and another thread takes its place.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from pytest_a2a_bench.model import TrialKey, TrialResult

Run = Callable[[TrialKey, threading.Event], TrialResult]
Patience = Callable[[float], float | None]
GiveUp = Callable[[TrialKey], TrialResult | None]

_LOOK_AGAIN = 0.5
"""Seconds after which a trial is looked at again that was just ending when its time was up."""


class _Job:
    """One trial of a pool.

    :ivar thread: the one that runs it.
    :ivar patience: until when it is waited for, by ``time.monotonic()``; None while it waits, and for ever.
    :ivar is_doubted: whether it is being given up just now, so that its thread has to wait whether it still counts.
    :ivar is_settled: whether its future has, or is about to have, its outcome.
    :ivar is_given_up: whether another thread has taken its thread's place.
    """

    def __init__(self, key: TrialKey) -> None:
        self.key = key
        self.future: Future[TrialResult] = Future()
        self.cancel = threading.Event()
        self.thread = threading.current_thread()
        self.patience: float | None = None
        self.is_doubted = False
        self.is_settled = False
        self.is_given_up = False


class Pool:
    """Runs trials ahead, at most ``concurrency`` at a time, in the order in which they were submitted.

    :param run: runs one trial; usually ``Runner.run``.
    :param abort: aborts the requests in flight; usually ``Runner.cancel_all``.
    :param patience: until when a trial is waited for that began at a time; usually ``Limits.patience``.
    :param give_up: ends a trial that is not back by then; usually ``Runner.give_up``.
    """

    def __init__(
        self,
        run: Run,
        concurrency: int,
        abort: Callable[[], None] | None = None,
        patience: Patience = lambda began: None,
        give_up: GiveUp = lambda key: None,
    ) -> None:
        self.concurrency = concurrency
        self._run = run
        self._abort = abort
        self._patience = patience
        self._give_up = give_up
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._jobs: dict[TrialKey, _Job] = {}
        self._running: set[_Job] = set()
        self._threads: list[threading.Thread] = []
        self._watch: threading.Thread | None = None
        self._cancelled = False
        self._changed = threading.Condition()

    @property
    def in_flight(self) -> int:
        """How many trials are running now."""
        return len(self._running)

    def submit(self, key: TrialKey) -> Future[TrialResult]:
        """Queue a trial and return its future; the same key again gives the same future."""
        with self._changed:
            known = self._jobs.get(key)
            if known is not None:
                return known.future
            job = self._jobs[key] = _Job(key)
            if self._cancelled:
                job.future.cancel()
                return job.future
            self._queue.put(job)
            if len(self._threads) < min(self.concurrency, len(self._jobs)):
                self._start_thread()
        return job.future

    def forget(self, key: TrialKey) -> None:
        """Let go of a trial that has ended; submitted again, it would be run again."""
        with self._changed:
            job = self._jobs.get(key)
            if job is not None and job.future.done():
                del self._jobs[key]

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"a2a-trial-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while not self._cancelled:
            job = self._queue.get()
            if job is not None and job.future.set_running_or_notify_cancel():
                self._run_one(job)
                if job.is_given_up:
                    return

    def _run_one(self, job: _Job) -> None:
        with self._changed:
            job.thread = threading.current_thread()
            job.patience = self._patience(time.monotonic())
            self._running.add(job)
            if self._cancelled:
                job.cancel.set()
            if job.patience is not None:
                self._keep_watch()
        try:
            result = self._run(job.key, job.cancel)
        except BaseException as exc:
            if self._settle(job):
                job.future.set_exception(exc)
        else:
            if self._settle(job):
                job.future.set_result(result)

    def _settle(self, job: _Job, *, give_up: bool = False) -> bool:
        """Note that a trial has ended, and return whether it is for the caller to say how.

        :param give_up: let another thread take the place of its own, which does not come back.
        """
        with self._changed:
            if give_up:
                job.is_doubted = False
                self._changed.notify_all()
            else:
                self._changed.wait_for(lambda: not job.is_doubted)
            self._running.discard(job)
            if job.is_settled:
                return False
            job.is_settled, job.is_given_up = True, give_up
            if give_up:
                job.cancel.set()
                self._threads.remove(job.thread)  # nobody waits for it at the end
                if not self._cancelled:
                    self._start_thread()
            return True

    # -- trials that do not come back --

    def _keep_watch(self) -> None:
        """Start the thread that watches time limits, and add this trial's."""
        if self._watch is None:
            self._watch = threading.Thread(target=self._watch_clock, name="a2a-trial-watch", daemon=True)
            self._watch.start()
        self._changed.notify_all()

    def _watch_clock(self) -> None:
        while True:
            with self._changed:
                if self._cancelled:
                    return
                now = time.monotonic()
                times = {job: job.patience for job in self._running if job.patience is not None}
                late = [job for job, until in times.items() if until <= now]
                if not late:
                    self._changed.wait(min(min(times.values()) - now, threading.TIMEOUT_MAX) if times else None)
            for job in late:
                self._end(job)

    def _end(self, job: _Job) -> None:
        with self._changed:
            if job.is_settled:
                return
            job.is_doubted = True
        try:
            result = self._give_up(job.key)
        except BaseException as exc:
            if self._settle(job, give_up=True):
                job.future.set_exception(exc)
            return
        if result is None:
            with self._changed:
                job.patience = time.monotonic() + _LOOK_AGAIN
                job.is_doubted = False
                self._changed.notify_all()
        elif self._settle(job, give_up=True):
            job.future.set_result(result)

    # -- the end --

    def cancel_all(self) -> None:
        """Start no further trial and abort those in flight."""
        with self._changed:
            self._cancelled = True
            jobs = list(self._jobs.values())
            for job in self._running:
                job.cancel.set()
            for _ in self._threads:
                # A thread that waits for its next trial looks up and finds that there is none.
                self._queue.put(None)
            self._changed.notify_all()
        for job in jobs:
            job.future.cancel()
        if self._abort is not None:
            self._abort()

    def close(self, grace: float = 5.0) -> None:
        """Cancel the remaining trials and wait for the threads, at most ``grace`` seconds for all of them."""
        self.cancel_all()
        deadline = time.monotonic() + grace
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
