"""What the solver sees of a task, and pieces of queries and of answers that several of its plans use."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from statistics import fmean
from typing import Any

from mini_org.time_windows import TimeWindow, parse_window
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE

Record = Mapping[str, Any]

Steps = Generator[str, list[Record], str]
"""Yields queries, is sent the records that each found, and returns the answer."""

_TODAY = re.compile(r"Today's date:\s*(\d{4}-\d{2}-\d{2})")
_ID = re.compile(r"\b[a-zA-Z0-9]{15}(?:[A-Z0-5]{3})?\b")


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What an agent is told.

    :param query: the question.
    :param required: what it must know to understand the question; the whole briefing does too.
    """

    query: str
    required: str = ""

    @property
    def today(self) -> date:
        """The day that the task calls today.

        :raises ValueError: if it names none.
        """
        found = _TODAY.search(self.required)
        if not found:
            raise ValueError(f"the task names no date of today: {self.query}")
        return date.fromisoformat(found[1])

    def named_id(self, prefix: str) -> str:
        """Return the id that the task names of the object whose ids begin so.

        :raises ValueError: if it names none.
        """
        for text in (self.required, self.query):
            for found in _ID.findall(text):
                if found.startswith(prefix):
                    return str(found)
        raise ValueError(f"the task names no id that begins with {prefix}: {self.query}")


def read_observation(text: str) -> list[Record]:
    """Return the records of what an agent is shown after a query; none if it is an error or anything else.

    The list may be written as JSON or as Python, after any words.
    """
    start = text.find("[")
    if start < 0:
        return []
    listed = text[start : text.rfind("]") + 1]
    try:
        found = json.loads(listed)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(listed)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return []
    return [record for record in found if isinstance(record, dict)] if isinstance(found, list) else []


def window_of(task: AgentTask) -> TimeWindow:
    """Return the period that a task asks about.

    :raises ValueError: if its question names none.
    """
    window = parse_window(task.query, task.today)
    if window is None:
        raise ValueError(f"the question names no period: {task.query}")
    return window


def within(field: str, window: TimeWindow, *, time: bool = True, last: str = "<") -> str:
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
