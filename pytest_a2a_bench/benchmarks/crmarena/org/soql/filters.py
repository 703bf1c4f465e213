"""One operand against literals, in SQL that is never NULL where a NOT could see it.

Salesforce's logic has two values: nothing compares as unknown. So ``!=`` and ``NOT IN`` keep records without a value.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.ids import is_record_id, spellings
from pytest_a2a_bench.benchmarks.crmarena.org.schema import ID_TYPES, TEXT_TYPES
from pytest_a2a_bench.benchmarks.crmarena.org.soql.dates import date_range, read_day, read_moment
from pytest_a2a_bench.benchmarks.crmarena.org.soql.expressions import Operand
from pytest_a2a_bench.benchmarks.crmarena.org.soql.nodes import RelativeDate, Value
from pytest_a2a_bench.benchmarks.crmarena.org.soql.plan import Taken
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import Scope
from pytest_a2a_bench.benchmarks.crmarena.org.soql.tokens import plain_text

# SQLite takes a limited number of parameters.
#: Lists beyond this go to SQLite as one JSON parameter, of which it takes any number.
_MANY = 100
#: The name of each type in "must be of type".
_TYPE_WORDS = {"integer": "int", "boolean": "boolean", "date": "date", "datetime": "dateTime"}


@dataclass(frozen=True, slots=True)
class Sql:
    """A piece of SQL and the parameters in it, some of them :class:`Taken`."""

    text: str
    parameters: tuple[Any, ...] = ()


NEVER = Sql("0")


def stored_moment(moment: datetime) -> str:
    """Return a moment, in UTC, as the tables hold it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}+0000"


def compare(scope: Scope, operand: Operand, operator: str, value: Value, today: date) -> Sql:
    """Return a comparison in SQL.

    :raises OrgError: where the operator or the literal does not fit the operand's type.
    """
    # Salesforce stores an empty text as null, so = '' finds the records without a value.
    empty = value.value == "" and operand.type in TEXT_TYPES | ID_TYPES and operator != "LIKE"
    if value.kind == "null" or empty:
        return _compare_null(scope, operand, operator)
    if operand.type in TEXT_TYPES:
        return _compare_text(scope, operand, operator, value)
    if operator == "LIKE" or (operand.type in ("id", "reference", "boolean") and operator not in ("=", "!=")):
        word = "id" if operand.type in ID_TYPES else _TYPE_WORDS.get(operand.type, "number")
        raise scope.refuse(operand.position, f"invalid operator on {word} field", "INVALID_QUERY_FILTER_OPERATOR")
    if operand.type in ID_TYPES:
        return _members(operand, _id_spellings(scope, operand, value), operator == "!=")
    if operand.type in ("date", "datetime"):
        return _compare_days(scope, operand, operator, value, today)
    expected = "boolean" if operand.type == "boolean" else "number"
    # Salesforce refuses 1.5 for a whole field, but not for a sum of one.
    if value.kind != expected or (operand.type == "integer" and isinstance(value.value, float) and operand.plain):
        raise _wrong_type(scope, operand, value)
    # SQLite has no booleans: the tables hold 0 and 1.
    number = int(value.value) if isinstance(value.value, bool) else value.value
    return _compare_sql(operand.sql, operator, number)


def _wrong_type(scope: Scope, operand: Operand, value: Value) -> OrgError:
    if operand.type in TEXT_TYPES or operand.type in ID_TYPES:
        text = "string and should be enclosed in quotes"
    else:
        word = _TYPE_WORDS.get(operand.type, "double")
        text = f"{word} and should not be enclosed in quotes"
    return scope.refuse(
        operand.position,
        f"value of filter criterion for field '{operand.name}' must be of type {text}",
        "INVALID_FIELD",
    )


def _compare_null(scope: Scope, operand: Operand, operator: str) -> Sql:
    if operator == "=":
        return Sql(f"{operand.sql} IS NULL")
    if operator == "!=":
        return Sql(f"{operand.sql} IS NOT NULL")
    if operator == "LIKE":
        raise scope.refuse(operand.position, "invalid operator on null value", "INVALID_QUERY_FILTER_OPERATOR")
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
        return Sql(f"{sql} LIKE ? ESCAPE '\\'", (_as_written(value, pattern),))
    sql, text = _folded(operand.sql, plain_text(text))
    return _compare_sql(sql, operator, _as_written(value, text))


def _as_written(value: Value, parameter: str) -> Taken:
    return Taken(parameter, value.position, _alone)


def _alone(text: str) -> tuple[str]:
    return (text,)


def _folded(sql: str, text: str) -> tuple[str, str]:
    """Compare by Unicode's case folding where SQLite's own, which knows ASCII only, would not do."""
    return (sql, text) if text.isascii() else (f"fold({sql})", text.casefold())


def _id_spellings(scope: Scope, operand: Operand, value: Value) -> list[Taken]:
    if value.kind != "string":
        raise _wrong_type(scope, operand, value)
    if not is_record_id(str(value.value)):
        text = f"invalid ID field: {value.text}"
        raise scope.refuse(operand.position, text, "INVALID_QUERY_FILTER_OPERATOR")
    return [Taken(one, value.position, _read_id, at) for at, one in enumerate(spellings(str(value.value)))]


