"""Finished trials verified beside the conversations: in one thread, in the order in which they finished.

A result stands in its file as soon as it is there; what its verification came to is added to that file.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.base import Verifier
from pytest_a2a_bench.errors import TrialCancelledError
from pytest_a2a_bench.model import TrialKey, TrialResult, Verification
from pytest_a2a_bench.results.store import Store, StoreError
from pytest_a2a_bench.settings import Settings
from pytest_a2a_bench.trials.concluding import describe

_TICK = 0.5


class Verifying:
    """Verifies trials.

    :param suites: those whose verifiers are started now, because they take long to start.
    """

    def __init__(self, settings: Settings, store: Store, suites: Iterable[str] = ()) -> None:
        self._settings = settings
        self._store = store
        self._verifiers: dict[str, Verifier | None] = {}
        self._futures: dict[TrialKey, Future[TrialResult]] = {}
        self._queue: queue.SimpleQueue[TrialResult | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._suites = list(dict.fromkeys(suites))
        # A daemon: nothing that it does is worth keeping a process alive for.
        threading.Thread(target=self._work, name="a2a-verify", daemon=True).start()

    def submit(self, result: TrialResult) -> None:
        """Queue a finished trial; one that is verified already, or has nothing to be verified, is not touched."""
        if needs_verifying(result):
            with self._lock:
                self._queued(result)

    def wait(self, result: TrialResult, tick: Callable[[], None] = lambda: None) -> TrialResult:
        """Return a result with what its verification came to.

        :param tick: called now and then.
        :raises TrialCancelledError: if the run is stopping.
        """
        if not needs_verifying(result):
            return result
        with self._lock:
            future = self._queued(result)
        # Asked itself: to wait() a future that was cancelled before it ran is never done.
        while not future.done():
            concurrent.futures.wait([future], timeout=_TICK)
            tick()
        if future.cancelled():
            raise TrialCancelledError(f"{result.key} was not verified, because the run is stopping")
        with self._lock:
            self._futures.pop(result.key, None)
        return future.result()

    def close(self) -> None:
        """Verify nothing more. Safe to call again, and from any thread."""
        with self._lock:
            self._closed = True
            waiting, verifiers = list(self._futures.values()), list(self._verifiers.values())
        self._queue.put(None)
        for future in waiting:
            future.cancel()
        for verifier in verifiers:
            if verifier is not None:
                verifier.close()

    def _queued(self, result: TrialResult) -> Future[TrialResult]:
        if result.key not in self._futures:
            future = self._futures[result.key] = Future()
            if self._closed:
                future.cancel()
            self._queue.put(result)
        return self._futures[result.key]

    def _work(self) -> None:
        for suite in self._suites:
            with contextlib.suppress(Exception):  # each trial says so
                self._open(suite)
        while not self._closed and (result := self._queue.get()) is not None:
            future = self._futures[result.key]
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(self._verified(result))
                # Whatever it is: somebody waits.
                except BaseException as error:
                    future.set_exception(error)

    def _open(self, suite: str) -> Verifier | None:
        """Return a suite's verifier.

        :raises A2ABenchError: if it has one that cannot be had.
        """
        if suite not in self._verifiers:
            self._verifiers[suite] = registry.open_verifier(suite, self._settings)
            if self._closed and (opened := self._verifiers[suite]) is not None:
                opened.close()
        return self._verifiers[suite]

    def _verified(self, result: TrialResult) -> TrialResult:
        verified = verify(result, self._open)
        try:
            return self._store.write(verified)
        except StoreError as error:
            return dataclasses.replace(verified, verification=Verification("failed", str(error)))


def needs_verifying(result: TrialResult) -> bool:
    """Tell whether a trial has something to be verified that is not verified yet."""
    done = result.verification is not None and result.verification.status in ("verified", "not_verifiable")
    return result.is_finished and not done


def verify(result: TrialResult, open_verifier: Callable[[str], Verifier | None]) -> TrialResult:
    """Return a finished trial's result with what its suite's verifier says of it.

    :param open_verifier: returns a suite's verifier, or None where it has none.
    """
    try:
        verifier = open_verifier(result.key.suite)
        found = verifier.verify(result) if verifier is not None else None
    except Exception as error:  # somebody's verifier; that it broke says nothing about the trial
        found = Verification("failed", describe(error))
    if found is None:
        found = Verification("not_verifiable", f"{result.key.suite} has no implementation but the one that was used")
    return dataclasses.replace(result, verification=found)
