"""Generated queries: the engine and a naive evaluator over dictionaries must agree."""

from __future__ import annotations

import calendar
import hashlib
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_org import ROWS, TODAY, Record, open_small_org
from soql_fuzz import VALID, hostile_queries

from pytest_a2a_bench.benchmarks.crmarena.org import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import FUNCTIONS

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
class Criterion:
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
def comparisons(draw: st.DrawFn, sobject: str) -> Criterion:
    """Generate one comparison."""
    path = draw(st.sampled_from(sorted(FIELDS[sobject])))
    kind = FIELDS[sobject][path]
    if draw(st.integers(0, 9)) == 0 and kind != "boolean":
        operator = draw(st.sampled_from(["=", "!="]))
        return Criterion(f"{path} {operator} null", lambda r: (read(sobject, r, path) is None) == (operator == "="))
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
    return Criterion(
        f"{path} {operator} {_literal(value)}", lambda r: compare(clean(read(sobject, r, path)), clean(value))
    )


@st.composite
def _days(draw: st.DrawFn, sobject: str, path: str, kind: str) -> Criterion:
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
    return Criterion(f"{path} {operator} {word}", holds)


@st.composite
def _likes(draw: st.DrawFn, sobject: str, path: str) -> Criterion:
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

    return Criterion(f"{path} LIKE '{form % escaped}'", holds)


@st.composite
def _lists(draw: st.DrawFn, sobject: str, path: str) -> Criterion:
    values = draw(st.lists(st.sampled_from(_values(sobject, path)), min_size=1, max_size=4))
    negated = draw(st.booleans())
    wanted = {fold(value) for value in values}
    text = f"{path} {'NOT IN' if negated else 'IN'} ({', '.join(map(_literal, values))})"
    return Criterion(text, lambda record: (fold(read(sobject, record, path)) in wanted) != negated)


def conditions(sobject: str) -> st.SearchStrategy[Criterion]:
    """Generate conditions, with brackets around each."""
    return st.recursive(comparisons(sobject), _joined, max_leaves=6)


def _joined(inner: st.SearchStrategy[Criterion]) -> st.SearchStrategy[Criterion]:
    return st.one_of(
        inner.map(lambda test: Criterion(f"(NOT {_bracket(test)})", lambda record: not test.holds(record))),
        st.lists(inner, min_size=2, max_size=3).map(
            lambda tests: Criterion(" AND ".join(map(_bracket, tests)), lambda r: all(test.holds(r) for test in tests))
        ),
        st.lists(inner, min_size=2, max_size=3).map(
            lambda tests: Criterion(" OR ".join(map(_bracket, tests)), lambda r: any(test.holds(r) for test in tests))
        ),
    )


def _bracket(test: Criterion) -> str:
    return f"({test.text})"


def order_by(sobject: str, records: Sequence[Record], path: str, descending: bool, nulls_last: bool) -> list[Record]:
    """Return records in order: nulls at the end that is asked for, ties as they were."""
    empty = [record for record in records if read(sobject, record, path) is None]
    rest = [record for record in records if read(sobject, record, path) is not None]
    rest.sort(key=lambda record: fold(read(sobject, record, path)))
    if descending:
        rest = sorted(rest, key=lambda record: fold(read(sobject, record, path)), reverse=True)
    return rest + empty if nulls_last else empty + rest


_SETTINGS = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
_OBJECTS = sorted(FIELDS)


@pytest.fixture(scope="module")
def org() -> Iterator[LocalOrg]:
    org = open_small_org()
    yield org
    org.close()


def _ids(records: Any) -> list[str]:
    return [record["Id"] for record in records]


