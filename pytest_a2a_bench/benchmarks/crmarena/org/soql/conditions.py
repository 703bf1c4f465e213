"""WHERE and HAVING in SQL: conditions, comparisons with literals, and the days that SOQL's date words mean.

Salesforce's logic has two values: nothing compares as unknown. So ``!=`` and ``NOT IN`` keep records without a value,
and no condition is NULL where a NOT could see it. Weeks begin on Sunday, the fiscal year with the calendar year, and
days at midnight UTC, as on an org with the defaults.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org import ID_TYPES, TEXT_TYPES, OrgError, is_record_id, spellings
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import (
    Condition,
    Expression,
    Junction,
    Path,
    Query,
    SelectField,
    SemiJoin,
    Value,
)
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import (
    Operand,
    Scope,
    cannot_be,
    compile_expression,
    find_object,
    is_distance,
)

#: How many semi-joins and anti-joins a query may have, on Salesforce.
MOST_SEMI_JOINS = 2


@dataclass
class ConditionCompiler:
    """Compiler of the conditions of one query.

    :param operand: turns an expression into SQL; HAVING has one that insists on groups.
    """

    scope: Scope
    today: date
    operand: Callable[[Expression], Operand]
    _semi_joins: int = 0

    def compile(self, condition: Condition, *, top: bool = True) -> Sql:
        """Return a condition in SQL.

        :param top: whether it is below nothing but ANDs.
        :raises OrgError: for names, types and operators that do not fit.
        """
        if isinstance(condition, Junction):
            # Salesforce allows semi-joins beside each other, and not below OR or NOT.
            still_top = top and condition.operator == "AND"
            parts = [self.compile(each, top=still_top) for each in condition.conditions]
            return _negate(parts[0]) if condition.operator == "NOT" else join(condition.operator, parts)
        if isinstance(condition, SemiJoin):
            return self._semi_join(condition, top)
        operand, operator, values = self.operand(condition.left), condition.operator, condition.values
        if operand.type == "longtext":
            raise cannot_be("filtered", self.scope, operand)
        if is_distance(condition.left) and operator not in ("<", ">"):
            raise self.scope.refuse(operand.position, "The DISTANCE function only supports the operators < and >")
        if operator in ("INCLUDES", "EXCLUDES"):
            # No field of the benchmark holds several values.
            text = "includes or excludes operator is only valid on multipicklist field"
            raise _bad_filter(self.scope, operand.position, text)
        if operator in ("IN", "NOT IN"):
            return member(self.scope, operand, values, operator == "NOT IN", self.today)
        return compare(self.scope, operand, operator, values[0], self.today)

    def _semi_join(self, condition: SemiJoin, top: bool) -> Sql:
        self._check_place(condition, top)
        left = self.operand(condition.left)
        inner, selected = self._inner_scope(condition.query)
        right = where_operand(inner, selected)
        if right.parents:
            text = f"The selected field '{selected.text}' in the subquery must not traverse relationships"
            raise self.scope.refuse(selected.position, text)
        self._check_types(condition, left, right)
        # They cannot be nested: one in it is one too many.
        where = compile_where(inner, condition.query.where, self.today, semi_joins=MOST_SEMI_JOINS + 1)
        # NULLs in the list would make NOT IN find nothing in SQL.
        chosen = f"SELECT {right.sql} FROM {inner.from_sql} WHERE {right.sql} IS NOT NULL AND {where.text}"
        return _negate(Sql(f"{left.sql} IN ({chosen})", where.parameters), condition.negated)

    def _check_place(self, condition: SemiJoin, top: bool) -> None:
        position = condition.query.position
        if self._semi_joins > MOST_SEMI_JOINS:
            raise self.scope.refuse(position, "Nesting of semi join sub-selects is not supported")
        if not top:
            text = "Semi join sub-selects are only allowed at the top level WHERE expressions and not in nested WHERE"
            raise self.scope.refuse(position, f"{text} expressions.")
        self._semi_joins += 1
        if self._semi_joins > MOST_SEMI_JOINS:
            raise self.scope.refuse(position, f"Maximum {MOST_SEMI_JOINS} semi join sub-selects are allowed.")

    def _inner_scope(self, query: Query) -> tuple[Scope, Path]:
        scope = self.scope
        found = find_object(scope.schema, scope.text, query.source)
        if query.group or query.order or query.limit is not None or query.offset is not None:
            raise scope.refuse(query.position, "GROUP BY, ORDER BY, LIMIT and OFFSET are not allowed in semi join")
        if found.name == scope.root.name:
            text = "The inner and outer selects should not be on the same object type"
            raise scope.refuse(query.position, text)
        item = query.select[0]
        if len(query.select) != 1 or not isinstance(item, SelectField) or not isinstance(item.expression, Path):
            raise scope.refuse(query.position, "Semi join sub-selects must have exactly one field in the select list")
        # A prefix of its own: both queries may join the same tables.
        prefix = f"{scope.prefix}s{self._semi_joins}_"
        return Scope(scope.schema, scope.text, found, query.alias, prefix, dict(query.aliases)), item.expression

    def _check_types(self, condition: SemiJoin, left: Operand, right: Operand) -> None:
        is_id = left.type in ID_TYPES and right.type in ID_TYPES
        if not is_id or not set(left.refers_to) & set(right.refers_to):
            text = (
                f"The selected field '{right.name}' in the subquery and the left operand field '{left.name}' in the "
                "where expression in the outer query should point to the same object type"
            )
            raise self.scope.refuse(condition.left.position, text)


def compile_where(scope: Scope, condition: Condition | None, today: date, *, semi_joins: int = 0) -> Sql:
    """Return a WHERE in SQL.

    :param semi_joins: how many semi-joins there are already.
    :raises OrgError: for names, types and operators that do not fit.
    """
    compiler = ConditionCompiler(scope, today, functools.partial(where_operand, scope), semi_joins)
    return compiler.compile(condition) if condition is not None else Sql("1")


def where_operand(scope: Scope, expression: Expression) -> Operand:
    """Return an expression of a WHERE in SQL: anything but an aggregate."""
    operand = compile_expression(scope, expression)
    if operand.aggregate or operand.sql.startswith("GROUPING("):
        text = "Aggregate functions are only allowed in HAVING, ORDER BY and SELECT clauses"
        raise scope.refuse(operand.position, text)
    return operand


#: The name of each type in "must be of type".
_TYPE_WORDS = {"integer": "int", "boolean": "boolean", "date": "date", "datetime": "dateTime"}


@dataclass(frozen=True, slots=True)
class Sql:
    """A piece of SQL and the parameters in it."""

    text: str
    parameters: tuple[Any, ...] = ()


NEVER = Sql("0")


def stored_moment(moment: datetime) -> str:
    """Return a moment, in UTC, as the tables hold it."""
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "+0000"


def compare(scope: Scope, operand: Operand, operator: str, value: Value, today: date) -> Sql:
    """Return a comparison in SQL; raises OrgError where the operator or the literal does not fit the operand's type."""
    # Salesforce stores an empty text as null, so = '' finds the records without a value.
    empty = value.value == "" and operand.type in TEXT_TYPES | ID_TYPES and operator != "LIKE"
    if value.kind == "null" or empty:
        return _compare_null(scope, operand, operator)
    if operand.type in TEXT_TYPES:
        return _compare_text(scope, operand, operator, value)
    if operator == "LIKE" or (operand.type in ("id", "reference", "boolean") and operator not in ("=", "!=")):
        word = "id" if operand.type in ID_TYPES else _TYPE_WORDS.get(operand.type, "number")
        raise _bad_filter(scope, operand.position, f"invalid operator on {word} field")
    if operand.type in ID_TYPES:
        return _negate(_among(operand, _id_spellings(scope, operand, value)), operator == "!=")
    if operand.type in ("date", "datetime"):
        return _compare_days(scope, operand, operator, value, today)
    expected = "boolean" if operand.type == "boolean" else "number"
    # Salesforce refuses 1.5 for a whole field, but not for a sum of one.
    if value.kind != expected or (operand.type == "integer" and isinstance(value.value, float) and operand.plain):
        raise _wrong_type(scope, operand, value)
    # SQLite has no booleans: the tables hold 0 and 1.
    number = int(value.value) if isinstance(value.value, bool) else value.value
    return _compare_sql(operand.sql, operator, number)


