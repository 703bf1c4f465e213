"""A cursor over tokens, which refuses what it does not find in Salesforce's words."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.refusals import refuse, unexpected_token
from pytest_a2a_bench.benchmarks.crmarena.org.soql.lexer import Token, read_tokens
from pytest_a2a_bench.benchmarks.crmarena.org.soql.nodes import Path

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
