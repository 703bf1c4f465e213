"""The parser against tree-sitter-sfapex's grammar: where the two differ, the reason is written down.

The grammar is for Apex, which has SOQL and SOSL in square brackets, with bind variables and quotes around a search.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test
from soql_cases import FOUND, GIVEN, REFUSED, SEARCHES
from soql_model import FIELDS, conditions

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import parse_find, parse_query

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