def _bad_filter(scope: Scope, position: int, text: str) -> OrgError:
    return scope.refuse(position, text, "INVALID_QUERY_FILTER_OPERATOR")


def _wrong_type(scope: Scope, operand: Operand, value: Value) -> OrgError:
    if operand.type in TEXT_TYPES or operand.type in ID_TYPES:
        wanted = "string and should be"
    else:
        wanted = f"{_TYPE_WORDS.get(operand.type, 'double')} and should not be"
    text = f"value of filter criterion for field '{operand.name}' must be of type {wanted} enclosed in quotes"
    return scope.refuse(operand.position, text, "INVALID_FIELD")


def _compare_null(scope: Scope, operand: Operand, operator: str) -> Sql:
    if operator == "=":
        return Sql(f"{operand.sql} IS NULL")
    if operator == "!=":
        return Sql(f"{operand.sql} IS NOT NULL")
    if operator == "LIKE":
        raise _bad_filter(scope, operand.position, "invalid operator on null value")
    # Salesforce lets < and > stand before null, and finds nothing.
    return NEVER


def _compare_sql(sql: str, operator: str, parameter: Any) -> Sql:
    if operator == "!=":
        # A record without a value is unequal to any value, which SQL would leave open.
        return Sql(f"({sql} IS NULL OR {sql} <> ?)", (parameter,))
    return Sql(f"{sql} {operator} ?", (parameter,))


