"""What a compiled query is: SQL with parameters, and how its rows become records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org.soql.shapes import ChildSets, Row


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled query.

    :param build: makes a record of a row and the children of all rows.
    :param record_id: the column of the record's id; None where rows are groups.
    :param children: subqueries for children. The SQL of each takes, as its first parameter, the parents' ids as a JSON
        list, and has the parent's id in its last column.
    :param counting: whether the one number that it finds is the answer itself (``SELECT COUNT()``).
    """

    sql: str
    parameters: tuple[Any, ...]
    build: Callable[[Row, ChildSets], Any]
    record_id: int | None = None
    children: tuple[Plan, ...] = ()
    counting: bool = False