def _read_id(text: str) -> tuple[str, ...]:
    if not is_record_id(text):
        raise ValueError(text)
    return spellings(text)


def _members(operand: Operand, values: list[Any], negated: bool) -> Sql:
    if not values:
        # NOT IN an empty list holds for every record.
        return Sql("1") if negated else NEVER
    if len(values) > _MANY:
        plain = [each.value if isinstance(each, Taken) else each for each in values]
        inner, parameters = "SELECT value FROM json_each(?)", (json.dumps(plain),)
    else:
        inner, parameters = ", ".join("?" * len(values)), tuple(values)
    if negated:
        return Sql(f"({operand.sql} IS NULL OR {operand.sql} NOT IN ({inner}))", parameters)
    return Sql(f"{operand.sql} IN ({inner})", parameters)


def _bounds(scope: Scope, operand: Operand, value: Value, today: date) -> tuple[str | Taken, str | Taken]:
    """Return the first stored value that a date literal means, and the first one after it (or the same)."""
    if isinstance(value.value, RelativeDate):
        try:
            # Years before 1 and after 9999 have no date.
            first, end = date_range(value.value.name, value.value.number, today)
        except OverflowError:
            text = f"Invalid date: {value.text}"
            raise scope.refuse(value.position, text, "INVALID_QUERY_FILTER_OPERATOR") from None
        if operand.type == "date":
            return first.isoformat(), end.isoformat()
        return f"{first.isoformat()}T00:00:00.000+0000", f"{end.isoformat()}T00:00:00.000+0000"
    if operand.type == "datetime" and isinstance(value.value, datetime):
        return (Taken(stored_moment(value.value), value.position, _stored_moment),) * 2
    if operand.type == "date" and value.kind == "date" and isinstance(value.value, date):
        # One moment or day: both bounds are the same.
        return (Taken(value.value.isoformat(), value.position, _stored_day),) * 2
    raise _wrong_type(scope, operand, value)


def _stored_moment(text: str) -> tuple[str]:
    return (stored_moment(read_moment(text)),)


def _stored_day(text: str) -> tuple[str]:
    return (read_day(text).isoformat(),)


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
    """Return IN or NOT IN a list, in SQL.

    :raises OrgError: where a literal does not fit the operand's type.
    """
    plain = [value for value in values if value.kind != "null"]
    if operand.type in ID_TYPES:
        ids = [spelling for value in plain for spelling in _id_spellings(scope, operand, value)]
        return _with_null(operand, _members(operand, ids, negated), len(plain) < len(values), negated)
    # One IN instead of many ORs where all literals are plain.
    simple = operand.type not in ("date", "datetime") and all(_is_simple(value) for value in plain)
    if simple:
        compiled = [compare(scope, operand, "=", value, today) for value in plain]
        parameters = [parameter for sql in compiled for parameter in sql.parameters]
        listed = _members(operand, parameters, negated)
        return _with_null(operand, listed, len(plain) < len(values), negated)
    return _any_of([compare(scope, operand, "=", value, today) for value in values], negated)


def _is_simple(value: Value) -> bool:
    # Other characters need folding, and an empty text means null.
    return value.value != "" and (not isinstance(value.value, str) or value.value.isascii())


def _with_null(operand: Operand, listed: Sql, null: bool, negated: bool) -> Sql:
    if not null:
        return listed
    if negated:
        return Sql(f"({operand.sql} IS NOT NULL AND {listed.text})", listed.parameters)
    return Sql(f"({operand.sql} IS NULL OR {listed.text})", listed.parameters)


def _any_of(parts: list[Sql], negated: bool) -> Sql:
    joined = join("OR", parts)
    # Not null where nothing is known: see the head of this module.
    return Sql(f"NOT IFNULL({joined.text}, 0)", joined.parameters) if negated else joined


def join(operator: str, parts: list[Sql]) -> Sql:
    """Join conditions in brackets, as a balanced tree: SQLite's expressions may not be deeper than a thousand."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    left, right = join(operator, parts[:middle]), join(operator, parts[middle:])
    return Sql(f"({left.text} {operator} {right.text})", left.parameters + right.parameters)


def includes(scope: Scope, operand: Operand, values: tuple[Value, ...], negated: bool) -> Sql:
    """Return INCLUDES or EXCLUDES, in SQL: the stored values are joined by semicolons.

    A literal may itself ask for several values at once (``'A;B'``).

    :raises OrgError: if the operand holds one value only.
    """
    if operand.type != "multipicklist":
        text = "includes or excludes operator is only valid on multipicklist field"
        raise scope.refuse(operand.position, text, "INVALID_QUERY_FILTER_OPERATOR")
    parts = []
    for value in values:
        if value.kind != "string":
            raise _wrong_type(scope, operand, value)
        # A;B asks for both in one value.
        wanted = [each.strip() for each in plain_text(str(value.value)).split(";")]
        parts.append(join("AND", [_holds(operand, each) for each in wanted]))
    return _any_of(parts, negated)


def _holds(operand: Operand, wanted: str) -> Sql:
    return Sql(f"instr(fold(';' || {operand.sql} || ';'), ?) > 0", (f";{wanted.casefold()};",))
