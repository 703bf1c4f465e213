"""SOSL, from text by recursive descent to the plans of its objects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError, no_such_object, refuse, unexpected_token
from pytest_a2a_bench.benchmarks.crmarena.org.schema import Field, OrgSchema, SObject
from pytest_a2a_bench.benchmarks.crmarena.org.soql.filters import NEVER, Sql
from pytest_a2a_bench.benchmarks.crmarena.org.soql.nodes import Path, Query, SelectChildren, SelectField
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import LONGEST_QUERY, QueryParser
from pytest_a2a_bench.benchmarks.crmarena.org.soql.plan import QueryPlan
from pytest_a2a_bench.benchmarks.crmarena.org.soql.records import RecordCompiler
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import Scope, field_sql
from pytest_a2a_bench.benchmarks.crmarena.org.soql.tokens import Cursor, refuse_character
from pytest_a2a_bench.benchmarks.crmarena.org.sosl_matching import Search, parse_search

CODE = "MALFORMED_SEARCH"
FIELD_GROUPS = ("ALL", "NAME", "EMAIL", "PHONE", "SIDEBAR")
# Clauses that may stand without anything behind them.
_ALONE = ("HIGHLIGHT", "SNIPPET")
_WITH = ("DATA", "DIVISION", "METADATA", "NETWORK", "PRICEBOOKID", "SPELL_CORRECTION", *_ALONE)
_FIND = re.compile(r"\s*FIND\s*", re.IGNORECASE)
# A brace that is part of the search is escaped.
_BRACES = re.compile(r"\{((?:\\.|[^\\}])*)\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A FIND.

    :param expression: what is searched for, as written between the braces.
    :param fields: one of :data:`FIELD_GROUPS`.
    :param returning: a query for each object; none: every object's ids.
    """

    expression: str
    search: Search
    fields: str
    returning: tuple[Query, ...]
    limit: int | None


def parse_find(text: str) -> SearchQuery:
    """Parse a SOSL query.

    :raises OrgError: MALFORMED_SEARCH.
    """
    if len(text) > LONGEST_QUERY:
        raise OrgError(CODE, f"SOSL statements cannot be longer than {LONGEST_QUERY} characters.")
    find = _FIND.match(text)
    begin = find.end() if find else 0
    braces = _BRACES.match(text, begin)
    if braces is None:
        # Without braces, or with one that is never closed: Salesforce has words for each.
        shown = text[begin : begin + 1] or "<EOF>"
        if shown == "{":
            raise refuse_character(text, len(text), CODE, "mismatched character '<EOF>' expecting '}'")
        raise unexpected_token(text, begin, shown, code=CODE)
    expression = braces[1]
    search = parse_search(expression)
    return _clauses(Cursor(text, CODE, braces.end()), expression, search)


def _clauses(cursor: Cursor, expression: str, search: Search) -> SearchQuery:
    fields = "ALL"
    if cursor.accept_word("IN"):
        fields = cursor.expect_word(*FIELD_GROUPS).upper
        cursor.expect_word("FIELDS")
    returning: list[Query] = []
    if cursor.accept_word("RETURNING"):
        returning.append(_returning(cursor))
        while cursor.accept_symbol(","):
            returning.append(_returning(cursor))
    while cursor.accept_word("WITH"):
        _with(cursor)
    limit = cursor.expect_count() if cursor.accept_word("LIMIT") else None
    # Read and passed over: nothing is tracked here.
    while cursor.accept_word("UPDATE"):
        cursor.expect_word("TRACKING", "VIEWSTAT")
        if cursor.accept_symbol(","):
            cursor.expect_word("TRACKING", "VIEWSTAT")
    if cursor.token.kind != "end":
        raise cursor.unexpected()
    return SearchQuery(expression, search, fields, tuple(returning), limit)


def _with(cursor: Cursor) -> None:
    """Accept the filters that an org with the defaults has nothing to filter by: snippets, divisions, networks ..."""
    kind = cursor.expect_word(*_WITH).upper
    if kind == "DATA":
        cursor.expect_word("CATEGORY")
    # Snippets may have a length in brackets.
    elif kind in _ALONE:
        if cursor.token.kind == "end" or cursor.is_word("WITH", "LIMIT", "UPDATE"):
            return
        cursor.expect_symbol("(")
    elif not cursor.accept_word("IN"):
        cursor.expect_symbol("=")
    while cursor.token.kind != "end" and not cursor.is_word("WITH", "LIMIT", "UPDATE"):
        cursor.take()


def _returning(cursor: Cursor) -> Query:
    position = cursor.token.position
    name = cursor.expect_name()
    source = Path((name.text,), (name.position,))
    if not cursor.accept_symbol("("):
        select = (SelectField(Path(("Id",), (name.position,)), None),)
        return Query(select, source, None, (), None, None, None, (), None, None, position)
    query = QueryParser(cursor).returned_fields(source)
    cursor.expect_symbol(")")
    return query


#: How many records a search finds at most, on Salesforce.
MOST_FOUND = 2_000
_SEARCHED = frozenset({"text", "textarea", "longtext", "email", "phone", "url"})
_NAMES = frozenset({"name", "firstname", "lastname", "title", "subject", "company", "username", "alias", "urlname"})


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A compiled search: a plan for each object, in order, and how many records there may be in all."""

    plans: tuple[QueryPlan, ...]
    limit: int


def compile_sosl(text: str, schema: OrgSchema, today: date) -> SearchPlan:
    """Return the plan of a SOSL query.

    :raises OrgError: as Salesforce would refuse it.
    """
    find = parse_find(text)
    # Without RETURNING a search finds ids of everything.
    returning = find.returning or tuple(_ids_of(sobject) for sobject in schema.objects)
    try:
        plans = tuple(_compile_object(query, text, schema, today, find.expression, find.fields) for query in returning)
    except OrgError as refused:
        # What is wrong between the brackets is wrong with the search.
        raise OrgError(CODE if refused.code == "MALFORMED_QUERY" else refused.code, refused.message) from refused
    return SearchPlan(plans, MOST_FOUND if find.limit is None else min(find.limit, MOST_FOUND))


def _ids_of(sobject: SObject) -> Query:
    source = Path((sobject.name,), (0,))
    return Query((SelectField(Path(("Id",), (0,)), None),), source, None, (), None, None, None, (), None, None, 0)


def _compile_object(query: Query, text: str, schema: OrgSchema, today: date, expression: str, fields: str) -> QueryPlan:
    sobject = schema.object(query.source.names[0])
    if sobject is None:
        raise no_such_object(text, query.source.position, query.source.text)
    if any(isinstance(item, SelectChildren) for item in query.select):
        # Salesforce returns flat records from a search.
        raise refuse(CODE, text, query.position, "Child subqueries are not allowed in RETURNING")
    scope = Scope(schema, text, sobject)
    columns = [field_sql(scope.root_table, field) for field in sobject.fields if _is_searched(field, fields)]
    # An object without any searched field is never found.
    search = Sql(f"matches_search(?, {', '.join(columns)})", (expression,)) if columns else NEVER
    return RecordCompiler(scope, query, today, search=search).compile()


def _is_searched(field: Field, fields: str) -> bool:
    if fields == "EMAIL":
        return field.type == "email"
    if fields == "PHONE":
        # More than the field Name.
        return field.type == "phone"
    if fields == "NAME":
        return field.stored_as.lower() in _NAMES
    return field.type in _SEARCHED
