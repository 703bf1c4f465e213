"""SOQL text to tokens with their positions, and a cursor over them that refuses in Salesforce's words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError, frame, locate, refuse, unexpected_token
from pytest_a2a_bench.benchmarks.crmarena.org.soql.nodes import Path

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
        # A datetime needs a zone (Z or +01:00) in SOQL; Salesforce complains of the character where it should stand.
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


#: Brackets, NOTs and subqueries inside one another; far more than a sensible query has, far less than Python's stack.
DEEPEST = 60


class Cursor:
    """Tokens of a query and the place that the parser has reached.

    :param code: the error code of the language that is parsed.
    :param start: where the tokens begin.
    """

    def __init__(self, query: str, code: str = "MALFORMED_QUERY", start: int = 0) -> None:
        self.query = query
        self.code = code
        self._tokens = read_tokens(query, code=code, start=start)
        self._at = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        """The token that comes next."""
        return self._tokens[self._at]

    def peek(self, ahead: int = 1) -> Token:
        """Return a token after the next one."""
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Return the next token and move on."""
        token = self.token
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def is_word(self, *words: str) -> bool:
        """Tell whether a word comes next, in any case."""
        return self.token.upper in words

    def is_symbol(self, *symbols: str) -> bool:
        """Tell whether a symbol comes next."""
        return self.token.kind == "symbol" and self.token.text in symbols

    def accept_word(self, *words: str) -> bool:
        """Take a word if it comes next."""
        found = self.is_word(*words)
        if found:
            self.take()
        return found

    def accept_symbol(self, symbol: str) -> bool:
        """Take a symbol if it comes next."""
        found = self.is_symbol(symbol)
        if found:
            self.take()
        return found

    def expect_word(self, *words: str) -> Token:
        """Take one of these words.

        :raises OrgError: if something else comes next.
        """
        if not self.is_word(*words):
            raise self.unexpected()
        return self.take()

    def expect_symbol(self, symbol: str) -> Token:
        """Take a symbol.

        :raises OrgError: if something else comes next.
        """
        if not self.is_symbol(symbol):
            raise self.unexpected()
        return self.take()

    def expect_name(self) -> Token:
        """Take a name.

        :raises OrgError: if something else comes next.
        """
        if self.token.kind != "name":
            raise self.unexpected()
        return self.take()

    def expect_count(self) -> int:
        """Take a whole number from 0, as LIMIT has.

        :raises OrgError: if something else comes next.
        """
        if self.token.kind != "number" or not self.token.text.isdigit() or len(self.token.text) > 9:
            raise self.unexpected()
        return int(self.take().text)

    def expect_path(self) -> Path:
        """Take names with dots between."""
        tokens = [self.expect_name()]
        while self.accept_symbol("."):
            tokens.append(self.expect_name())
        return Path(tuple(token.text for token in tokens), tuple(token.position for token in tokens))

    def unexpected(self, token: Token | None = None) -> OrgError:
        """Return the refusal of the next token, or of the one given."""
        token = token or self.token
        if token.kind == "symbol" and token.text == ":":
            return refuse(self.code, self.query, token.position, "Bind variables only allowed in Apex code")
        return unexpected_token(self.query, token.position, token.text, code=self.code)

    def enter(self) -> None:
        """Go one level of nesting deeper.

        :raises OrgError: beyond :data:`DEEPEST`.
        """
        self._depth += 1
        if self._depth > DEEPEST:
            raise refuse(self.code, self.query, self.token.position, "Query is too deeply nested")

    def leave(self) -> None:
        """Come back up one level."""
        self._depth -= 1