def _compare_text(scope: Scope, operand: Operand, operator: str, value: Value) -> Sql:
    if value.kind != "string":
        raise _wrong_type(scope, operand, value)
    text = str(value.value)
    # Patterns go through unchanged: % and _ mean the same, and so does the backslash.
    if operator == "LIKE":
        sql, pattern = _folded(operand.sql, text)
        return Sql(f"{sql} LIKE ? ESCAPE '\\'", (pattern,))
    sql, text = _folded(operand.sql, plain_text(text))
    return _compare_sql(sql, operator, text)


def plain_text(value: str) -> str:
    """Return a string's value without the escapes that the parser keeps for LIKE."""
    return re.sub(r"\\([%_\\])", r"\1", value)


def _folded(sql: str, text: str) -> tuple[str, str]:
    """Compare by Unicode's case folding where SQLite's own, which knows ASCII only, would not do."""
    return (sql, text) if text.isascii() else (f"fold({sql})", text.casefold())


def _id_spellings(scope: Scope, operand: Operand, value: Value) -> tuple[str, ...]:
    if value.kind != "string":
        raise _wrong_type(scope, operand, value)
    if not is_record_id(str(value.value)):
        raise _bad_filter(scope, operand.position, f"invalid ID field: {value.text}")
    return spellings(str(value.value))


def _among(operand: Operand, values: Sequence[Any]) -> Sql:
    # One parameter: SQLite takes a limited number of them.
    return Sql(f"{operand.sql} IN (SELECT value FROM json_each(?))", (json.dumps(values),))


def _bounds(scope: Scope, operand: Operand, value: Value, today: date) -> tuple[str, str]:
    """Return the first stored value that a date literal means, and the first one after it (or the same)."""
    if isinstance(value.value, tuple):
        try:
            # Years before 1 and after 9999 have no date.
            first, end = date_range(*value.value, today)
        except OverflowError:
            raise _bad_filter(scope, value.position, f"Invalid date: {value.text}") from None
        if operand.type == "date":
            return first.isoformat(), end.isoformat()
        return f"{first.isoformat()}T00:00:00.000+0000", f"{end.isoformat()}T00:00:00.000+0000"
    if operand.type == "datetime" and isinstance(value.value, datetime):
        return (stored_moment(value.value),) * 2
    if operand.type == "date" and value.kind == "date" and isinstance(value.value, date):
        # One moment or day: both bounds are the same.
        return (value.value.isoformat(),) * 2
    raise _wrong_type(scope, operand, value)


