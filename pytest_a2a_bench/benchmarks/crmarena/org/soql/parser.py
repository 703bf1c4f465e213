"""Parse SOQL and SOSL by the grammar in ``grammar.lark``, and refuse other texts in Salesforce's words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from importlib import resources
from typing import Any, Literal

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken, v_args

from pytest_a2a_bench.benchmarks.crmarena.org import OrgError, frame, locate, refuse


@dataclass(frozen=True, slots=True)
class Path:
    """A field, with the relationships that lead to it: ``Account.Owner.Name``."""

    names: tuple[str, ...]
    positions: tuple[int, ...]

    @property
    def position(self) -> int:
        """Where it begins."""
        return self.positions[0]

    @property
    def text(self) -> str:
        """As written, without blanks."""
        return ".".join(self.names)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function of one field or of another call: ``COUNT(Id)``, ``CALENDAR_YEAR(convertTimezone(CreatedDate))``.

    :param name: in capitals.
    :param argument: None for ``COUNT()``.
    :param place: the other place of ``DISTANCE``: latitude and longitude in degrees, or a field.
    :param unit: of ``DISTANCE``: ``mi`` or ``km``; empty for other functions.
    """

    name: str
    argument: Path | FunctionCall | None
    position: int
    place: tuple[float, float] | Path | None = None
    unit: str = ""


Expression = Path | FunctionCall


@dataclass(frozen=True, slots=True)
class Value:
    """A literal.

    :param value: of ``relative`` dates (``TODAY``, ``LAST_N_DAYS:30``) the word in capitals and the number or None.
    :param text: as written; strings without quotes and with LIKE's escapes still in.
    """

    kind: Literal["string", "number", "boolean", "null", "date", "datetime", "relative"]
    value: str | float | int | bool | date | datetime | tuple[str, int | None] | None
    text: str
    position: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """``Amount >= 100``, ``Status IN ('New', 'Working')``.

    :param operator: ``= != < <= > >= LIKE``, which have one value, or ``IN``, ``NOT IN``, ``INCLUDES``, ``EXCLUDES``.
    """

    left: Expression
    operator: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """``Id IN (SELECT AccountId FROM Contact)``, or NOT IN."""

    left: Path
    negated: bool
    query: Query


@dataclass(frozen=True, slots=True)
class Junction:
    """Conditions that all, or any, must hold; for NOT the one that must not."""

    operator: Literal["AND", "OR", "NOT"]
    conditions: tuple[Condition, ...]


Condition = Comparison | SemiJoin | Junction


@dataclass(frozen=True, slots=True)
class SelectField:
    """A selected field or function, and its alias."""

    expression: Expression
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class SelectAll:
    """``FIELDS(ALL)``, ``FIELDS(STANDARD)`` or ``FIELDS(CUSTOM)``."""

    which: str
    position: int


