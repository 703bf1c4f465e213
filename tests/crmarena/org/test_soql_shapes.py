"""What is compiled once for queries of one shape is what each of them would be compiled to."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import cache
from typing import Any

import pytest
from corpus import read_corpus
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from small_org import ACCOUNTS, TODAY, USERS, open_small_org
from soql_cases import FOUND, GIVEN, REFUSED
from soql_fuzz import VALID, hostile_queries
from soql_model import FIELDS, conditions

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.soql import compile_soql
from pytest_a2a_bench.benchmarks.crmarena.org.soql.plan import QueryPlan
from pytest_a2a_bench.benchmarks.crmarena.org.soql.shapes import Shapes, cut_literals
from pytest_a2a_bench.benchmarks.crmarena.org.standard import standard_schema

_SCHEMA = standard_schema()
_ID = ACCOUNTS[1]
#: What may stand where another literal of its kind stands, right or wrong there.
_OTHERS = {
    "text": [
        *("'Closed'", "'acme tools'", "'a;b'", "'50%'", "'_cme%'", "'mi'", "' '", "'\t'", "'\"'", "'Söhne'"),
        *("'it\\'s'", "'\\\\'", "'\\u0041'", "'2023-01-01'", "'fifteen letters'", "''", f"'{_ID}'", f"'{_ID[:15]}'"),
        *(f"'{_ID[:15]}zzz'", f"'{_ID[:14]}'", f"'{_ID.lower()}'", f"'{USERS[1]}'"),
    ],
    "date": ["2023-01-31", "2023-02-29", "2024-02-29", "0001-01-01", "9999-12-31", "0000-01-01", "2023-13-01"],
    "datetime": [
        *(
            "2023-01-31T10:00:00Z",
            "2023-03-01T10:00:00.123456789Z",
            "2023-03-01T23:30:00-08:00",
            "2023-03-01T24:00:00Z",
        ),
        *("2023-02-29T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2023-03-01T10:00:00+0530"),
    ],
}


@cache
def texts() -> tuple[str, ...]:
    """Every query of the corpora, SOSL among them, which is no SOQL."""
    found = [query for entry in read_corpus() for query in (entry.query, entry.twin) if query]
    found += [f"SELECT Id FROM {sobject} WHERE {condition}" for sobject, condition, _ in FOUND]
    return tuple(dict.fromkeys([*found, *(query for query, _ in GIVEN), *(query for query, *_ in REFUSED), *VALID]))


def changed(text: str, pick: Callable[[list[str]], str]) -> str:
    """Return a query with other literals in all places where some can be told."""
    cut = cut_literals(text)
    if cut is None:
        return text
    kinds = cut[0][1::2]
    between = cut[0][::2]
    new = [pick(_OTHERS["text" if kind == "empty" else kind]) for kind in kinds]
    return "".join(part for pair in zip(between, [*new, ""], strict=True) for part in pair)


def compiled(text: str, day: date = TODAY) -> QueryPlan:
    return compile_soql(text, _SCHEMA, day)


def outcome(plan_of: Callable[[str, date], QueryPlan], text: str, day: date = TODAY) -> Any:
    """Return all of a plan that can be compared, or the refusal."""
    try:
        return told(plan_of(text, day))
    except OrgError as refused:
        return refused.code, refused.message


def told(plan: QueryPlan) -> Any:
    return plan.sql, plan.parameters, plan.record_id, plan.counting, [told(child) for child in plan.children]


class Counted:
    """Shapes, and how often they had to compile."""

    def __init__(self) -> None:
        self.compiled = 0
        self.shapes = Shapes(self._compile)

    def _compile(self, text: str, day: date) -> QueryPlan:
        self.compiled += 1
        return compiled(text, day)


def test_every_query_of_the_corpora_with_its_own_and_with_other_literals() -> None:
    rng = random.Random(17)
    counted = Counted()
    asked = 0
    for text in texts():
        for each in (text, changed(text, rng.choice), changed(text, rng.choice)):
            asked += 1
            assert outcome(counted.shapes.plan, each) == outcome(compiled, each), each
    # Without it nothing would have been compared.
    assert asked - counted.compiled > 300


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data(), seed=st.integers(0, 1_000_000))
def test_generated_queries(data: st.DataObject, seed: int) -> None:
    rng = random.Random(seed)
    sobject = data.draw(st.sampled_from(sorted(FIELDS)))
    text = data.draw(
        st.one_of(
            st.sampled_from(texts()),
            conditions(sobject).map(lambda test: f"SELECT Id FROM {sobject} WHERE {test.text}"),
            conditions("Case").map(lambda test: f"SELECT Id, (SELECT Id FROM Cases WHERE {test.text}) FROM Account"),
        )
    )
    shapes = Shapes(compiled)
    for _ in range(6):
        each = changed(text, rng.choice)
        assert outcome(shapes.plan, each) == outcome(compiled, each)
    # Another day is another meaning of TODAY.
    later = TODAY + timedelta(40)
    assert outcome(shapes.plan, text, later) == outcome(compiled, text, later)


def test_hostile_queries() -> None:
    shapes = Shapes(compiled)
    for text in hostile_queries(examples(500), seed=3):
        assert outcome(shapes.plan, text) == outcome(compiled, text), text


@pytest.fixture
def orgs() -> Iterator[tuple[LocalOrg, LocalOrg]]:
    org, plain = open_small_org(), open_small_org()
    # What every query of an org would go through if there were no shapes.
    plain._soql = compiled  # type: ignore[assignment]
    yield org, plain
    org.close()
    plain.close()


def _answer(org: LocalOrg, text: str) -> Any:
    try:
        found = org.run(text)
    except OrgError as refused:
        return refused.code, refused.message
    return found.records, found.total_size, found.rows_read


def test_records_are_the_same(orgs: tuple[LocalOrg, LocalOrg]) -> None:
    rng = random.Random(18)
    for text in texts():
        for each in (changed(text, rng.choice), text):
            assert _answer(orgs[0], each) == _answer(orgs[1], each), each


SAME = [
    ("SELECT Id FROM Case WHERE Status = 'New'", "SELECT Id FROM Case WHERE Status = 'Closed'"),
    (f"SELECT Id FROM Case WHERE AccountId = '{_ID}'", f"SELECT Id FROM Case WHERE AccountId = '{ACCOUNTS[2][:15]}'"),
    (
        "SELECT Id FROM Case WHERE CreatedDate >= 2023-01-01T00:00:00Z AND Subject LIKE 'a%'",
        "SELECT Id FROM Case WHERE CreatedDate >= 2022-05-01T12:00:00+02:00 AND Subject LIKE '%b'",
    ),
    (
        "SELECT StageName, COUNT(Id) FROM Opportunity WHERE CloseDate < 2023-01-01 GROUP BY ROLLUP(StageName)",
        "SELECT StageName, COUNT(Id) FROM Opportunity WHERE CloseDate < 2024-01-01 GROUP BY ROLLUP(StageName)",
    ),
    (
        "SELECT Id, (SELECT Id FROM Cases WHERE Status = 'New') FROM Account WHERE Name = 'a'",
        "SELECT Id, (SELECT Id FROM Cases WHERE Status = 'Old') FROM Account WHERE Name = 'b'",
    ),
]
APART = [
    # By form: another kind, no value, a sign that is folded, an escape.
    ("SELECT Id FROM Case WHERE Status = 'New'", "SELECT Id FROM Case WHERE Status = ''"),
    ("SELECT Id FROM Case WHERE Status = 'New'", "SELECT Id FROM Case WHERE Status = 'Néw'"),
    ("SELECT Id FROM Case WHERE Status = 'New'", "SELECT Id FROM Case WHERE Status = 'it\\'s'"),
    ("SELECT Id FROM Case WHERE Status = 'New'", "SELECT Id FROM Case WHERE Status IN ('New')"),
    ("SELECT Id FROM Case LIMIT 1", "SELECT Id FROM Case LIMIT 2"),
    # By what the literal is: an id that can be written in one way only, a list of several in one text.
    (
        f"SELECT Id FROM Case WHERE AccountId = '{_ID}'",
        f"SELECT Id FROM Case WHERE AccountId = '{_ID[:15]}zzz'",
    ),
]


@pytest.mark.parametrize(
    ("first", "second", "times"), [*((*pair, 1) for pair in SAME), *((*pair, 2) for pair in APART)]
)
def test_what_is_of_one_shape(first: str, second: str, times: int) -> None:
    counted = Counted()
    for text in (first, second):
        assert told(counted.shapes.plan(text, TODAY)) == told(compiled(text))
    assert counted.compiled == times


def test_no_more_shapes_are_remembered_than_there_is_room_for() -> None:
    counted = Counted()
    first = "SELECT Id FROM Case WHERE Status = 'New' LIMIT 1"
    for number in range(1, 700):
        counted.shapes.plan(f"SELECT Id FROM Case WHERE Status = 'New' LIMIT {number}", TODAY)
    assert counted.compiled == 699
    counted.shapes.plan(first, TODAY)
    assert counted.compiled == 700
