"""SOQL text to tokens with their positions, and a cursor over them that refuses in Salesforce's words."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError, frame, locate, refuse, unexpected_token
from pytest_a2a_bench.benchmarks.crmarena.org.soql.nodes import Path

TokenKind = Literal["name", "string", "number", "date", "datetime", "symbol", "end"]

_TOKEN = re.compile(
    r"""[ \t\r\n\f]*+(?:
        (?P<datetime>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)(?![\w]))
      | (?P<zoneless>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)
      | (?P<date>\d{4}-\d\d-\d\d(?![\w]))
      | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w]))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<symbol><=|>=|!=|<>|[=<>(),.:;*/+\-{}&?%\[\]0-9])
      | (?P<quote>')
      | (?P<end>\Z))""",
    re.VERBOSE | re.ASCII,
)
_BLANK = re.compile(r"[ \t\r\n\f]*")
# Most strings have no escape; the others are read sign by sign.
_PLAIN_STRING = re.compile(r"'([^'\\]*)'")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


class Token(NamedTuple):
    r"""A token.

    :param text: as written; for strings the value, where ``\%`` and ``\_`` are still escaped (LIKE needs to know).
    :param position: offset of its first character in the query.
    :param upper: the text in capitals, for keywords; empty for what is no name.
    """

    kind: TokenKind
    text: str
    position: int
    upper: str = ""


def read_tokens(query: str, *, code: str = "MALFORMED_QUERY", start: int = 0) -> list[Token]:
    """Return the tokens of a query, an end token last.

    :param start: where the first one is looked for.
    :raises OrgError: for characters that no token begins with, and for strings without end or with unknown escapes.
    """
    tokens: list[Token] = []
    at = start
    while True:
        match = _TOKEN.match(query, at)
        if match is None:
            raise _no_token(query, _BLANK.match(query, at).end(), code)  # type: ignore[union-attr]
        kind = match.lastgroup
        if kind == "name":
            text = match["name"]
            at = match.end()
            tokens.append(Token("name", text, at - len(text), text.upper()))
            continue
        # A datetime needs a zone (Z or +01:00) in SOQL; Salesforce complains of the character where it should stand.
        if kind == "zoneless":
            raise _no_token(query, match.end(), code)
        at = match.end()
        if kind == "quote":
            value, end = _read_string(query, at - 1, code)
            tokens.append(Token("string", value, at - 1))
            at = end
        elif kind == "end":
            tokens.append(Token("end", "<EOF>", len(query)))
            return tokens
        else:
            text = match[kind]  # type: ignore[index]
            tokens.append(Token(kind, text, at - len(text)))  # type: ignore[arg-type]


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
    plain = _PLAIN_STRING.match(query, start)
    if plain is not None:
        return whole_characters(plain[1]), plain.end()
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
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


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
        self._last = len(self._tokens) - 1
        self._depth = 0
        #: The token that comes next.
        self.token = self._tokens[0]

    def peek(self, ahead: int = 1) -> Token:
        """Return a token after the next one."""
        return self._tokens[min(self._at + ahead, self._last)]

    def take(self) -> Token:
        """Return the next token and move on."""
        token = self.token
        if self._at < self._last:
            self._at += 1
            self.token = self._tokens[self._at]
        return token

    def is_word(self, *words: str) -> bool:
        """Tell whether a word comes next, in any case."""
        return self.token.upper in words

    def is_symbol(self, *symbols: str) -> bool:
        """Tell whether a symbol comes next."""
        return self.token.kind == "symbol" and self.token.text in symbols

    def accept_word(self, *words: str) -> bool:
        """Take a word if it comes next."""
        if self.token.upper not in words:
            return False
        self.take()
        return True

    def accept_symbol(self, symbol: str) -> bool:
        """Take a symbol if it comes next."""
        if self.token.text != symbol or self.token.kind != "symbol":
            return False
        self.take()
        return True

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
