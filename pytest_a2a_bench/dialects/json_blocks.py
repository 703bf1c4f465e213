"""Find JSON objects and lists inside any text, in time linear in its length.

The text comes from an agent and is not trusted: size, nesting and work are bounded, and the search does not recurse.
"""

from __future__ import annotations

import bisect
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, MAX_DEPTH, CpuAllowance, is_deeper

MAX_TEXT: Final = 1_000_000
"""Characters of one text in which calls are looked for."""

# A text of openers that nothing closes would be read once from each of them: the work is bounded by so many passes
# over the text, and the rest then counts as one unreadable span.
_MAX_BLOCKS: Final = 2_000
_PASSES: Final = 6

_DOUBLE = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SINGLE = r"'[^'\\]*+(?:\\.[^'\\]*+)*+'"
_JSON_TOKENS = re.compile(rf'{_DOUBLE}|[{{}}\[\]"]|\\.', re.DOTALL)
# An escape outside a string is skipped as a pair, or a row of \" would be tried as a string from each quote.
_PYTHON_TOKENS = re.compile(rf"{_DOUBLE}|{_SINGLE}|[{{}}\[\]\"']|\\.", re.DOTALL)
_OPENER = re.compile(r"[{\[]")
_LOOSE = re.compile(rf"{_DOUBLE}|{_SINGLE}|\\.|\b(?:True|False|None)\b|,(?=\s*[}}\]])", re.DOTALL)
_CONSTANTS = {"True": "true", "False": "false", "None": "null", ",": ""}
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_Outcome = Literal["closed", "deep", "torn"]


class _Broken:
    """Stands for a block that could not be read."""


BROKEN: Final = _Broken()


class Block(NamedTuple):
    """A bracketed span of a text and its value, or :data:`BROKEN`.

    :param exhausted: True where the search ended here because the text is too hostile to go on.
    :param deep: True where it was given up because of its nesting.
    """

    start: int
    end: int
    value: Any
    exhausted: bool = False
    deep: bool = False


class Span(NamedTuple):
    """Where something begins and ends in a text; all sorted lists of spans here are of tuples that begin so."""

    start: int
    end: int


T = TypeVar("T", bound=tuple[Any, ...])


def around(position: int, spans: Sequence[T]) -> T | None:
    """Return the one of some sorted, disjoint spans that a position is in."""
    index = bisect.bisect_right(spans, position, key=lambda s: s[0]) - 1
    return spans[index] if index >= 0 and position < spans[index][1] else None


def starting_at(position: int, spans: Sequence[T]) -> T | None:
    """Return the one of some sorted, disjoint spans that starts at a position."""
    found = around(position, spans)
    return found if found is not None and found[0] == position else None


def leave(position: int, spans: Sequence[tuple[Any, ...]]) -> int:
    """Return the end of the span that a position is in, or the position itself if it is in none."""
    found = around(position, spans)
    return position if found is None else int(found[1])


def find_blocks(text: str, depth: int = DEFAULT_BOUNDS.depth, allowance: CpuAllowance | None = None) -> Iterator[Block]:
    """Yield the outermost readable blocks of a text, and the unreadable ones around or between them.

    :param depth: how deep they may be nested.
    :param allowance: once it is spent, the rest of the text is one unreadable block.
    """
    budget = _PASSES * len(text) + 10_000
    position = 0
    for _ in range(_MAX_BLOCKS):
        opener = _OPENER.search(text, position)
        if opener is None:
            return
        block, position, cost = _read_block(text, opener.start(), depth)
        yield block
        budget -= cost
        if budget < 0 or (allowance is not None and allowance.is_spent):
            break
    if _OPENER.search(text, position):
        yield Block(position, len(text), BROKEN, exhausted=True)


def _read_block(text: str, start: int, depth: int) -> tuple[Block, int, int]:
    """Return the block, where to go on, and how many characters it took."""
    cost = 0
    resume = stop = start + 1
    deep = False
    for tokens in (_JSON_TOKENS, _PYTHON_TOKENS):
        end, outcome = _find_end(text, start, tokens, depth)
        cost += end - start
        stop = max(stop, end)
        if outcome == "closed" and (value := parse_json(text[start:end], depth)) is not BROKEN:
            return Block(start, end, value), end, cost
        if outcome == "deep":
            resume, deep = max(resume, end), True
    return Block(start, stop, BROKEN, deep=deep), resume, cost


def _find_end(text: str, start: int, tokens: re.Pattern[str], depth: int) -> tuple[int, _Outcome]:
    """Return where the block that opens at ``start`` ends, or where looking for its end was given up."""
    open_brackets: list[str] = []
    for token in tokens.finditer(text, start):
        char = token[0]
        if len(char) > 1:
            continue
        if char in "{[":
            if len(open_brackets) == depth:
                return token.start(), "deep"
            open_brackets.append("}" if char == "{" else "]")
        elif char in "}]":
            if open_brackets.pop() != char:
                return token.end(), "torn"
            if not open_brackets:
                return token.end(), "closed"
        else:
            break
    return len(text), "torn"


def parse_json(text: str, depth: int = MAX_DEPTH) -> Any:
    """Read JSON, or its usual misspellings (single quotes, ``True``, trailing commas); else :data:`BROKEN`."""
    try:
        return _load(text, depth)
    except (ValueError, RecursionError):
        pass
    try:
        return _load(_LOOSE.sub(_tighten, text), depth)
    except (ValueError, RecursionError):
        return BROKEN


def _load(text: str, depth: int) -> Any:
    # strict=False: models write raw newlines inside strings.
    value = json.loads(text, strict=False, parse_float=_finite, parse_constant=_refuse)
    if is_deeper(value, depth):
        raise ValueError(f"nested deeper than {depth}")
    if r"\u" in text or _SURROGATE.search(text):
        value = _without_surrogates(value)
    return value


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is not a finite number")
    return number


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _tighten(match: re.Match[str]) -> str:
    token = match[0]
    if token[0] != "'":
        return _CONSTANTS.get(token, token)
    return '"' + re.sub(r'\\.|"', _requote, token[1:-1], flags=re.DOTALL) + '"'


def _requote(match: re.Match[str]) -> str:
    return {r"\'": "'", '"': r"\""}.get(match[0], match[0])


def _without_surrogates(value: Any) -> Any:
    """Replace halves of surrogate pairs: they are legal in JSON but cannot be written as UTF-8 again."""
    if isinstance(value, str):
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [_without_surrogates(v) for v in value]
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    return value
