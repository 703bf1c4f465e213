"""Search expressions: parsing ``red AND ("blue sky" OR gre*)``, and matching them against texts.

A term matches whole words, in any case; ``*`` and ``?`` stand for pieces of one. A quoted phrase matches its words in a
row. Blanks between terms mean AND. A bar is no operator: Salesforce reserves it, and refuses it unless it is escaped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError

_PIECE = re.compile(
    r'\s*(?:(?P<open>\()|(?P<close>\))|"(?P<phrase>(?:\\.|[^"\\])*)"|(?P<word>(?:\\.|[^\s()"\\])+))', re.S
)
_SIGNS = re.compile(r"(?:\\\W)+")
_BAR = re.compile(r"(?<!\\)\|")
#: A wildcard stands for a piece of a word, and words have an end: no search may take more than linear time.
_ANY = r"\w{0,64}"
# Each term is looked for in each record.
_MOST_TERMS = 50
_DEEPEST = 20
#: Between the texts of a record: wider than what may stand between two words of a phrase.
_BETWEEN = "\n" * 9
_MOST_WILDCARDS = 3


@dataclass(frozen=True, slots=True)
class Term:
    """A word or phrase, as a pattern over case-folded text.

    :param literal: a piece that is in every text that matches: looking for it is much faster.
    """

    pattern: re.Pattern[str]
    literal: str


@dataclass(frozen=True, slots=True)
class Joined:
    """Searches that all, or any, must match; for NOT the first and none of the others."""

    operator: Literal["AND", "OR", "NOT"]
    parts: tuple[Search, ...]


Search = Term | Joined


def _malformed(text: str) -> OrgError:
    return OrgError("MALFORMED_SEARCH", text)


# A search is matched against each of thousands of rows.
@lru_cache(maxsize=256)
def parse_search(text: str) -> Search:
    """Parse a search expression.

    :raises OrgError: MALFORMED_SEARCH.
    """
    pieces = _split(text)
    if not pieces:
        raise _malformed("search term must be longer than one character: " + text.strip())
    search, at = _parse_or(pieces, 0, 0, text)
    if at < len(pieces):
        raise _malformed(f"unexpected token: '{pieces[at][1]}' in search expression: {text.strip()[:200]}")
    return search


def _split(text: str) -> list[tuple[str, str]]:
    pieces: list[tuple[str, str]] = []
    at = 0
    while text[at:].strip():
        match = _PIECE.match(text, at)
        if match is None:
            raise _malformed(f"unbalanced quotation mark in search expression: {text.strip()[:200]}")
        kind = str(match.lastgroup)
        if kind == "word" and _BAR.search(match[kind]):
            raise _malformed(f"unexpected token: '|' in search expression: {text.strip()[:200]}")
        # A sign that is escaped and stands alone is in no word.
        if kind != "word" or not _SIGNS.fullmatch(match[kind]):
            pieces.append((kind, match[kind]))
        at = match.end()
        if len(pieces) > 4 * _MOST_TERMS:
            raise _malformed("search expression has too many terms")
    return pieces


def _parse_or(pieces: list[tuple[str, str]], at: int, depth: int, text: str) -> tuple[Search, int]:
    parts = []
    while True:
        part, at = _parse_and(pieces, at, depth, text)
        parts.append(part)
        if at >= len(pieces) or pieces[at] not in (("word", "OR"), ("word", "or")):
            return (parts[0] if len(parts) == 1 else Joined("OR", tuple(parts))), at
        at += 1


def _parse_and(pieces: list[tuple[str, str]], at: int, depth: int, text: str) -> tuple[Search, int]:
    wanted: list[Search] = []
    unwanted: list[Search] = []
    negated = False
    while at < len(pieces):
        kind, word = pieces[at]
        operator = word.upper() if kind == "word" else ""
        if kind == "close" or operator == "OR":
            break
        if operator in ("AND", "NOT", "&", "&&", "!"):
            # An operator joins two terms; NOT may also begin.
            if operator in ("AND", "&", "&&") and not wanted:
                raise _malformed(f"unexpected token: '{word}' in search expression: {text.strip()[:200]}")
            negated = negated or operator in ("NOT", "!")
            at += 1
            continue
        part, at = _parse_part(pieces, at, depth, text)
        (unwanted if negated else wanted).append(part)
        negated = False
    if not wanted or negated:
        raise _malformed(f"search expression needs a term: {text.strip()[:200]}")
    found = wanted[0] if len(wanted) == 1 else Joined("AND", tuple(wanted))
    # What must not be found is taken away in the end.
    return (Joined("NOT", (found, *unwanted)) if unwanted else found), at


def _parse_part(pieces: list[tuple[str, str]], at: int, depth: int, text: str) -> tuple[Search, int]:
    kind, word = pieces[at]
    if kind != "open":
        return _term(word), at + 1
    if depth >= _DEEPEST:
        raise _malformed("search expression is too deeply nested")
    search, at = _parse_or(pieces, at + 1, depth + 1, text)
    if at >= len(pieces) or pieces[at][0] != "close":
        raise _malformed(f"missing bracket in search expression: {text.strip()[:200]}")
    return search, at + 1


def _term(text: str) -> Term:
    split = [each.casefold() for each in _words(text)]
    words = [pattern for each in split if (pattern := _word_pattern(each))]
    # Single characters are refused, except where one character is a word (Chinese).
    plain = re.sub(r"[\W_]", "", text)
    if not words or (len(plain) < 2 and plain.isascii()):
        raise _malformed(f"search term must be longer than one character: {text}")
    # The longest literal piece is looked for first, which is fast and excludes most records.
    literal = max((piece for each in split for piece in re.split(r"[*?]", each)), key=len)
    return Term(re.compile(r"(?<!\w)" + r"\W{1,8}".join(words) + r"(?!\w)"), literal)


def _words(text: str) -> list[str]:
    """Split a term into words; wildcards are part of a word, and an escaped sign is a sign."""
    marked = re.sub(r"\\(.)", lambda match: f" {match[1]} " if match[1] in "*?" else match[1], text, flags=re.S)
    return re.findall(r"[\w*?]+", marked)


def _word_pattern(word: str) -> str:
    if not re.search(r"\w", word):
        return ""
    if len(re.findall(r"\*+", word)) > _MOST_WILDCARDS:
        raise _malformed(f"search term has too many wildcards: {word[:200]}")
    return re.sub(r"\*+|\?|[^*?]+", lambda match: _wildcard(match.group()), word)


def _wildcard(piece: str) -> str:
    if piece.startswith("*"):
        return _ANY
    return r"\w" if piece == "?" else re.escape(piece)


def matches_search(expression: str, *texts: Any) -> bool:
    """Tell whether a record's texts match: each term may be in another one."""
    text = _BETWEEN.join(str(each) for each in texts if each is not None)
    return _matches(parse_search(expression), text.casefold())


def _matches(search: Search, text: str) -> bool:
    if isinstance(search, Term):
        return search.literal in text and search.pattern.search(text) is not None
    if search.operator == "NOT":
        return _matches(search.parts[0], text) and not any(_matches(part, text) for part in search.parts[1:])
    matched = (_matches(part, text) for part in search.parts)
    return all(matched) if search.operator == "AND" else any(matched)
