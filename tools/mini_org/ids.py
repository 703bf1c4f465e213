"""Ids: of records, as Salesforce makes them, and of tasks, which are known before anything is built."""

from __future__ import annotations

import string

from pytest_a2a_bench.benchmarks.crmarena.org import checksum
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_FIRST = 146_000
# Ids of a real org are not consecutive: nobody can guess the next one.
_STEP = 37


def record_id(prefix: str, number: int, marker: str = "Mn") -> str:
    """Return the 18-character id of the ``number``-th record of an object.

    :param marker: two characters that tell where the record comes from: ``Mn`` for the mini org's own.
    """
    value, digits = _FIRST + number * _STEP, ""
    for _ in range(6):
        value, digit = divmod(value, 62)
        digits = _DIGITS[digit] + digits
    short = f"{prefix}{marker}0000{digits}"
    return short + checksum(short)


def task_ids(tasks_per_category: int = 10) -> tuple[str, ...]:
    """Return the ids of all tasks, in the order of the categories, without building the org."""
    return tuple(task_id(name, n, tasks_per_category) for name in CATEGORIES for n in range(tasks_per_category))


def task_ids_with_category(tasks_per_category: int = 10) -> tuple[tuple[str, str], ...]:
    """Return the ids of all tasks, each with its category."""
    return tuple((each, each.rpartition("-")[0]) for each in task_ids(tasks_per_category))


def task_id(category: str, number: int, tasks_per_category: int) -> str:
    """Return the id of one task: ``handle_time-03``."""
    width = max(2, len(str(tasks_per_category - 1)))
    return f"{category}-{number:0{width}d}"
