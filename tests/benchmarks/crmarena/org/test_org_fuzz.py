"""Hostile texts: an answer or a refusal within the time limit, and nothing is ever written."""

from __future__ import annotations

import hashlib
import time
from collections import Counter

import pytest
from small_org import open_small_org
from soql_fuzz import VALID, hostile_queries

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg

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


@pytest.mark.slow
def test_ten_thousand_hostile_queries() -> None:
    assert sum(_survive(10_000, seed=2).values()) == 10_000


@pytest.mark.parametrize("text", ["SELECT 1", "select name from sqlite_master", "PRAGMA query_only = 0", "VACUUM"])
def test_sql_is_not_soql(text: str) -> None:
    org = open_small_org()
    try:
        with pytest.raises(OrgError):
            org.run(text)
    finally:
        org.close()
