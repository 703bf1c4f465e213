"""Every kind of field in every place, and hostile texts: an answer or a refusal, never SQL that SQLite refuses."""

import hashlib
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest
from small_org import open_small_org
from soql_fuzz import VALID, hostile_queries

from pytest_a2a_bench.benchmarks.crmarena.org import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import FUNCTIONS

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


def test_a_thousand_hostile_queries() -> None:
    outcomes: Counter[str] = Counter()
    with closing(open_small_org(time_limit=_LIMIT)) as org:
        before = _hash(org)
        started = time.process_time()
        for query in VALID:
            org.run(query)
        # Reading a query comes before the limit begins: it may take what reading a few good ones takes here and now.
        allowed = _LIMIT + 50 * (time.process_time() - started)
        for query in hostile_queries(1_000, seed=1):
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
    assert set(outcomes) >= {"answered", "MALFORMED_QUERY", "MALFORMED_SEARCH", "INVALID_FIELD", "INVALID_TYPE"}
