"""Which items a worker runs when its conversations run ahead: a fixed part, known before the first item. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SLOT = "a2a_bench_slot"
SLOTS = "a2a_bench_slots"
ORPHANS = "a2a_bench_orphans"


def slot_indices(slot: int, slots: int, total: int) -> list[int]:
    """Return every ``slots``-th index, so that workers share each domain evenly."""
    return list(range(slot, total, slots))


def indices_of(worker_input: Mapping[str, Any], total: int) -> list[int]:
    """Return the indices that a worker was promised: its slot, or what a crashed worker left.

    None where another scheduler decides.
    """
    if worker_input.get(ORPHANS) is not None:
        return [int(i) for i in worker_input[ORPHANS]]
    if SLOT not in worker_input:
        return []
    return slot_indices(worker_input[SLOT], worker_input[SLOTS], total)
