"""Lines of an answer that hold nothing but values, and answers that give several results to be right with one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE


class Mention(NamedTuple):
    """A value, and where the answer says it."""

    value: str
    start: int
    end: int


class BareLine(NamedTuple):
    """A line of nothing but values and what joins or announces them.

    :param mentions: its values.
    :param none: whether it says None, too or only.
    :param stated: whether it calls itself the answer.
    """

    mentions: tuple[Mention, ...]
    none: bool
    stated: bool


_LINE = re.compile(r"[^\n]*\S[^\n]*")
_NONE = re.compile(r"\b(?:none|n/a|null|nil)\b(?!\s+of\b)", re.IGNORECASE)
_STATED = re.compile(r"\banswers?\b", re.IGNORECASE)
_JOINING = re.compile(
    r"\b(?:and|or|either|alternatively|also|else|otherwise|if not|maybe|perhaps|possibly|then|but|"
    r"my|the|a|final|correct|answers?|results?|is|are|it|it['\u2019]s|could|may|might|be|would|should)\b",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"\A\s*\(?\d{1,2}[.):]\s")


def bare_lines(text: str, mentions: Sequence[Mention]) -> list[BareLine | None]:
    """Return one entry for each line that is not blank: None for a line of other words."""
    return [_read_line(text, line, mentions) for line in _LINE.finditer(text)]


def _read_line(text: str, line: re.Match[str], mentions: Sequence[Mention]) -> BareLine | None:
    inside = tuple(m for m in mentions if line.start() <= m.start and m.end <= line.end())
    rest = text[line.start() : line.end()]
    for mention in reversed(inside):
        rest = rest[: mention.start - line.start()] + " " + rest[mention.end - line.start() :]
    none = bool(_NONE.search(rest))
    words = _JOINING.sub("", _NONE.sub("", _NUMBERED.sub("", rest)))
    if not (inside or none) or re.search(r"\w", words):
        return None
    return BareLine(inside, none, bool(_STATED.search(rest)))


def read_both(text: str, mentions: Sequence[Mention]) -> tuple[str, ...]:
    """Return what an answer gives that says None and gives values beside it, in lines of nothing else.

    That is all of it, which no gold is; but a last line that calls itself the answer has the last word. Nothing is
    returned for other answers.
    """
    bare = [line for line in bare_lines(text, mentions) if line]
    values = tuple(dict.fromkeys(m.value for line in bare for m in line.mentions))
    if not values or not any(line.none for line in bare):
        return ()
    last = bare[-1]
    if last.stated and not (last.none and last.mentions):
        return tuple(dict.fromkeys(m.value for m in last.mentions)) or (NONE,)
    return (*values, NONE)
