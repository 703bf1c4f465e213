"""What a compiled query is: SQL with parameters, and how its rows become records as Salesforce's REST API has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from pytest_a2a_bench.benchmarks.crmarena.org.schema import FieldType

# Agents only ever see it in the URLs of records.
_URL = "/services/data/v62.0/sobjects/{}/{}"

SqlRow = Sequence[Any]
#: Child envelopes: by child subquery, then by the parent's id.
ChildSets = Sequence[Mapping[str, Any]]


def attributes(sobject: str, record_id: str) -> dict[str, str]:
    """Return a record's ``attributes``."""
    return {"type": sobject, "url": _URL.format(sobject, record_id)}


def envelope(records: Sequence[Any]) -> dict[str, Any] | None:
    """Return what holds the children of a record: nothing where there are none."""
    # Salesforce has null, not an empty envelope, where a record has no children.
    return {"totalSize": len(records), "done": True, "records": list(records)} if records else None


@dataclass(slots=True)
class RecordShape:
    """How one record is made from a row.

    :param sobject: name of its object, or the column that has the name.
    :param record_id: the column of its id.
    :param entries: key and maker of each value, in the order of the query.
    :param by_type: for TYPEOF: the entries that a record of each object has instead.
    """

    sobject: str | int
    record_id: int
    entries: dict[str, Callable[[SqlRow, ChildSets], Any]] = field(default_factory=dict)
    by_type: dict[str, dict[str, Callable[[SqlRow, ChildSets], Any]]] = field(default_factory=dict)

    def build(self, row: SqlRow, children: ChildSets) -> dict[str, Any] | None:
        """Return the record, or None where a parent is missing."""
        record_id = row[self.record_id]
        # A missing parent is null as a whole.
        if record_id is None:
            return None
        sobject = self.sobject if isinstance(self.sobject, str) else str(row[self.sobject])
        record: dict[str, Any] = {"attributes": attributes(sobject, record_id)}
        for key, make in self.by_type.get(sobject, self.entries).items():
            record[key] = make(row, children)
        return record


def value_maker(column: int, field_type: FieldType, *, formatted: bool = False) -> Callable[[SqlRow, ChildSets], Any]:
    """Return what reads a value from a row and gives it its JSON type."""
    if formatted:
        return lambda row, _: format_value(row[column], field_type)
    if field_type == "boolean":
        return lambda row, _: None if row[column] is None else bool(row[column])
    # SQLite has Python's own types already.
    return lambda row, _: row[column]


def child_maker(number: int, record_id: int) -> Callable[[SqlRow, ChildSets], Any]:
    """Return what finds the children of a row's record."""
    return lambda row, children: children[number].get(row[record_id])


def format_value(value: Any, field_type: FieldType) -> Any:
    """Return a value as FORMAT shows it to a reader of American English."""
    if value is None or field_type == "boolean":
        return None if value is None else str(bool(value)).lower()
    if field_type == "currency":
        return f"${value:,.2f}"
    if isinstance(value, int | float):
        # 15 digits: more are the noise of doubles.
        return f"{value:,.15g}" if value == int(value) else f"{value:,}"
    if field_type == "date":
        # By hand: strftime has no portable way to leave out leading zeros.
        day = datetime.strptime(value[:10], "%Y-%m-%d")
        return f"{day.month}/{day.day}/{day.year}"
    if field_type == "datetime":
        moment = datetime.strptime(value[:19], "%Y-%m-%dT%H:%M:%S")
        hour = moment.hour % 12 or 12
        half = "AM" if moment.hour < 12 else "PM"
        return f"{moment.month}/{moment.day}/{moment.year}, {hour}:{moment.minute:02d} {half}"
    return value


@dataclass(frozen=True, slots=True)
class Taken:
    """A parameter that comes from one literal of the query, on whose value the SQL around it does not depend.

    :param position: where the literal begins in the query.
    :param read: makes parameters of such a literal as it is written, without quotes; raises ValueError or OverflowError
        for what is none. The SQL has a place for each of those that it made of this one.
    :param part: which of them this one is.
    """

    value: Any
    position: int
    read: Callable[[str], tuple[Any, ...]]
    part: int = 0


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A compiled query.

    :param parameters: as SQLite takes them.
    :param build: makes a record of a row and the children of all rows.
    :param record_id: the column of the record's id; None where rows are groups.
    :param children: subqueries for children. The SQL of each takes, as its first parameter, the parents' ids as a JSON
        list, and has the parent's id in its last column.
    :param counting: whether the one number that it finds is the answer itself (``SELECT COUNT()``).
    :param taken: the parameters that come from literals, with their places.
    """

    sql: str
    parameters: tuple[Any, ...]
    build: Callable[[SqlRow, ChildSets], Any]
    record_id: int | None = None
    children: tuple[QueryPlan, ...] = ()
    counting: bool = False
    taken: tuple[tuple[int, Taken], ...] = ()

    @classmethod
    def of(cls, sql: str, parameters: Sequence[Any], build: Callable[[SqlRow, ChildSets], Any], **more: Any) -> Self:
        """Return a plan of parameters of which some are :class:`Taken`."""
        values = tuple(each.value if isinstance(each, Taken) else each for each in parameters)
        taken = tuple((place, each) for place, each in enumerate(parameters) if isinstance(each, Taken))
        return cls(sql, values, build, taken=taken, **more)
