"""Distribute items to xdist workers in fixed parts, and read the items that a worker has not begun."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_a2a_bench.plugin.run import state
from pytest_a2a_bench.plugin.run.state import WorkerPart

# xdist needs two items at a worker: the running one and the next, for its fixtures.
_WINDOW = 2


class PartitionScheduling:
    """A scheduler that gives each worker a part of the items which the worker knows beforehand.

    That is what lets a worker start conversations ahead of its items. Items are still sent a few at a time, so that
    ``-x`` stops a worker soon. What a crashed worker leaves goes to its replacement.

    :param workers: how many workers the run began with.
    :param release: called with the slot of a worker that died before it had items.
    """

    def __init__(self, config: pytest.Config, workers: int, release: Any) -> None:
        self.config = config
        self.expected = workers
        self.collection: list[str] | None = None
        self._release = release
        self._collections: dict[Any, list[str]] = {}
        self._sent: dict[Any, list[int]] = {}
        self._lots: dict[Any, list[int]] = {}
        self._orphans: list[list[int]] = []
        self._promised: list[list[int]] = []

    @property
    def nodes(self) -> list[Any]:
        """The workers that are up."""
        return list(self._sent)

    @property
    def collection_is_completed(self) -> bool:
        """Whether every worker has collected."""
        return len(self._collections) >= self.expected

    @property
    def tests_finished(self) -> bool:
        """Whether nothing is left to send; a worker needs its shutdown to run its last item."""
        if self.collection is None or self._is_waiting():
            return False
        # Of two items that a worker has, it runs the first only when it knows the second, or its shutdown.
        return all(len(sent) < 2 for sent in self._sent.values())

    @property
    def has_pending(self) -> bool:
        """Whether items are left."""
        return self._is_waiting() or any(self._sent.values())

    def add_node(self, node: Any) -> None:
        """Note a worker that came up."""
        self._sent[node] = []

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Note what a worker collected."""
        self._collections[node] = list(collection)

    def schedule(self) -> None:
        """Give workers their parts: all of them at first, a replacement later."""
        if self.collection is None:
            collections = list(self._collections.values())
            # Workers must have collected the same, as indices are all that is sent.
            if any(c != collections[0] for c in collections):
                self._report_difference()
                self.collection = []
                return
            self.collection = collections[0]
        for node in self.nodes:
            if node in self._collections and node not in self._lots:
                self._lots[node] = WorkerPart.of(node.workerinput).indices(len(self.collection))
                self._keep_promise(node)
                self._feed(node)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Send the next item after one is done."""
        self._sent[node].remove(item_index)
        self._feed(node)

    def mark_test_pending(self, item: str) -> None:
        """Let the replacement of the worker that just crashed run its item again (pytest-rerunfailures asks for it)."""
        assert self.collection is not None
        rest = self._orphans.pop() if self._orphans else []
        self._orphans.append([self.collection.index(item), *rest])

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Not offered: this scheduler never takes items back from a living worker."""
        raise NotImplementedError

    def remove_node(self, node: Any) -> str | None:
        """Forget a worker; the item that it was running is returned if it crashed."""
        sent = self._sent.pop(node)
        lot = self._lots.pop(node, None)
        if self.collection is None:
            if state.SLOT in node.workerinput:
                self._collections.pop(node, None)
                self._release(node.workerinput[state.SLOT])
            return None
        # A replacement that dies before it begins leaves its promise to the next one.
        if lot is None and (promised := self._keep_promise(node)):
            self._orphans.append(promised)
        if not sent:
            return None
        # The first of what was sent is what it was running.
        rest = sent[1:] + (lot or [])
        if rest:
            self._orphans.append(rest)
        return self.collection[sent[0]]

    def take_orphans(self) -> list[int]:
        """Return what one crashed worker left, for the worker that replaces it."""
        orphans = self._orphans.pop(0) if self._orphans else []
        self._promised.append(orphans)
        return orphans

    def _is_waiting(self) -> bool:
        return bool(self._orphans or any(self._promised)) or any(self._lots.values())

    def _keep_promise(self, node: Any) -> list[int]:
        """Forget the orphans that a replacement was promised when it was set up, and return them."""
        orphans = node.workerinput.get(state.ORPHANS)
        if orphans is None or orphans not in self._promised:
            return []
        self._promised.remove(orphans)
        return list(orphans)

    def _feed(self, node: Any) -> None:
        if node.shutting_down:
            return
        lot, sent = self._lots[node], self._sent[node]
        more = lot[: max(0, _WINDOW - len(sent))]
        if more:
            del lot[: len(more)]
            sent.extend(more)
            node.send_runtest_some(more)
        # Nothing will follow: without this the worker would wait for a next item.
        if not lot:
            node.shutdown()

    def _report_difference(self) -> None:
        from xdist.report import report_collection_diff

        (first, expected), *others = self._collections.items()
        for node, found in others:
            if text := report_collection_diff(expected, found, first.gateway.id, node.gateway.id):
                report = pytest.CollectReport(nodeid=node.gateway.id, outcome="failed", longrepr=text, result=[])
                self.config.hook.pytest_collectreport(report=report)


# -- items that an xdist worker has received and not begun; xdist has no public name for them --


def inbox(config: pytest.Config, *, keeps: bool) -> Callable[[], Sequence[int]]:
    """Return what tells the indices of items that this worker will run; none where xdist has them elsewhere.

    :param keeps: whether what waits stays here. Else only the item that comes next does.
    """

    def certain() -> Sequence[int]:
        for plugin in config.pluginmanager.get_plugins():
            queue: Any = getattr(plugin, "torun", None)
            if hasattr(queue, "lock"):
                with queue.lock() as waiting:
                    found = [getattr(plugin, "nextitem_index", None), *(waiting if keeps else ())]
                return [i for i in found if isinstance(i, int)]
        return ()

    return certain
