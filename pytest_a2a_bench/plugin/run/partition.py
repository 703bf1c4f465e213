"""What a worker is told about its part: a fixed one, known before the first item, where conversations run ahead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SLOT = "a2a_bench_slot"
SLOTS = "a2a_bench_slots"
ORPHANS = "a2a_bench_orphans"
LIFELINE = "a2a_bench_lifeline"
FILES = "a2a_bench_files"
"""Keys in xdist's ``workerinput``."""


@dataclass(frozen=True, slots=True)
class WorkerPart:
    """One worker's part of a run.

    :param slot: its place among ``slots`` workers; None where another scheduler decides.
    :param orphans: indices of the items that a crashed worker left, for the worker that replaces it.
    :param lifeline: port of the controller's lifeline; None where it is on another machine.
    """

    slot: int | None = None
    slots: int = 1
    orphans: tuple[int, ...] | None = None
    lifeline: int | None = None

    @classmethod
    def of(cls, worker_input: Mapping[str, Any]) -> WorkerPart:
        """Read what the controller put into xdist's ``workerinput``."""
        orphans = worker_input.get(ORPHANS)
        return cls(
            slot=worker_input.get(SLOT),
            slots=worker_input.get(SLOTS, 1),
            orphans=None if orphans is None else tuple(map(int, orphans)),
            lifeline=worker_input.get(LIFELINE),
        )

    def indices(self, total: int) -> list[int]:
        """Return the indices of its items, of ``total``; none where another scheduler decides."""
        # A replacement does what is left of the worker that died.
        if self.orphans is not None:
            return list(self.orphans)
        # Every slots-th index, so that workers share each domain evenly.
        return [] if self.slot is None else list(range(self.slot, total, self.slots))