@_SETTINGS
@given(data=st.data())
def test_where_order_and_limit(org: LocalOrg, data: st.DataObject) -> None:
    sobject = data.draw(st.sampled_from(_OBJECTS))
    test = data.draw(conditions(sobject))
    path = data.draw(st.sampled_from(sorted(FIELDS[sobject])))
    descending, nulls_last = data.draw(st.booleans()), data.draw(st.booleans())
    limit, offset = data.draw(st.integers(0, 8)), data.draw(st.integers(0, 3))
    query = f"SELECT Id FROM {sobject} WHERE {test.text} ORDER BY {path} {'DESC' if descending else 'ASC'} "
    query += f"NULLS {'LAST' if nulls_last else 'FIRST'} LIMIT {limit} OFFSET {offset}"
    found = [record for record in ROWS[sobject] if test.holds(record)]
    ordered = order_by(sobject, found, path, descending, nulls_last)
    assert _ids(org.run(query).records) == _ids(ordered[offset : offset + limit])
    assert org.run(f"SELECT COUNT() FROM {sobject} WHERE {test.text}").total_size == len(found)


@_SETTINGS
@given(data=st.data())
def test_groups(org: LocalOrg, data: st.DataObject) -> None:
    sobject = data.draw(st.sampled_from(["Case", "Account", "OrderItem", "Opportunity"]))
    test = data.draw(conditions(sobject))
    kinds = FIELDS[sobject]
    key = data.draw(st.sampled_from(sorted(path for path, kind in kinds.items() if kind in ("text", "id"))))
    numbers = sorted(path for path, kind in kinds.items() if kind == "number")
    number = data.draw(st.sampled_from(numbers))
    least = data.draw(st.integers(0, 2))
    query = f"SELECT {key} k, COUNT(Id) n, SUM({number}) s, MIN({number}) low, MAX({number}) high, "
    query += f"COUNT_DISTINCT({number}) d FROM {sobject} WHERE {test.text} GROUP BY {key} HAVING COUNT(Id) >= {least}"
    groups: dict[Any, list[Record]] = defaultdict(list)
    for record in ROWS[sobject]:
        if test.holds(record):
            groups[fold(read(sobject, record, key))].append(record)
    expected = {}
    for value, records in groups.items():
        values = [each for record in records if (each := read(sobject, record, number)) is not None]
        if len(records) >= least:
            low, high = (min(values), max(values)) if values else (None, None)
            expected[value] = (len(records), sum(values) if values else None, low, high, len(set(values)))
    found = {fold(r["k"]): (r["n"], r["s"], r["low"], r["high"], r["d"]) for r in org.run(query).records}
    assert found == expected


@_SETTINGS
@given(data=st.data())
def test_children_and_joins(org: LocalOrg, data: st.DataObject) -> None:
    test = data.draw(conditions("Case"))
    limit = data.draw(st.integers(1, 3))
    query = f"SELECT Id, (SELECT Id FROM Cases WHERE {test.text} ORDER BY CreatedDate DESC LIMIT {limit}) FROM Account"
    cases = [record for record in ROWS["Case"] if test.holds(record)]
    latest = order_by("Case", cases, "CreatedDate", True, True)
    for account in org.run(query).records:
        own = [record for record in latest if record["AccountId"] == account["Id"]][:limit]
        assert _ids((account["Cases"] or {"records": []})["records"]) == _ids(own)
    for word, wanted in (("IN", True), ("NOT IN", False)):
        joined = org.run(f"SELECT Id FROM Account WHERE Id {word} (SELECT AccountId FROM Case WHERE {test.text})")
        ids = {record["AccountId"] for record in cases}
        assert _ids(joined.records) == [each["Id"] for each in ROWS["Account"] if (each["Id"] in ids) == wanted]


@_SETTINGS
@given(data=st.data())
def test_parents(org: LocalOrg, data: st.DataObject) -> None:
    test = data.draw(conditions("Case"))
    query = f"SELECT Id, Account.Name, Account.NumberOfEmployees, Owner.LastName FROM Case WHERE {test.text}"
    expected = [
        {path: read("Case", record, path) for path in ("Account.Name", "Account.NumberOfEmployees", "Owner.LastName")}
        for record in ROWS["Case"]
        if test.holds(record)
    ]
    found = [
        {
            "Account.Name": (record["Account"] or {}).get("Name"),
            "Account.NumberOfEmployees": (record["Account"] or {}).get("NumberOfEmployees"),
            "Owner.LastName": (record["Owner"] or {}).get("LastName"),
        }
        for record in org.run(query).records
    ]
    assert found == expected


# Every kind of field in every place of a query: an answer or a refusal, and never SQL that SQLite refuses.


