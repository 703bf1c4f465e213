"""Generated queries: the engine and a naive evaluator over dictionaries must agree."""

from __future__ import annotations

import hashlib
import itertools
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from one_test import in_one_test
from small_org import ROWS, Record, open_small_org
from soql_cases import FOUND, GIVEN, REFUSED, SEARCHES
from soql_fuzz import VALID, hostile_queries
from soql_model import FIELDS, conditions, fold, order_by, read

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.soql.nodes import FUNCTIONS
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import parse_find, parse_query

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


# The parser against tree-sitter-sfapex's grammar: where the two differ, the reason is written down.


pack = pytest.importorskip("tree_sitter_language_pack", reason="tree-sitter-language-pack is not installed")

#: What the two see differently, by what is in the query, and why.
EXPLAINED: list[tuple[str, str]] = [
    (r"WHERE NOT .* AND ", "Salesforce documents that NOT binds before AND; the grammar wants brackets around NOT"),
    (r"\d[eE]\d", "numbers with an exponent are read as Apex has them elsewhere; the grammar has none in queries"),
    (r"\.000\+0100", "an offset may be written without a colon, as Salesforce itself writes moments"),
    (r"[=N] :\w", "bind variables exist in Apex only, where the grammar comes from"),
    (r"UPPER\(", "the grammar takes any function name; Salesforce knows a fixed list"),
    (r"/\*", "comments are Apex's, not SOQL's"),
    (r"OFFSET 2001", "a limit on a value is no matter of grammar"),
]


@pytest.fixture(scope="module")
def grammar() -> Callable[[str], bool]:
    parser = pack.get_parser("apex")

    def accepts(query: str) -> bool:
        text = re.sub(r"(?is)^(\s*FIND\s*)\{(.*?)\}", lambda match: match[1] + _quoted(match[2]), query)
        tree = parser.parse(f"class A {{ void f() {{ Object o = [{text}]; }} }}".encode())
        return not tree.root_node.has_error

    return accepts


def _quoted(search: str) -> str:
    return "'" + search.replace("\\", "").replace("'", "").replace('"', "") + "'"


def _parses(query: str) -> bool:
    try:
        if query.lstrip()[:4].upper() == "FIND":
            parse_find(query)
        else:
            parse_query(query)
    except OrgError:
        return False
    return True


QUERIES = [
    *(f"SELECT Id FROM {sobject} WHERE {condition}" for sobject, condition, _ in FOUND),
    *(query for query, _ in GIVEN),
    *(query for query, _ in SEARCHES),
    *(marked.replace("^", "") for marked, _, _ in REFUSED),
]


def _explanation(query: str) -> str | None:
    return next((why for pattern, why in EXPLAINED if re.search(pattern, query)), None)


@in_one_test("query", QUERIES, ids=lambda each: str(each)[:70])
def test_both_accept_or_refuse(grammar: Callable[[str], bool], query: str) -> None:
    if _explanation(query) is None:
        assert _parses(query) == grammar(query)


@pytest.mark.parametrize(("pattern", "why"), EXPLAINED, ids=lambda each: str(each)[:40])
def test_explained_differences_are_differences(grammar: Callable[[str], bool], pattern: str, why: str) -> None:
    concerned = [query for query in QUERIES if re.search(pattern, query)]
    assert any(_parses(query) != grammar(query) for query in concerned), why


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_generated_conditions(data: st.DataObject) -> None:
    parser = pack.get_parser("apex")
    sobject = data.draw(st.sampled_from(sorted(FIELDS)))
    query = f"SELECT Id FROM {sobject} WHERE {data.draw(conditions(sobject)).text} ORDER BY Id LIMIT 5"
    tree = parser.parse(f"class A {{ void f() {{ Object o = [{query}]; }} }}".encode())
    assert _parses(query)
    assert not tree.root_node.has_error


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