@dataclass(frozen=True, slots=True)
class SelectByType:
    """``TYPEOF What WHEN Opportunity THEN Amount ELSE Name END``."""

    relationship: Path
    branches: tuple[tuple[Path, tuple[Path, ...]], ...]
    otherwise: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """One key of ORDER BY; nulls come first unless NULLS LAST is said."""

    expression: Expression
    descending: bool
    nulls_last: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT. Among the selected items it is a subquery for children.

    :param source: the first name after FROM: an object, or in a child subquery a relationship.
    :param aliases: further names in FROM, ``Contact c, c.Account a``: alias in lower case to the path that it
        stands for.
    :param subtotals: ``ROLLUP``, ``CUBE``, or empty.
    """

    select: tuple[SelectItem, ...]
    source: Path
    position: int
    alias: str | None = None
    aliases: tuple[tuple[str, Path], ...] = ()
    where: Condition | None = None
    group: tuple[Expression, ...] = ()
    subtotals: str = ""
    having: Condition | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    limit_position: int = 0
    offset: int | None = None

    @property
    def grouped(self) -> bool:
        """Whether it asks for groups rather than records."""
        selected = (item.expression for item in self.select if isinstance(item, SelectField))
        return bool(self.group) or any(map(_has_aggregate, selected))


def _has_aggregate(expression: Expression | None) -> bool:
    return isinstance(expression, FunctionCall) and (
        expression.name in AGGREGATES or _has_aggregate(expression.argument)
    )


SelectItem = SelectField | SelectAll | SelectByType | Query

AGGREGATES = frozenset({"COUNT", "COUNT_DISTINCT", "SUM", "AVG", "MIN", "MAX"})
DATE_FUNCTIONS = frozenset(
    (
        *("CALENDAR_MONTH", "CALENDAR_QUARTER", "CALENDAR_YEAR", "FISCAL_MONTH", "FISCAL_QUARTER", "FISCAL_YEAR"),
        *("DAY_IN_MONTH", "DAY_IN_WEEK", "DAY_IN_YEAR", "DAY_ONLY", "HOUR_IN_DAY", "WEEK_IN_MONTH", "WEEK_IN_YEAR"),
    )
)
#: Functions that change how a value is shown; here labels, formats, currencies and time zones are the stored ones.
RENDERINGS = frozenset({"TOLABEL", "FORMAT", "CONVERTCURRENCY", "CONVERTTIMEZONE"})
FUNCTIONS = AGGREGATES | DATE_FUNCTIONS | RENDERINGS | {"GROUPING", "DISTANCE"}
#: Words that cannot be an alias, because a clause or an operator begins with them.
RESERVED = frozenset(
    (
        *("USING", "WHERE", "WITH", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FOR", "UPDATE", "ALL", "FROM"),
        *("AND", "ASC", "DESC", "EXCLUDES", "FIRST", "IN", "INCLUDES", "LAST", "LIKE", "NOT", "NULL", "NULLS", "OR"),
        *("SELECT", "TRUE", "FALSE"),
    )
)


#: Salesforce's own limit on the text of a query.
LONGEST_QUERY = 100_000
#: Brackets, or NOTs, inside one another: far more than a sensible query has, and far less than Python's stack.
DEEPEST = 60
#: Salesforce's own maximum; a client that needs more is meant to page by Id.
MOST_SKIPPED = 2_000


def parse_query(text: str) -> Query:
    """Parse a SOQL query.

    :raises OrgError: MALFORMED_QUERY, with the place.
    """
    if not text.strip():
        raise OrgError("MALFORMED_QUERY", "SOQL statements cannot be empty or null")
    query: Query = _parse(text, "query", "MALFORMED_QUERY", "SOQL")
    return query


def parse_find(text: str) -> tuple[str, str, tuple[Query, ...], int | None]:
    """Parse a SOSL query: the search expression, the group of fields, a query for each object, and the limit.

    The search expression is as written between the braces; the group is one of ``ALL NAME EMAIL PHONE SIDEBAR``.

    :raises OrgError: MALFORMED_SEARCH.
    """
    found: tuple[str, str, tuple[Query, ...], int | None] = _parse(text, "find", "MALFORMED_SEARCH", "SOSL")
    return found


def _parse(text: str, start: str, code: str, language: str) -> Any:
    if len(text) > LONGEST_QUERY:
        raise OrgError(code, f"{language} statements cannot be longer than {LONGEST_QUERY} characters.")
    _check_depth(text, code)
    try:
        return _parser().parse(text, start)
    except UnexpectedInput as error:
        raise _explain(text, error, code) from None
    except _RefusedError as refused:
        if not refused.framed:
            row, column = locate(text, refused.position)
            raise OrgError(code, f"line {row}:{column - 1} {refused.text}") from None
        raise refuse(refused.code or code, text, refused.position, refused.text) from None


_NESTING = re.compile(rf"'(?:[^'\\]|\\.)*'|[()]|(?:\bNOT\s+){{{DEEPEST}}}", re.IGNORECASE | re.DOTALL)


def _check_depth(text: str, code: str) -> None:
    depth = 0
    for match in _NESTING.finditer(text):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth > DEEPEST or match[0][0] in "nN":
            raise refuse(code, text, match.end() - 1, "Query is too deeply nested")


class _RefusedError(Exception):
    """A query that the grammar accepts and Salesforce does not; an empty code is the language's own.

    :param framed: whether the refusal has a frame, or row and column only.
    """

    def __init__(self, position: int | None, text: str, code: str = "", *, framed: bool = True) -> None:
        super().__init__(text)
        self.position, self.text, self.code, self.framed = position or 0, text, code, framed


# The tokens of both languages, to say which one is refused, and whether the text has characters that begin none.
_TOKEN = re.compile(
    r"""\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))?(?!\w)
      | (?P<zoneless>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)
      | [+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?!\w)
      | [A-Za-z_]\w* | <=|>=|!=|<>|[=<>(),.:;*/+\-{}&?%\[\]0-9] | '(?P<string>(?:[^'\\]|\\.)*)' | [ \t\r\n\f]+
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_BRACES = re.compile(r"\s*FIND\s*\{(?:\\.|[^\\}])*(\})?", re.IGNORECASE | re.DOTALL)


