"""Chance that falls the same on every machine and Python: built on ``Random.random()`` alone."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A seeded source of choices; each name has its own, so that one area's changes do not move another's.

    Only ``random()`` is used, because the standard library promises its sequence for a seed and not that of
    ``choice``, ``sample`` or ``shuffle``.
    """

    def __init__(self, seed: int, name: str) -> None:
        digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
        self._random = random.Random(int.from_bytes(digest[:8], "big")).random

    def below(self, limit: int) -> int:
        """Return a whole number from 0 up to, not including, ``limit``."""
        return int(self._random() * limit)

    def between(self, low: int, high: int) -> int:
        """Return a whole number from ``low`` to ``high``, both possible."""
        return low + self.below(high - low + 1)

    def chance(self, share: float) -> bool:
        """Return True in ``share`` of all throws."""
        return self._random() < share

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in another order."""
        rest = list(items)
        for last in range(len(rest) - 1, 0, -1):
            other = self.below(last + 1)
            rest[last], rest[other] = rest[other], rest[last]
        return rest

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return ``count`` different items."""
        return self.shuffled(items)[:count]

    def nones(self, count: int) -> set[int]:
        """Return which of ``count`` tasks have no answer: one in each full five."""
        return {block + self.below(5) for block in range(0, count - count % 5, 5)}
