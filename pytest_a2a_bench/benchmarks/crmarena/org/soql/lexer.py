"""SOQL text to tokens with their positions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.refusals import frame, locate

TokenKind = Literal["name", "string", "number", "date", "datetime", "symbol", "end"]

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n\f]+)
      | (?P<datetime>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)(?![\w]))
      | (?P<zoneless>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)
      | (?P<date>\d{4}-\d\d-\d\d(?![\w]))
      | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w]))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<symbol><=|>=|!=|<>|[=<>(),.:;*/+\-{}&?%\[\]0-9])
      | (?P<quote>')""",
    re.VERBOSE | re.ASCII,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Token:
    r"""A token.

    :param text: as written; for strings the value, where ``\%`` and ``\_`` are still escaped (LIKE needs to know).
    :param position: offset of its first character in the query.
    """

    kind: TokenKind
    text: str
    position: int

    @property
    def upper(self) -> str:
        """The text in capitals, for keywords; empty for what is no name."""
        return self.text.upper() if self.kind == "name" else ""


def read_tokens(query: str, *, code: str = "MALFORMED_QUERY", start: int = 0) -> list[Token]:
    """Return the tokens of a query, an end token last.

    :param start: where the first one is looked for.
    :raises OrgError: for characters that no token begins with, and for strings without end or with unknown escapes.
    """
    tokens: list[Token] = []
    at = start
    while at < len(query):
        match = _TOKEN.match(query, at)
        if match is None:
            raise _no_token(query, at, code)
        kind = match.lastgroup
        if kind == "zoneless":
            raise _no_token(query, match.end(), code)
        if kind == "quote":
            value, end = _read_string(query, at, code)
            tokens.append(Token("string", value, at))
            at = end
            continue
        if kind != "blank":
            tokens.append(Token(kind, match.group(), at))  # type: ignore[arg-type]
        at = match.end()
    tokens.append(Token("end", "<EOF>", len(query)))
    return tokens


def _no_token(query: str, at: int, code: str) -> OrgError:
    found = query[at] if at < len(query) else "<EOF>"
    return refuse_character(query, at, code, f"no viable alternative at character '{found}'")


def refuse_character(query: str, at: int, code: str, text: str) -> OrgError:
    """Return the refusal of a character.

    It counts columns from 0, in the frame too, which so points one column before the character.
    """
    return OrgError(code, frame(query, at - 1) + f"{_line(query, at)} {text}")


def _line(query: str, position: int) -> str:
    row, column = locate(query, position)
    return f"line {row}:{column - 1}"


def _read_string(query: str, start: int, code: str) -> tuple[str, int]:
    parts: list[str] = []
    at = start + 1
    while at < len(query):
        character = query[at]
        if character == "'":
            return whole_characters("".join(parts)), at + 1
        if character == "\\":
            part, at = _read_escape(query, at, code)
            parts.append(part)
            continue
        parts.append(character)
        at += 1
    raise refuse_character(query, len(query), code, "mismatched character '<EOF>' expecting '''")


def whole_characters(text: str) -> str:
    r"""Join the halves of a character that was written as ``\uD83D\uDE00``; half a character alone is no text."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _read_escape(query: str, at: int, code: str) -> tuple[str, int]:
    escaped = query[at + 1 : at + 2]
    if escaped in ("%", "_"):
        return "\\" + escaped, at + 2
    if escaped == "\\":
        # Two signs, so that LIKE can tell an escaped wildcard from a backslash before one.
        return "\\\\", at + 2
    if escaped in ("u", "U") and re.fullmatch("[0-9A-Fa-f]{4}", query[at + 2 : at + 6]):
        return chr(int(query[at + 2 : at + 6], 16)), at + 6
    if escaped and escaped.lower() in _ESCAPES:
        return _ESCAPES[escaped.lower()], at + 2
    raise OrgError(code, f"{_line(query, at)} Illegal character sequence '\\{escaped}' in string literal")


def plain_text(value: str) -> str:
    """Return a string token's value without the escapes that were kept for LIKE."""
    return re.sub(r"\\([%_\\])", r"\1", value)
