"""A naive SOQL evaluator over Python dictionaries, and a generator of queries for it.

It knows nothing of the compiler: a generated query is a small structure of its own that is both written as SOQL text
and evaluated record by record, with nulls, cases and days handled by hand.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from hypothesis import strategies as st
from small_org import ROWS, TODAY, Record

#: Of each object the fields that queries are made of, with the type that decides how they compare.
FIELDS: dict[str, dict[str, str]] = {
    "Case": {
        "Status": "text",
        "Priority": "text",
        "Subject": "text",
        "AccountId": "id",
        "OwnerId": "id",
        "CreatedDate": "moment",
        "ClosedDate": "moment",
        "Account.Name": "text",
        "Account.NumberOfEmployees": "number",
        "Owner.LastName": "text",
    },
    "Account": {"Name": "text", "Industry": "text", "ShippingState": "text", "NumberOfEmployees": "number"},
    "OrderItem": {"Quantity": "number", "UnitPrice": "number", "OrderId": "id", "Order.Status": "text"},
    "Opportunity": {"Name": "text", "Amount": "number", "CloseDate": "day", "StageName": "text"},
    "Product2": {"Name": "text", "IsActive": "boolean"},
}
_PARENTS = {("Case", "Account"): "Account", ("Case", "Owner"): "User", ("OrderItem", "Order"): "Order"}


def read(sobject: str, record: Record | None, path: str) -> Any:
    """Return the typed value of a field or of a parent's field."""
    head, _, rest = path.partition(".")
    if record is None:
        return None
    if rest:
        parent = _PARENTS[sobject, head]
        found = next((each for each in ROWS[parent] if each["Id"] == record.get(f"{head}Id")), None)
        return read(parent, found, rest)
    value = record.get(path)
    kind = {"Account.NumberOfEmployees": "number"}.get(f"{sobject}.{path}") or FIELDS.get(sobject, {}).get(path)
    if kind == "boolean":
        return value in (1, "true")
    return float(value) if kind == "number" and value is not None else value


@dataclass(frozen=True)
class Test:
    """A condition: its SOQL, and whether a record meets it."""

    text: str
    holds: Callable[[Record], bool]


def fold(value: Any) -> Any:
    """Return a value as it compares: texts in any case."""
    return value.lower() if isinstance(value, str) else value


def month_start(day: date, by: int) -> date:
    """Return the first day of the month that is so many after a day's own."""
    year, month = divmod(day.year * 12 + day.month - 1 + by, 12)
    return date(year, month + 1, 1)


#: Date words with the days that they mean, counted by hand from a Wednesday in March.
DAYS: dict[str, tuple[date, date]] = {
    "TODAY": (TODAY, TODAY),
    "YESTERDAY": (TODAY - timedelta(1), TODAY - timedelta(1)),
    "THIS_WEEK": (date(2023, 3, 12), date(2023, 3, 18)),
    "LAST_N_WEEKS:3": (date(2023, 2, 19), date(2023, 3, 11)),
    "THIS_MONTH": (date(2023, 3, 1), date(2023, 3, 31)),
    "LAST_MONTH": (date(2023, 2, 1), date(2023, 2, 28)),
    "LAST_N_DAYS:30": (TODAY - timedelta(30), TODAY),
    "NEXT_N_DAYS:20": (TODAY + timedelta(1), TODAY + timedelta(20)),
    "LAST_N_MONTHS:3": (month_start(TODAY, -3), month_start(TODAY, 0) - timedelta(1)),
    "NEXT_N_MONTHS:2": (date(2023, 4, 1), date(2023, 5, calendar.monthrange(2023, 5)[1])),
    "THIS_QUARTER": (date(2023, 1, 1), date(2023, 3, 31)),
    "LAST_QUARTER": (date(2022, 10, 1), date(2022, 12, 31)),
    "LAST_YEAR": (date(2022, 1, 1), date(2022, 12, 31)),
    "N_MONTHS_AGO:2": (date(2023, 1, 1), date(2023, 1, 31)),
}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: left is not None and bool(left < right),
    "<=": lambda left, right: left is not None and bool(left <= right),
    ">": lambda left, right: left is not None and bool(left > right),
    ">=": lambda left, right: left is not None and bool(left >= right),
}


def _values(sobject: str, path: str) -> list[Any]:
    found = {read(sobject, record, path) for record in ROWS[sobject]} - {None}
    return sorted(found, key=str)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


