"""SOQL conditions and literals by recursive descent."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from pytest_a2a_bench.benchmarks.crmarena.org.base import refuse
from pytest_a2a_bench.benchmarks.crmarena.org.soql.dates import (
    is_counted_date_word,
    is_date_word,
    read_day,
    read_moment,
)
from pytest_a2a_bench.benchmarks.crmarena.org.soql.nodes import (
    COMPARISONS,
    FUNCTIONS,
    Comparison,
    Condition,
    Distance,
    Expression,
    FunctionCall,
    Junction,
    Membership,
    Negation,
    Path,
    Query,
    RelativeDate,
    SemiJoin,
    Value,
)
from pytest_a2a_bench.benchmarks.crmarena.org.soql.tokens import Cursor, Token

_CURRENCY = re.compile(r"[A-Za-z]{3}\d+(?:\.\d+)?")


def parse_expression(cursor: Cursor) -> Expression:
    """Parse a field or a function of one.

    :raises OrgError: MALFORMED_QUERY.
    """
    # A name before a bracket is a function, whatever fields there are.
    if cursor.token.kind == "name" and cursor.peek().text == "(" and cursor.peek().kind == "symbol":
        return _parse_call(cursor)
    return cursor.expect_path()


def _parse_call(cursor: Cursor) -> FunctionCall:
    name = cursor.take()
    if name.upper not in FUNCTIONS:
        raise cursor.unexpected()
    cursor.take()
    if name.upper == "COUNT" and cursor.accept_symbol(")"):
        return FunctionCall("COUNT", None, name.position)
    if name.upper == "DISTANCE":
        return _parse_distance(cursor, name)
    # Depth is bounded: a thousand brackets would end in Python's own limit.
    cursor.enter()
    argument = parse_expression(cursor)
    cursor.leave()
    cursor.expect_symbol(")")
    return FunctionCall(name.upper, argument, name.position)


def _parse_distance(cursor: Cursor, name: Token) -> FunctionCall:
    """Parse ``field, GEOLOCATION(latitude, longitude), 'mi')``."""
    field = cursor.expect_path()
    cursor.expect_symbol(",")
    place: tuple[float, float] | Path
    if cursor.is_word("GEOLOCATION"):
        cursor.take()
        cursor.expect_symbol("(")
        latitude = _parse_degrees(cursor, 90)
        cursor.expect_symbol(",")
        place = latitude, _parse_degrees(cursor, 180)
        cursor.expect_symbol(")")
    else:
        place = cursor.expect_path()
    cursor.expect_symbol(",")
    unit = cursor.token
    if unit.kind != "string":
        raise cursor.unexpected()
    if unit.text not in ("mi", "km"):
        raise refuse(cursor.code, cursor.query, unit.position, f"Invalid distance unit: {unit.text}. Use mi or km")
    cursor.take()
    cursor.expect_symbol(")")
    return FunctionCall("DISTANCE", field, name.position, Distance(place, unit.text))


def _parse_degrees(cursor: Cursor, most: int) -> float:
    token = cursor.token
    if token.kind != "number":
        raise cursor.unexpected()
    if not abs(float(token.text)) <= most:
        raise refuse(cursor.code, cursor.query, token.position, f"Invalid coordinate: {token.text[:40]}")
    return float(cursor.take().text)


class ConditionParser:
    """Parser of WHERE and HAVING.

    :param inner_query: parses the SELECT of a semi-join, after its opening bracket.
    """

    def __init__(self, cursor: Cursor, inner_query: Callable[[], Query]) -> None:
        self._cursor = cursor
        self._inner_query = inner_query

    def condition(self) -> Condition:
        """Parse conditions joined by AND, or by OR: both in a row need brackets, as on Salesforce.

        :raises OrgError: MALFORMED_QUERY.
        """
        cursor = self._cursor
        conditions = [self._term()]
        if not cursor.is_word("AND", "OR"):
            return conditions[0]
        operator = cursor.token.upper
        while cursor.accept_word(operator):
            conditions.append(self._term())
        if cursor.is_word("AND", "OR"):
            raise cursor.unexpected()
        return Junction("AND" if operator == "AND" else "OR", tuple(conditions))

    def _term(self) -> Condition:
        cursor = self._cursor
        if cursor.accept_word("NOT"):
            cursor.enter()
            negated = self._term()
            cursor.leave()
            return Negation(negated)
        if cursor.accept_symbol("("):
            cursor.enter()
            inner = self.condition()
            cursor.leave()
            cursor.expect_symbol(")")
            return inner
        return self._predicate()

    def _predicate(self) -> Condition:
        cursor = self._cursor
        position = cursor.token.position
        left = parse_expression(cursor)
        if cursor.token.kind == "symbol" and cursor.token.text in COMPARISONS:
            operator = cursor.take().text
            # Both spellings of unequal are SOQL's.
            return Comparison(left, "!=" if operator == "<>" else operator, self._value(), position)
        if cursor.accept_word("LIKE"):
            return Comparison(left, "LIKE", self._value(), position)
        if cursor.is_word("INCLUDES", "EXCLUDES"):
            word = cursor.take().upper
            cursor.expect_symbol("(")
            return Membership(left, "INCLUDES" if word == "INCLUDES" else "EXCLUDES", self._values(), position)
        negated = cursor.accept_word("NOT")
        cursor.expect_word("IN")
        return self._membership(left, negated, position)

    def _membership(self, left: Expression, negated: bool, position: int) -> Condition:
        cursor = self._cursor
        opening = cursor.expect_symbol("(")
        # A list or a query: only the next word tells.
        if cursor.is_word("SELECT"):
            if not isinstance(left, Path):
                raise cursor.unexpected(opening)
            return SemiJoin(left, negated, self._inner_query(), position)
        return Membership(left, "NOT IN" if negated else "IN", self._values(), position)

    def _values(self) -> tuple[Value, ...]:
        values = [self._value()]
        while self._cursor.accept_symbol(","):
            values.append(self._value())
        self._cursor.expect_symbol(")")
        return tuple(values)

    def _value(self) -> Value:
        cursor = self._cursor
        token = cursor.token
        if token.kind == "name":
            return self._word()
        if token.kind in ("symbol", "end"):
            raise cursor.unexpected()
        cursor.take()
        if token.kind == "string":
            return Value("string", token.text, token.text, token.position)
        if token.kind == "number":
            return Value("number", self._number(token, token.text), token.text, token.position)
        return self._date(token)

    def _number(self, token: Token, text: str) -> float | int:
        number = float(text)
        # SQLite's whole numbers have 64 bits.
        if not math.isfinite(number) or abs(number) >= 1e18:
            raise refuse(
                "INVALID_QUERY_FILTER_OPERATOR", self._cursor.query, token.position, f"Invalid number: {text[:40]}"
            )
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else number

    def _date(self, token: Token) -> Value:
        try:
            if token.kind == "date":
                return Value("date", read_day(token.text), token.text, token.position)
            return Value("datetime", read_moment(token.text), token.text, token.position)
        except (ValueError, OverflowError):
            text = f"Invalid {token.kind}: {token.text}"
            raise refuse("INVALID_QUERY_FILTER_OPERATOR", self._cursor.query, token.position, text) from None

    def _word(self) -> Value:
        cursor = self._cursor
        token = cursor.token
        word = token.upper
        if word in ("TRUE", "FALSE"):
            return Value("boolean", word == "TRUE", cursor.take().text, token.position)
        if word == "NULL":
            return Value("null", None, cursor.take().text, token.position)
        if is_date_word(word):
            return Value("relative", RelativeDate(word, None), cursor.take().text, token.position)
        # LAST_N_DAYS:30; without a colon it may be a field's name.
        if is_counted_date_word(word) and cursor.peek().text == ":":
            cursor.take()
            cursor.take()
            number = cursor.expect_count()
            return Value("relative", RelativeDate(word, number), f"{token.text}:{number}", token.position)
        if _CURRENCY.fullmatch(token.text):
            return self._currency(cursor.take())
        raise cursor.unexpected()

    def _currency(self, token: Token) -> Value:
        """Read ``USD5000``; the lexer leaves the decimals as tokens of their own."""
        text = token.text[3:]
        if self._cursor.token.kind == "number" and self._cursor.token.text.startswith("."):
            text += self._cursor.take().text
        return Value("number", self._number(token, text), token.text, token.position)
