"""What the solver sees of a task, and how its plan is driven."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.crmarena.org.base import QueryResult
    from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask

Record = Mapping[str, Any]

Plan = Generator[str, list[Record], str]
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


def solve(task: AgentTask | CrmTask, run: Callable[[str], QueryResult]) -> str:
    """Answer a task by asking an org.

    :param task: only its question and required knowledge are read.
    :param run: asks the org, like ``Org.run``.
    """
    from pytest_a2a_bench.benchmarks.crmarena.solve.plan import plan

    steps = plan(AgentTask(task.query, task.required))
    try:
        text = next(steps)
        while True:
            text = steps.send(list(run(text).records))
    except StopIteration as end:
        return str(end.value)


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