@st.composite
def comparisons(draw: st.DrawFn, sobject: str) -> Test:
    """Generate one comparison."""
    path = draw(st.sampled_from(sorted(FIELDS[sobject])))
    kind = FIELDS[sobject][path]
    if draw(st.integers(0, 9)) == 0 and kind != "boolean":
        operator = draw(st.sampled_from(["=", "!="]))
        return Test(f"{path} {operator} null", lambda r: (read(sobject, r, path) is None) == (operator == "="))
    if kind in ("day", "moment"):
        return draw(_days(sobject, path, kind))
    if kind == "text" and draw(st.booleans()):
        return draw(_likes(sobject, path) if draw(st.booleans()) else _lists(sobject, path))
    if kind == "id" and draw(st.booleans()):
        return draw(_lists(sobject, path))
    value = draw(st.sampled_from(_values(sobject, path)))
    if kind == "text" and str(value).isascii() and draw(st.booleans()):
        value = value.swapcase()
    allowed = ["=", "!="] if kind in ("id", "boolean") else sorted(_COMPARE)
    if not str(value).isascii():
        allowed = ["=", "!="]
    operator = draw(st.sampled_from(allowed))
    compare = _COMPARE[operator]
    clean = fold if kind == "text" else (lambda each: each)
    return Test(f"{path} {operator} {_literal(value)}", lambda r: compare(clean(read(sobject, r, path)), clean(value)))


@st.composite
def _days(draw: st.DrawFn, sobject: str, path: str, kind: str) -> Test:
    word = draw(st.sampled_from(sorted(DAYS)))
    operator = draw(st.sampled_from(sorted(_COMPARE)))
    first, last = DAYS[word]

    def holds(record: Record) -> bool:
        value = read(sobject, record, path)
        if value is None:
            return operator == "!="
        day = date.fromisoformat(value[:10])
        if operator in ("=", "!="):
            return (first <= day <= last) == (operator == "=")
        return _COMPARE[operator](day, first if operator in ("<", ">=") else last)

    assert kind in ("day", "moment")
    return Test(f"{path} {operator} {word}", holds)


@st.composite
def _likes(draw: st.DrawFn, sobject: str, path: str) -> Test:
    value = str(draw(st.sampled_from(_values(sobject, path))))
    start = draw(st.integers(0, len(value)))
    piece = value[start : start + draw(st.integers(1, 6))]
    escaped = _literal(piece)[1:-1].replace("%", "\\%").replace("_", "\\_")
    form = draw(st.sampled_from(["%s%%", "%%%s", "%%%s%%"]))
    wanted = piece.lower()

    def holds(record: Record) -> bool:
        text = fold(read(sobject, record, path))
        if text is None:
            return False
        found = {"%s%%": text.startswith(wanted), "%%%s": text.endswith(wanted), "%%%s%%": wanted in text}
        return bool(found[form])

    return Test(f"{path} LIKE '{form % escaped}'", holds)


@st.composite
def _lists(draw: st.DrawFn, sobject: str, path: str) -> Test:
    values = draw(st.lists(st.sampled_from(_values(sobject, path)), min_size=1, max_size=4))
    negated = draw(st.booleans())
    wanted = {fold(value) for value in values}
    text = f"{path} {'NOT IN' if negated else 'IN'} ({', '.join(map(_literal, values))})"
    return Test(text, lambda record: (fold(read(sobject, record, path)) in wanted) != negated)


def conditions(sobject: str) -> st.SearchStrategy[Test]:
    """Generate conditions, with brackets around each."""
    return st.recursive(comparisons(sobject), _joined, max_leaves=6)


def _joined(inner: st.SearchStrategy[Test]) -> st.SearchStrategy[Test]:
    return st.one_of(
        inner.map(lambda test: Test(f"(NOT {_bracket(test)})", lambda record: not test.holds(record))),
        st.lists(inner, min_size=2, max_size=3).map(
            lambda tests: Test(" AND ".join(map(_bracket, tests)), lambda r: all(test.holds(r) for test in tests))
        ),
        st.lists(inner, min_size=2, max_size=3).map(
            lambda tests: Test(" OR ".join(map(_bracket, tests)), lambda r: any(test.holds(r) for test in tests))
        ),
    )


def _bracket(test: Test) -> str:
    return f"({test.text})"


def order_by(sobject: str, records: Sequence[Record], path: str, descending: bool, nulls_last: bool) -> list[Record]:
    """Return records in order: nulls at the end that is asked for, ties as they were."""
    empty = [record for record in records if read(sobject, record, path) is None]
    rest = [record for record in records if read(sobject, record, path) is not None]
    rest.sort(key=lambda record: fold(read(sobject, record, path)))
    if descending:
        rest = sorted(rest, key=lambda record: fold(read(sobject, record, path)), reverse=True)
    return rest + empty if nulls_last else empty + rest