def _explain(text: str, error: UnexpectedInput, code: str) -> OrgError:
    """Return Salesforce's refusal of a text: of a character that no token begins with, else of a token."""
    position = error_position(error, text)
    at = 0
    if code == "MALFORMED_SEARCH":
        braces = _BRACES.match(text)
        if braces is None:
            # Without braces nothing is a token.
            return refuse(code, text, position, f"unexpected token: '{text[position : position + 1] or '<EOF>'}'")
        if not braces[1]:
            return _refuse_character(text, len(text), code, "mismatched character '<EOF>' expecting '}'")
        at = braces.end()
    found = "<EOF>"
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None and text[at] == "'":
            return _refuse_character(text, len(text), code, "mismatched character '<EOF>' expecting '''")
        # A moment needs a zone in SOQL; Salesforce complains of the character where it should stand.
        if match is None or match["zoneless"]:
            at = match.end() if match else at
            shown = text[at] if at < len(text) else "<EOF>"
            return _refuse_character(text, at, code, f"no viable alternative at character '{shown}'")
        if at == position:
            found = match[0] if match["string"] is None else match["string"]
        at = match.end()
    if found == ":":
        return refuse(code, text, position, "Bind variables only allowed in Apex code")
    return refuse(code, text, position, f"unexpected token: '{found}'")


def error_position(error: UnexpectedInput, text: str) -> int:
    """Return the offset in the text at which the parser stopped."""
    if isinstance(error, UnexpectedToken):
        return len(text) if error.token.type == "$END" else error.token.start_pos or 0
    return len(text) if error.pos_in_stream is None else error.pos_in_stream


def _refuse_character(text: str, at: int, code: str, problem: str) -> OrgError:
    # Salesforce counts columns from 0 here, in the frame too, which so points one column before the character.
    row, column = locate(text, at)
    return OrgError(code, frame(text, at - 1) + f"line {row}:{column - 1} {problem}")


_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "'": "'"}
_ESCAPE = re.compile(r"\\([uU][0-9A-Fa-f]{4}|.)", re.DOTALL)