def _compare_days(scope: Scope, operand: Operand, operator: str, value: Value, today: date) -> Sql:
    first, end = _bounds(scope, operand, value, today)
    sql = operand.sql
    # A single moment is compared as it is; a range has two ends.
    if first == end:
        return _compare_sql(sql, operator, first)
    if operator == "=":
        return Sql(f"({sql} >= ? AND {sql} < ?)", (first, end))
    if operator == "!=":
        return Sql(f"({sql} IS NULL OR {sql} < ? OR {sql} >= ?)", (first, end))
    # A range begins at its first day and ends before the day after it.
    sign, limit = {"<": ("<", first), ">=": (">=", first), "<=": ("<", end), ">": (">=", end)}[operator]
    return Sql(f"{sql} {sign} ?", (limit,))


def member(scope: Scope, operand: Operand, values: tuple[Value, ...], negated: bool, today: date) -> Sql:
    """Return IN or NOT IN a list, in SQL; raises OrgError where a literal does not fit the operand's type."""
    listed: list[Any] = []
    parts: list[Sql] = []
    for value in values:
        if operand.type in ID_TYPES and value.kind != "null":
            listed += _id_spellings(scope, operand, value)
            continue
        compared = compare(scope, operand, "=", value, today)
        # One IN instead of many ORs, but for nulls, ranges of days, and texts that are folded.
        if compared.text == f"{operand.sql} = ?":
            listed += compared.parameters
        else:
            parts.append(compared)
    if listed:
        parts.append(_among(operand, listed))
    return _negate(join("OR", parts), negated)


def _negate(condition: Sql, negated: bool = True) -> Sql:
    # A comparison with null is false on Salesforce, so its negation is true; in SQL both would be NULL.
    return Sql(f"NOT IFNULL({condition.text}, 0)", condition.parameters) if negated else condition


def join(operator: str, parts: list[Sql]) -> Sql:
    """Join conditions in brackets, as a balanced tree: SQLite's expressions may not be deeper than a thousand."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    left, right = join(operator, parts[:middle]), join(operator, parts[middle:])
    return Sql(f"({left.text} {operator} {right.text})", left.parameters + right.parameters)


_FIXED = {"TODAY": (0, 1), "YESTERDAY": (-1, 0), "TOMORROW": (1, 2), "LAST_90_DAYS": (-90, 1), "NEXT_90_DAYS": (1, 91)}
_UNIT = re.compile(r"(?:(LAST|THIS|NEXT)_)?(?:N_)?(?:FISCAL_)?(DAY|WEEK|MONTH|QUARTER|YEAR)S?(?:_AGO)?")
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def date_range(name: str, number: int | None, today: date) -> tuple[date, date]:
    """Return the first day that a date word means, and the first day after it.

    LAST_N_DAYS includes today; LAST_N_WEEKS, _MONTHS, _QUARTERS and _YEARS end before the current one.

    :raises OverflowError: if the range leaves the calendar.
    """
    unit, first, end = _units(name, number)
    try:
        return _shift(unit, today, first), _shift(unit, today, end)
    except ValueError as error:
        raise OverflowError(str(error)) from error


def _units(name: str, number: int | None) -> tuple[str, int, int]:
    """Return a date word's unit, and its range in such units from the current one, which is 0."""
    if name in _FIXED:
        return "DAY", *_FIXED[name]
    found = _UNIT.fullmatch(name)
    # The grammar has no other words.
    assert found is not None, name
    direction, unit = found.groups()
    if number is None:
        first = {"LAST": -1, "THIS": 0, "NEXT": 1}[direction]
        return unit, first, first + 1
    if direction is None:
        return unit, -number, -number + 1
    # Days run up to and including today, other units end before the current one.
    return (unit, 1, number + 1) if direction == "NEXT" else (unit, -number, int(unit == "DAY"))


def _shift(unit: str, today: date, by: int) -> date:
    if unit == "DAY":
        return today + timedelta(days=by)
    if unit == "WEEK":
        # isoweekday has Sunday as 7.
        sunday = today - timedelta(days=today.isoweekday() % 7)
        return sunday + timedelta(weeks=by)
    months = _MONTHS[unit]
    # Months counted from year 0, so that a quarter or a year is a step of 3 or 12.
    index = today.year * 12 + (today.month - 1) // months * months + by * months
    return date(index // 12, index % 12 + 1, 1)
