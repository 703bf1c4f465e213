"""SOSL: compile a search to one plan for each object, and match search expressions against records.

A search expression is like ``red AND ("blue sky" OR gre*)``. A term matches whole words, in any case; ``*`` and ``?``
stand for pieces of one. A quoted phrase matches its words in a row. Blanks between terms mean AND. Salesforce reserves
the bar, and refuses it unless it is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, cast

from lark import Lark, Token, Transformer, UnexpectedInput, v_args

from pytest_a2a_bench.benchmarks.crmarena.org import Field, OrgError, OrgSchema, refuse
from pytest_a2a_bench.benchmarks.crmarena.org.soql import QueryPlan, RecordCompiler
from pytest_a2a_bench.benchmarks.crmarena.org.soql.conditions import NEVER, Sql
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import Path, Query, SelectField, error_position, parse_find
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import Scope, field_sql, find_object

#: How many records a search finds at most, on Salesforce.
MOST_FOUND = 2_000
_SEARCHED = frozenset({"text", "textarea", "longtext", "email", "phone", "url"})
_NAMES = frozenset({"name", "firstname", "lastname", "title", "subject", "company", "username", "alias", "urlname"})


def compile_sosl(text: str, schema: OrgSchema, today: date) -> tuple[tuple[QueryPlan, ...], int]:
    """Return a plan for each object of a SOSL query, in order, and how many records there may be in all.

    :raises OrgError: as Salesforce would refuse it.
    """
    expression, fields, returning, limit = parse_find(text)
    parse_search(expression)
    # Without RETURNING a search finds ids of everything.
    ids = (SelectField(Path(("Id",), (0,))),)
    queries = returning or tuple(Query(ids, Path((sobject.name,), (0,)), 0) for sobject in schema.objects)
    try:
        plans = tuple(_compile_object(query, text, schema, today, expression, fields) for query in queries)
    except OrgError as refused:
        # What is wrong between the brackets is wrong with the search.
        code = "MALFORMED_SEARCH" if refused.code == "MALFORMED_QUERY" else refused.code
        raise OrgError(code, refused.message) from refused
    return plans, MOST_FOUND if limit is None else min(limit, MOST_FOUND)


def _compile_object(query: Query, text: str, schema: OrgSchema, today: date, expression: str, fields: str) -> QueryPlan:
    sobject = find_object(schema, text, query.source)
    if any(isinstance(item, Query) for item in query.select):
        # Salesforce returns flat records from a search.
        raise refuse("MALFORMED_SEARCH", text, query.position, "Child subqueries are not allowed in RETURNING")
    scope = Scope(schema, text, sobject)
    columns = [field_sql(scope.root_table, field) for field in sobject.fields if _is_searched(field, fields)]
    # An object without any searched field is never found.
    search = Sql(f"matches_search(?, {', '.join(columns)})", (expression,)) if columns else NEVER
    return RecordCompiler(scope, query, today, search=search).compile()


def _is_searched(field: Field, fields: str) -> bool:
    if fields == "NAME":
        return field.stored_as.lower() in _NAMES
    # A group of its own has more than the field that is called so: every e-mail address, every telephone number.
    return field.type in ((fields.lower(),) if fields in ("EMAIL", "PHONE") else _SEARCHED)


Search = Callable[[str], bool]
"""Returns whether a case-folded text matches."""


class Excluded(NamedTuple):
    """A search that must not match."""

    search: Search


#: Each term is looked for in each record.
_MOST_TERMS = 200
_MOST_WILDCARDS = 3
_DEEPEST = 20
#: A wildcard stands for a piece of a word, and words have an end: no search may take more than linear time.
_ANY = r"\w{0,64}"
#: Between the texts of a record: wider than the gap between two words of a phrase.
_BETWEEN = "\n" * 9

_GRAMMAR = r"""
?search: every (_OR every)* -> any_of
every: _part (_AND* _part)*
_part: term | "(" search ")" | excluded
excluded: _NOT+ (term | "(" search ")")
term: WORD | PHRASE

