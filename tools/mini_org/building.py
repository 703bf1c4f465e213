"""What the mini org is built with: reproducible chance, working days, tables of rows, tasks without an id."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from typing import Any, TypeVar

from mini_org.ids import record_id
from pytest_a2a_bench.benchmarks.crmarena.org import standard_schema
from pytest_a2a_bench.benchmarks.crmarena.tasks import Twin

T = TypeVar("T")


class SeededRandom:
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
        """Return True with the probability ``share``."""
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


Day = TypeVar("Day", date, datetime)


def on_workday(day: Day) -> Day:
    """Return the same day, or the Monday after it if it is at a weekend."""
    return day + timedelta(days=max(0, 7 - day.weekday()) if day.weekday() > 4 else 0)


@dataclass(frozen=True, slots=True)
class TaskDraft:
    """A task that has no id yet: the question, what must be known to understand it, the gold, and a privacy twin."""

    query: str
    required: str
    answers: tuple[str, ...]
    twin: Twin | None = None


MOST_TRIES = 200
"""How often, for each task, another is drawn because its answer would be too common."""


def is_common(answer: str, drafts: Iterable[TaskDraft], per_category: int) -> bool:
    """Tell whether an answer has its share of a category already: two tasks in five, and of few tasks one."""
    same = sum(answer in draft.answers for draft in drafts)
    return same >= max(1, per_category * 2 // 5)


NewRow = dict[str, Any]


@cache
def key_prefixes() -> dict[str, str]:
    """Return the three characters that the ids of each of the 27 objects begin with."""
    return {sobject.name: sobject.key_prefix for sobject in standard_schema().objects}


class Tables:
    """Rows by object; ids are given out in the order of adding."""

    def __init__(self) -> None:
        self.rows: dict[str, list[NewRow]] = {name: [] for name in key_prefixes()}

    def add(self, name: str, **fields: Any) -> str:
        """Add a row and return its id. Dates and datetimes are written as the tables have them."""
        rows = self.rows[name]
        key = record_id(key_prefixes()[name], len(rows))
        rows.append({"Id": key} | {field: written(value) for field, value in fields.items()})
        return key

    def count(self, name: str) -> int:
        """Return how many rows an object has so far."""
        return len(self.rows[name])


def written(value: Any) -> Any:
    """Return a value as a table has it: ``2021-06-07T10:50:00.000+0000``, ``2021-06-07``, 0 or 1."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.000+0000")
    if isinstance(value, date):
        return value.isoformat()
    return int(value) if isinstance(value, bool) else value
