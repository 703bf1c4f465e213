"""The parsed form of a SOQL query, and the words of the language. Nodes that can be refused know their position."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal


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