def _read_string(token: Token) -> str:
    r"""Return a string's value, where ``\%``, ``\_`` and the backslash are still escaped: LIKE needs to know."""

    def read(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped in ("%", "_", "\\"):
            return match[0]
        if len(escaped) > 1:
            return chr(int(escaped[1:], 16))
        if escaped.lower() in _ESCAPES:
            return _ESCAPES[escaped.lower()]
        at = (token.start_pos or 0) + 1 + match.start()
        raise _RefusedError(at, f"Illegal character sequence '\\{escaped}' in string literal", framed=False)

    return whole_characters(_ESCAPE.sub(read, token[1:-1]))


def whole_characters(text: str) -> str:
    r"""Join the halves of a character that was written as ``\uD83D\uDE00``; half a character alone is no text."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _read_number(token: Token, text: str) -> float | int:
    number = float(text)
    # SQLite's whole numbers have 64 bits.
    if not math.isfinite(number) or abs(number) >= 1e18:
        raise _RefusedError(token.start_pos, f"Invalid number: {text[:40]}", "INVALID_QUERY_FILTER_OPERATOR")
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else number


def _read_degrees(token: Token, most: int) -> float:
    if not abs(float(token)) <= most:
        raise _RefusedError(token.start_pos, f"Invalid coordinate: {token[:40]}")
    return float(token)


def _read_date(token: Token, kind: Any, read: Callable[[str], date]) -> Value:
    try:
        return Value(kind, read(token), str(token), _start(token))
    except (ValueError, OverflowError):
        text = f"Invalid {kind}: {token}"
        raise _RefusedError(token.start_pos, text, "INVALID_QUERY_FILTER_OPERATOR") from None


def read_moment(text: str) -> datetime:
    """Return the moment of a datetime literal, in UTC.

    :raises ValueError: if there is no such moment.
    :raises OverflowError: if it is outside of the calendar in UTC.
    """
    # Python keeps microseconds; what is beyond them is cut.
    return datetime.fromisoformat(re.sub(r"(\.\d{1,6})\d*", r"\1", text)).astimezone(UTC)


def _start(token: Token) -> int:
    return token.start_pos or 0


def _word(token: Token | None) -> str:
    return "" if token is None else token.upper()


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    """Builds the nodes, rule by rule; an argument is None where an optional part of the rule is not there."""

    def query(
        self,
        select: Token,
        items: tuple[SelectItem, ...],
        sources: tuple[tuple[Path, str | None], ...],
        where: Condition | None,
        group: tuple[tuple[Expression, ...], str, Condition | None],
        order: tuple[Order, ...] | None,
        limit: tuple[int | None, int],
        offset: Token | None,
        *marks: Token,
    ) -> Query:
        (source, alias), *others = sources
        # Without a name of its own the last relationship is the alias.
        aliases = tuple(((name or path.names[-1]).lower(), path) for path, name in others)
        skipped = _read_offset(offset)
        return Query(items, source, _start(select), alias, aliases, where, *group, order or (), *limit, skipped)

    def select_list(self, *parts: Any) -> tuple[Any, ...]:
        return parts

    paths = branch = sources = source = expressions = order_keys = values = returning = select_list

    def field(self, expression: Expression, alias: Token | None) -> SelectField:
        # A record's keys are shown to agents: plain texts.
        return SelectField(expression, alias and str(alias))

    def by_type(self, relationship: Path, *branches: Any) -> SelectByType:
        return SelectByType(relationship, branches[:-1], branches[-1] or ())

    def all_fields(self, fields: Token, which: Token) -> SelectAll:
        return SelectAll(which.upper(), _start(fields))

    def group(self, *parts: Any) -> tuple[tuple[Expression, ...], str, Condition | None]:
        *kind, expressions, having = parts
        return expressions or (), _word(kind[-1]) if kind else "", having

    def limit(self, word: Token | None, count: Token | None) -> tuple[int | None, int]:
        return (None, 0) if word is None or count is None else (int(count), _start(word))

    def order_key(self, expression: Expression, direction: Token | None, nulls: Token | None) -> Order:
        return Order(expression, _word(direction) == "DESC", _word(nulls) == "LAST")

    def all_rows(self, word: Token, rows: Token) -> None:
        # Deleted records are asked for by another resource of the API (queryAll), and in Apex by this clause.
        raise _RefusedError(rows.start_pos, "ALL ROWS not allowed in this context")

    def path(self, *names: Token) -> Path:
        return Path(tuple(map(str, names)), tuple(map(_start, names)))

    def call(self, name: Token, argument: Expression | None) -> FunctionCall:
        return FunctionCall(name.upper(), argument, _start(name))

    def distance(self, name: Token, field: Path, place: tuple[float, float] | Path, unit: Token) -> FunctionCall:
        text = _read_string(unit)
        if text not in ("mi", "km"):
            raise _RefusedError(unit.start_pos, f"Invalid distance unit: {text}. Use mi or km")
        return FunctionCall("DISTANCE", field, _start(name), place, text)

    def geolocation(self, latitude: Token, longitude: Token) -> tuple[float, float]:
        return _read_degrees(latitude, 90), _read_degrees(longitude, 180)

    def all_of(self, *conditions: Condition) -> Junction:
        return Junction("AND", conditions)

    def any_of(self, *conditions: Condition) -> Junction:
        return Junction("OR", conditions)

    def negation(self, word: Token, condition: Condition) -> Junction:
        return Junction("NOT", (condition,))

    def comparison(self, left: Expression, *parts: Any) -> Comparison:
        *words, values = parts
        operator = " ".join(map(_word, words))
        # Both spellings of unequal are SOQL's.
        return Comparison(
            left, "!=" if operator == "<>" else operator, values if isinstance(values, tuple) else (values,)
        )

    def semi_join(self, left: Expression, negated: Token | None, word: Token, opening: Token, query: Query) -> SemiJoin:
        if not isinstance(left, Path):
            raise _RefusedError(opening.start_pos, "unexpected token: '('")
        return SemiJoin(left, negated is not None, query)

    def string(self, token: Token) -> Value:
        text = _read_string(token)
        return Value("string", text, text, _start(token))

    def number(self, token: Token) -> Value:
        # The currency of USD5000 is the only one that there is.
        text = token[3:] if token.type == "CURRENCY" else str(token)
        return Value("number", _read_number(token, text), str(token), _start(token))

    def boolean(self, token: Token) -> Value:
        return Value("boolean", token.upper() == "TRUE", str(token), _start(token))

    def null(self, token: Token) -> Value:
        return Value("null", None, str(token), _start(token))

    def day(self, token: Token) -> Value:
        return _read_date(token, "date", date.fromisoformat)

    def moment(self, token: Token) -> Value:
        return _read_date(token, "datetime", read_moment)

    def relative(self, word: Token, number: Token | None = None) -> Value:
        count = None if number is None else int(number)
        text = str(word) if count is None else f"{word}:{count}"
        return Value("relative", (word.upper(), count), text, _start(word))

    def find(
        self,
        braces: Token,
        word: Token | None,
        fields: Token | None,
        returning: tuple[Query, ...] | None,
        *clauses: Any,
    ) -> tuple[str, str, tuple[Query, ...], int | None]:
        # Behind the filters, which filter nothing here, comes the limit.
        return braces[1:-1], _word(fields) or "ALL", returning or (), clauses[-1][0]

    def returned(self, name: Token, items: tuple[SelectItem, ...] | None, *clauses: Any) -> Query:
        source = self.path(name)
        if items is None:
            return Query((SelectField(Path(("Id",), source.positions)),), source, source.position)
        where, order, (limit, _), offset = clauses
        skipped = _read_offset(offset)
        return Query(items, source, source.position, where=where, order=order or (), limit=limit, offset=skipped)


def _read_offset(count: Token | None) -> int | None:
    if count is not None and int(count) > MOST_SKIPPED:
        text = f"Maximum SOQL offset allowed is {MOST_SKIPPED}"
        raise _RefusedError(count.start_pos, text, "NUMBER_OUTSIDE_VALID_RANGE")
    return None if count is None else int(count)


def _refuse_category(token: Token) -> Token:
    # The defaults have no category groups, so that any is unknown.
    group = token.split()[-1]
    at = (token.end_pos or 0) - len(group)
    raise _RefusedError(at, f"Data category group '{group}' does not exist", "INVALID_FIELD")


@cache
def _parser() -> Lark:
    grammar = (resources.files(__package__) / "grammar.lark").read_text(encoding="utf-8")
    grammar += _terminal("FUNCTION", FUNCTIONS - {"COUNT", "DISTANCE"}, after=r"(?=\s*\()")
    grammar += f"ALIAS: /(?!(?:{'|'.join(sorted(RESERVED))}|AS(?=\\s+[A-Z_]))\\b)[A-Z_][A-Z0-9_]*/i\n"
    rules = re.sub(r"//.*|/.*/\w*$", "", grammar, flags=re.MULTILINE)
    defined = set(re.findall(r"^(\w+)(?:\.\d)?:", rules, flags=re.MULTILINE))
    for name in sorted(set(re.findall(r"\b_?[A-Z][A-Z_]+\b", rules)) - defined):
        grammar += _terminal(name, [name.removeprefix("_")])
    return Lark(
        grammar,
        start=["query", "find"],
        parser="lalr",
        transformer=_Builder(),
        lexer_callbacks={"DATA_CATEGORY": _refuse_category},
        maybe_placeholders=True,
    )


def _terminal(name: str, words: Iterable[str], after: str = r"\b") -> str:
    return f"{name}.2: /(?:{'|'.join(sorted(words, reverse=True))}){after}/i\n"