WORD: /(?!(?:AND|OR|&&?)(?![^\s()"]))(?:\\.|[^\s()"\\|])+/is
PHRASE: /"(?:\\.|[^"\\])*"/s
_AND.2: /(?:AND|&&?)(?![^\s()"])/i
_OR.2: /OR(?![^\s()"])/i
_NOT.2: /(?:NOT|!)(?![^\s()"])/i
// A sign that is escaped and stands alone is in no word.
_SIGNS.2: /(?:\\\W)+(?![^\s()"])/
%ignore _SIGNS
%ignore /\s+/
"""


def _malformed(text: str) -> OrgError:
    return OrgError("MALFORMED_SEARCH", text)


# A search is matched against each of thousands of rows.
@lru_cache(maxsize=256)
def parse_search(text: str) -> Search:
    """Parse a search expression.

    :raises OrgError: MALFORMED_SEARCH.
    """
    if len(re.findall(r"\w+", text)) > _MOST_TERMS:
        raise _malformed("search expression has too many terms")
    try:
        search: Any = _parser().parse(text)
    except UnexpectedInput as error:
        raise _explain(text.strip()[:200], text[error_position(error, text) :]) from None
    except _NoTermError:
        raise _explain(text.strip()[:200], "") from None
    brackets = re.findall(r'"[^"]*"|\\.|[()]', text, re.DOTALL)
    if max(accumulate(({"(": 1, ")": -1}.get(each, 0) for each in brackets), initial=0)) > _DEEPEST:
        raise _malformed("search expression is too deeply nested")
    return cast("Search", search)


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, start="search", parser="lalr", transformer=_Searches())


def _explain(text: str, rest: str) -> OrgError:
    """Return the refusal of a search expression before whose rest the parser stopped."""
    if rest.startswith('"'):
        return _malformed(f"unbalanced quotation mark in search expression: {text}")
    if found := re.match(r'[^\s()"|]+|\S', rest):
        return _malformed(f"unexpected token: '{found[0]}' in search expression: {text}")
    if text.count("(") > text.count(")"):
        return _malformed(f"missing bracket in search expression: {text}")
    if not re.search(r"\w", text):
        return _malformed(f"search term must be longer than one character: {text}")
    return _malformed(f"search expression needs a term: {text}")


class _NoTermError(Exception):
    """A search that has only excluded terms."""


@v_args(inline=True)
class _Searches(Transformer[Token, Search]):
    """Builds searches."""

    def any_of(self, *parts: Search) -> Search:
        return parts[0] if len(parts) == 1 else lambda text: any(part(text) for part in parts)

    def every(self, *parts: Search | Excluded) -> Search:
        wanted = [part for part in parts if not isinstance(part, Excluded)]
        unwanted = [part.search for part in parts if isinstance(part, Excluded)]
        if not wanted:
            raise _NoTermError
        if len(parts) == 1:
            return wanted[0]
        return lambda text: all(part(text) for part in wanted) and not any(part(text) for part in unwanted)

    def excluded(self, part: Search) -> Excluded:
        return Excluded(part)

    def term(self, token: Token) -> Search:
        return _term(token[1:-1] if token.type == "PHRASE" else str(token))


def _term(text: str) -> Search:
    split = [each.casefold() for each in _words(text)]
    words = [pattern for each in split if (pattern := _word_pattern(each))]
    # Single characters are refused, except where one character is a word (Chinese).
    plain = re.sub(r"[\W_]", "", text)
    if not words or (len(plain) < 2 and plain.isascii()):
        raise _malformed(f"search term must be longer than one character: {text}")
    # The longest literal piece is looked for first, which is fast and excludes most records.
    literal = max((piece for each in split for piece in re.split(r"[*?]", each)), key=len)
    whole = re.compile(r"(?<!\w)" + r"\W{1,8}".join(words) + r"(?!\w)")
    return lambda text: literal in text and whole.search(text) is not None


def _words(text: str) -> list[str]:
    """Split a term into words; wildcards are part of a word, and an escaped sign is a sign."""
    marked = re.sub(r"\\(.)", lambda match: f" {match[1]} " if match[1] in "*?" else match[1], text, flags=re.S)
    return re.findall(r"[\w*?]+", marked)


def _word_pattern(word: str) -> str:
    if not re.search(r"\w", word):
        return ""
    if len(re.findall(r"\*+", word)) > _MOST_WILDCARDS:
        raise _malformed(f"search term has too many wildcards: {word[:200]}")
    pieces = re.findall(r"\*+|\?|[^*?]+", word)
    return "".join(_ANY if each[0] == "*" else r"\w" if each == "?" else re.escape(each) for each in pieces)


def matches_search(expression: str, *texts: Any) -> bool:
    """Return whether a record's texts match: each term may be in another one."""
    text = _BETWEEN.join(str(each) for each in texts if each is not None)
    return parse_search(expression)(text.casefold())
