"""Conversations run ahead of the items that report them; pytest's own loop and order stay as they are."""

from __future__ import annotations

import concurrent.futures
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import pytest

from pytest_a2a_bench.errors import OwnFunctionError, TrialCancelledError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.plugin.run.state import TRIAL
from pytest_a2a_bench.results.store import load_trial
from pytest_a2a_bench.trials.pool import Pool
from pytest_a2a_bench.trials.runner import Runners
from pytest_a2a_bench.trials.stopping import Opened

_TICK = 0.5
_WINDOW = 500


class _Reported(NamedTuple):
    """What is kept of a trial that was reported: its result only where no file has it."""

    is_repeated: bool
    result: TrialResult | None


class Schedule:
    """The conversations of one process.

    :param ahead: trials in the order in which their items will run; they start before their items do.
    :param careful: trials that are held one at a time before any other starts: after a worker crashed, one of these
        was the cause, and held alone it cannot take others with it.
    :param tick: called now and then while an item waits.
    :ivar opened: returns why no trial of a trial's agent begins in this process; None where they do. Never waits.
    """

    def __init__(
        self,
        runner: Runners,
        concurrency: int,
        ahead: Sequence[TrialKey],
        tick: Callable[[], None],
        careful: Sequence[TrialKey] = (),
        opened: Callable[[TrialKey], Opened | None] = lambda key: None,
    ) -> None:
        self._runner = runner
        self.opened = opened
        self._tick = tick
        self._careful = set(careful)
        self._ahead = list(ahead)
        self._stopped = False
        self._reported: dict[TrialKey, _Reported] = {}
        self._pools = [self._pool(concurrency)]
        self._look_ahead = concurrency > 1
        self._start_ahead()

    @property
    def in_flight(self) -> int:
        """How many conversations are running now."""
        return sum(pool.in_flight for pool in self._pools)

    def result(self, key: TrialKey) -> TrialResult:
        """Wait for a trial.

        Asked again (a rerun of the item), a trial is run again only if the infrastructure failed it, and trials may
        still be held: anything else would come to the same, a function of somebody's own that raised as well.

        :raises TrialCancelledError: if the run is stopping.
        """
        previous = self._reported.get(key)
        if previous is not None and (not previous.is_repeated or self.opened(key) is not None):
            return previous.result or load_trial(self._runner.store.path(key))
        if key not in self._careful:
            self._careful.clear()
            self._start_ahead()
        future = (self._repeat(key) if previous else self._pools[0]).submit(key)
        # Asked itself: to wait() a future that was cancelled in the queue is never done.
        while not future.done():
            concurrent.futures.wait([future], timeout=_TICK)
            self._tick()
        if future.cancelled():
            raise TrialCancelledError(f"{key} was not started, because the run is stopping")
        result = future.result()
        self._pools[0].forget(key)
        # Results with their transcripts would fill the memory of a long run; what has a file is read again if need be.
        is_repeated = result.status == "infrastructure_error" and result.error_type != OwnFunctionError.__name__
        self._reported[key] = _Reported(is_repeated, result if result.path is None else None)
        self._careful.discard(key)
        self._start_ahead()
        return result

    def look_ahead(self, item: pytest.Item) -> None:
        """Start the conversation of an item that will come, if there is room for it."""
        if not self._look_ahead or self._stopped or self._careful:
            return
        if may_run_ahead(item):
            self._pools[0].submit(item.stash[TRIAL].key)

    def stop(self) -> None:
        """Start nothing more and abort what is running. Does not wait; callable from any thread."""
        self._stopped = True
        for pool in self._pools:
            pool.cancel_all()

    def close(self) -> None:
        """Stop, and wait a little for the threads."""
        self.stop()
        for pool in self._pools:
            pool.close()

    def _start_ahead(self) -> None:
        if not self._careful:
            for key in self._ahead:
                self._pools[0].submit(key)
            self._ahead.clear()

    def _repeat(self, key: TrialKey) -> Pool:
        # The runner gives back what is stored, and a pool what it ran: both must forget the failed attempt.
        self._runner.store.forget(key)
        pool = self._pool(1)
        if self._stopped:
            pool.cancel_all()
        self._pools.append(pool)
        return pool

    def _pool(self, concurrency: int) -> Pool:
        runner = self._runner
        return Pool(runner.run, concurrency, runner.cancel_all, runner.limits.patience, runner.give_up)


def may_run_ahead(item: pytest.Item) -> bool:
    """Return whether an item will certainly want its conversation: has a trial and no marker that may skip it."""
    if TRIAL not in item.stash:
        return False
    if any(item.iter_markers("skip")) or any(item.iter_markers("skipif")):
        return False
    return not any(mark.kwargs.get("run") is False for mark in item.iter_markers("xfail"))


def order_ahead(items: Iterable[pytest.Item], seconds: Mapping[str, float]) -> list[TrialKey]:
    """Return the trials that may start before their items, in the items' order, the longest of some hundred first.

    So a long one is not left alone at the end. Not the longest of all: results wait in memory until their items come.

    :param seconds: how long trials took before, by key; one that is not known counts as the median of those that are.
    """
    keys = [item.stash[TRIAL].key for item in items if may_run_ahead(item)]
    known = [seconds[name] for name in map(str, keys) if name in seconds]
    if not known:
        return keys
    usual = statistics.median(known)
    ordered: list[TrialKey] = []
    for start in range(0, len(keys), _WINDOW):
        ordered += sorted(keys[start : start + _WINDOW], key=lambda key: -seconds.get(str(key), usual))
    return ordered
