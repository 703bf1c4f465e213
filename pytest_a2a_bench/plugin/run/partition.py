"""What a worker is told about its part: a fixed one, known before the first item, where conversations run ahead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SLOT = "a2a_bench_slot"
SLOTS = "a2a_bench_slots"
ORPHANS = "a2a_bench_orphans"
LIFELINE = "a2a_bench_lifeline"
KEEPS = "a2a_bench_keeps"
FILES = "a2a_bench_files"
"""Keys in xdist's ``workerinput``."""


@dataclass(frozen=True, slots=True)
class WorkerPart:
    """One worker's part of a run.

    :param slot: its place among ``slots`` workers; None where another scheduler decides.
    :param orphans: indices of the items that a crashed worker left, for the worker that replaces it.
    :param lifeline: port of the controller's lifeline; None where it is on another machine.
    :param keeps: whether items that were sent to it stay with it, so that their conversations may begin.
    :param index: its number among ``workers``, to divide by what there is for all of them.
    """

    slot: int | None = None
    slots: int = 1
    orphans: tuple[int, ...] | None = None
    lifeline: int | None = None
    keeps: bool = False
    index: int = 0
    workers: int = 1

    @classmethod
    def of(cls, worker_input: Mapping[str, Any]) -> WorkerPart:
        """Read what the controller put into xdist's ``workerinput``."""
        orphans = worker_input.get(ORPHANS)
        return cls(
            slot=worker_input.get(SLOT),
            slots=worker_input.get(SLOTS, 1),
            orphans=None if orphans is None else tuple(map(int, orphans)),
            lifeline=worker_input.get(LIFELINE),
            keeps=worker_input.get(KEEPS, False),
            index=int(re.sub(r"\D", "", str(worker_input.get("workerid"))) or 0),
            workers=max(1, int(worker_input.get("workercount", 1))),
        )

    def share(self, total: int) -> int:
        """Return this worker's share of a number of conversations; one at least, as it would do nothing otherwise."""
        each, rest = divmod(total, self.workers)
        # A replacement has a number of its own, above those that the run began with.
        return max(1, each + (self.index % self.workers < rest))

    def indices(self, total: int) -> list[int]:
        """Return the indices of its items, of ``total``; none where another scheduler decides."""
        # A replacement does what is left of the worker that died.
        if self.orphans is not None:
            return list(self.orphans)
        # Every slots-th index, so that workers share each domain evenly.
        return [] if self.slot is None else list(range(self.slot, total, self.slots))
