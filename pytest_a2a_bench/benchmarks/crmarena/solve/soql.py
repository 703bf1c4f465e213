"""Pieces of queries and of answers that several plans use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from statistics import fmean

from pytest_a2a_bench.benchmarks.crmarena.solve.task import AgentTask, Record
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE
from pytest_a2a_bench.benchmarks.crmarena.windows import Window, parse_window


def window_of(task: AgentTask) -> Window:
    """Return the period that a task asks about.

    :raises ValueError: if its question names none.
    """
    window = parse_window(task.query, task.today)
    if window is None:
        raise ValueError(f"the question names no period: {task.query}")
    return window


def within(field: str, window: Window, *, time: bool = True, last: str = "<") -> str:
    """Return the condition that a datetime field (a date field if not ``time``) lies in a period."""
    suffix = "T00:00:00Z" if time else ""
    return f"{field} >= {window.start}{suffix} AND {field} {last} {window.end}{suffix}"


def quoted(values: Iterable[str]) -> str:
    """Return a list of text literals for ``IN``."""
    return "(" + ", ".join(literal(value) for value in values) + ")"


def literal(value: str) -> str:
    """Return a text literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def moment(text: str) -> datetime:
    """Read a datetime as records have it."""
    return datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")


def day(text: str) -> date:
    """Read a date, or the date of a datetime."""
    return date.fromisoformat(text[:10])


def parent(record: Record, path: str) -> str:
    """Return the value at the end of a path through parents (``Order.OwnerId``), as text; empty if there is none."""
    value: object = record
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


def counts(records: Iterable[Record], key: str) -> dict[str, int]:
    """Return the groups of ``SELECT key, COUNT(Id) n ... GROUP BY key``."""
    return {str(record[key]): int(record["n"]) for record in records if record.get(key)}


def means(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean by group."""
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for group, value in pairs:
        groups[group].append(value)
    return {group: fmean(values) for group, values in groups.items()}


def best(scores: Mapping[str, float], *, highest: bool) -> str:
    """Return the one with the highest or lowest score, or "None" if there is nobody."""
    if not scores:
        return NONE
    return (max if highest else min)(sorted(scores), key=lambda name: scores[name])


def left_over(names: Iterable[str], scores: Mapping[str, float], *, highest: bool = True) -> list[str]:
    """Return those who share the best score; who has none has zero."""
    all_names = list(names)
    top = (max if highest else min)((scores.get(name, 0) for name in all_names), default=0)
    return [name for name in all_names if scores.get(name, 0) == top]
