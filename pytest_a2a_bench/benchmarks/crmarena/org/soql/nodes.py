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
class Distance:
    """``GEOLOCATION(37.7, -122.4), 'km'``: the arguments of DISTANCE after the field.

    :param place: latitude and longitude in degrees, or another field with a place.
    :param unit: ``mi`` or ``km``.
    """

    place: tuple[float, float] | Path
    unit: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function of one field or of another call: ``COUNT(Id)``, ``CALENDAR_YEAR(convertTimezone(CreatedDate))``.

    :param name: in capitals.
    :param argument: None for ``COUNT()``.
    :param distance: the further arguments of ``DISTANCE``.
    """

    name: str
    argument: Path | FunctionCall | None
    position: int
    distance: Distance | None = None


Expression = Path | FunctionCall


@dataclass(frozen=True, slots=True)
class RelativeDate:
    """``TODAY``, ``LAST_N_DAYS:30``.

    :param name: in capitals, with ``_N_`` where there is a number.
    """

    name: str
    number: int | None


@dataclass(frozen=True, slots=True)
class Value:
    """A literal; ``text`` is as written, strings without quotes and with LIKE's escapes still in."""

    kind: Literal["string", "number", "boolean", "null", "date", "datetime", "relative"]
    value: str | float | int | bool | date | datetime | RelativeDate | None
    text: str
    position: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """``Amount >= 100``, ``Name LIKE 'A%'``; the operator is one of ``= != < <= > >= LIKE``."""

    left: Expression
    operator: str
    value: Value


@dataclass(frozen=True, slots=True)
class Membership:
    """``Status IN ('New', 'Working')``; with ``INCLUDES`` and ``EXCLUDES`` for fields of several values."""

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
    """Conditions that all, or any, must hold."""

    operator: Literal["AND", "OR"]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """A condition that must not hold."""

    condition: Condition


Condition = Comparison | Membership | SemiJoin | Junction | Negation


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
class SelectChildren:
    """``(SELECT Id FROM Contacts)``."""

    query: Query


@dataclass(frozen=True, slots=True)
class SelectByType:
    """``TYPEOF What WHEN Opportunity THEN Amount ELSE Name END``."""

    relationship: Path
    branches: tuple[tuple[Path, tuple[Path, ...]], ...]
    otherwise: tuple[Path, ...]


SelectItem = SelectField | SelectAll | SelectChildren | SelectByType


@dataclass(frozen=True, slots=True)
class Order:
    """One key of ORDER BY; nulls come first unless NULLS LAST is said."""

    expression: Expression
    descending: bool
    nulls_last: bool


@dataclass(frozen=True, slots=True)
class Grouping:
    """GROUP BY; ``kind`` is empty, ``ROLLUP`` or ``CUBE``."""

    expressions: tuple[Expression, ...]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT.

    :param source: the first name after FROM: an object, or in a child subquery a relationship.
    :param aliases: further names in FROM, ``Contact c, c.Account a``: alias in lower case to the path that it
        stands for.
    """

    select: tuple[SelectItem, ...]
    source: Path
    position: int
    alias: str | None = None
    aliases: tuple[tuple[str, Path], ...] = ()
    where: Condition | None = None
    group: Grouping | None = None
    having: Condition | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    limit_position: int = 0
    offset: int | None = None


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