_PATHS = {
    "Case": ["Id", "OwnerId", "Status", "Description", "CreatedDate", "IsClosed", "Account.Name", "Owner.Type"],
    "Opportunity": ["Amount", "Probability", "CloseDate", "Account.NumberOfEmployees", "CreatedBy.Name"],
    "Task": ["WhatId", "What.Name", "What.Type", "What.Id", "ActivityDate", "Who.IsActive"],
    "Product2": ["IsActive", "Description"],
}
_LITERALS = ["'x'", "''", "5", "2.5", "true", "null", "2023-01-01", "2023-01-01T00:00:00Z", "TODAY", "LAST_N_DAYS:3"]
_OPERATORS = ["=", "!=", "<", "LIKE"]


def _expressions(sobject: str) -> list[str]:
    return [each for path in _PATHS[sobject] for each in (path, *(f"{name}({path})" for name in sorted(FUNCTIONS)))]


def _queries(sobject: str) -> Iterator[str]:
    for expression in _expressions(sobject):
        yield f"SELECT {expression} FROM {sobject} ORDER BY {expression} DESC"
        yield f"SELECT {expression} x, COUNT(Id) n FROM {sobject} GROUP BY {expression} ORDER BY {expression}"
        yield f"SELECT {expression} x FROM {sobject} GROUP BY ROLLUP({expression}) HAVING {expression} != null"
        for operator, literal in itertools.product(_OPERATORS, _LITERALS):
            yield f"SELECT Id FROM {sobject} WHERE {expression} {operator} {literal}"
        for literal in _LITERALS:
            yield f"SELECT COUNT(Id) FROM {sobject} WHERE NOT {expression} NOT IN ({literal}, null)"
            yield f"SELECT COUNT(Id) FROM {sobject} GROUP BY OwnerId HAVING {expression} > {literal}"


@pytest.mark.slow
@pytest.mark.parametrize("sobject", sorted(_PATHS))
def test_every_combination(org: LocalOrg, sobject: str) -> None:
    outcomes: Counter[str] = Counter()
    for query in _queries(sobject):
        try:
            org.run(query)
            outcomes["answered"] += 1
        except OrgError as refused:
            outcomes[refused.code] += 1
    assert outcomes["answered"] > 100
    assert set(outcomes) == {"answered", "INVALID_FIELD", "MALFORMED_QUERY", "INVALID_QUERY_FILTER_OPERATOR"}


# Hostile texts: an answer or a refusal within the time limit, and nothing is ever written.


_LIMIT = 1.0


def _hash(org: LocalOrg) -> str:
    return hashlib.sha256(org.path.read_bytes()).hexdigest()


def _survive(count: int, seed: int) -> Counter[str]:
    org = open_small_org(time_limit=_LIMIT)
    before = _hash(org)
    outcomes: Counter[str] = Counter()
    try:
        started = time.process_time()
        for query in VALID:
            org.run(query)
        # Reading a query comes before the limit begins: it may take what reading a few good ones takes here and now.
        allowed = _LIMIT + 50 * (time.process_time() - started)
        for query in hostile_queries(count, seed):
            started = time.process_time()
            try:
                org.run(query)
                outcomes["answered"] += 1
            except OrgError as refused:
                outcomes[refused.code] += 1
                # Raises for half characters, which no file could hold.
                str(refused).encode()
            assert time.process_time() - started < allowed, query
        for query in VALID:
            org.run(query)
        assert _hash(org) == before
        assert sorted(each.name for each in org.path.parent.iterdir()) == ["org.db"]
    finally:
        org.close()
    return outcomes


def test_a_thousand_hostile_queries() -> None:
    outcomes = _survive(1_000, seed=1)
    assert set(outcomes) >= {"answered", "MALFORMED_QUERY", "MALFORMED_SEARCH", "INVALID_FIELD", "INVALID_TYPE"}


@pytest.mark.parametrize("text", ["SELECT 1", "select name from sqlite_master", "PRAGMA query_only = 0", "VACUUM"])
def test_sql_is_not_soql(text: str) -> None:
    org = open_small_org()
    try:
        with pytest.raises(OrgError):
            org.run(text)
    finally:
        org.close()
