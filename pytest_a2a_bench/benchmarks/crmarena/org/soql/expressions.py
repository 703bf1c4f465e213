"""Fields and functions of them in SQL, with the type that a comparison or a rendering goes by."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_a2a_bench.benchmarks.crmarena.org.schema import NUMERIC_TYPES, FieldType
from pytest_a2a_bench.benchmarks.crmarena.org.soql.nodes import (
    AGGREGATES,
    DATE_FUNCTIONS,
    RENDERINGS,
    Distance,
    Expression,
    FunctionCall,
    Path,
)
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import Resolved, Scope

#: Date functions over ``{d}``, a stored date or datetime in ISO form: the first ten characters are the day.
_DATE_SQL = {
    "YEAR": "CAST(substr({d}, 1, 4) AS INTEGER)",
    "MONTH": "CAST(substr({d}, 6, 2) AS INTEGER)",
    "QUARTER": "((CAST(substr({d}, 6, 2) AS INTEGER) + 2) / 3)",
    "DAY_IN_MONTH": "CAST(substr({d}, 9, 2) AS INTEGER)",
    # Salesforce counts from Sunday as 1, SQLite from 0.
    "DAY_IN_WEEK": "(CAST(strftime('%w', substr({d}, 1, 10)) AS INTEGER) + 1)",
    "DAY_IN_YEAR": "CAST(strftime('%j', substr({d}, 1, 10)) AS INTEGER)",
    "DAY_ONLY": "substr({d}, 1, 10)",
    "HOUR_IN_DAY": "CAST(substr({d}, 12, 2) AS INTEGER)",
    # Weeks of a month begin with its first day, whatever weekday that is.
    "WEEK_IN_MONTH": "((CAST(substr({d}, 9, 2) AS INTEGER) + 6) / 7)",
    "WEEK_IN_YEAR": "((CAST(strftime('%j', substr({d}, 1, 10)) AS INTEGER) + 6) / 7)",
}


@dataclass(frozen=True, slots=True)
class Operand:
    """An expression in SQL.

    :param field: the field that it is, or is a function of; None for ``COUNT()``.
    :param aggregate: whether it is a number for a group rather than for a record.
    :param plain: whether it is the field itself.
    :param formatted: whether its value is shown as people read it.
    """

    sql: str
    type: FieldType
    field: Resolved | None
    position: int
    aggregate: bool = False
    plain: bool = False
    formatted: bool = False

    @property
    def name(self) -> str:
        """The field's name, for messages and keys."""
        return self.field.name if self.field else "COUNT()"


def compile_expression(scope: Scope, expression: Expression, inside: str = "") -> Operand:
    """Return an expression in SQL.

    :param inside: the function whose argument it is.
    :raises OrgError: for unknown fields, and for functions of fields that they do not fit.
    """
    if isinstance(expression, Path):
        resolved = scope.resolve(expression)
        return Operand(resolved.sql, resolved.type, resolved, resolved.position, plain=True)
    if expression.argument is None:
        return Operand("COUNT(*)", "integer", None, expression.position, aggregate=True)
    if expression.distance is not None and isinstance(expression.argument, Path):
        return _distance(scope, expression, expression.argument, expression.distance)
    inner = compile_expression(scope, expression.argument, expression.name)
    if expression.name == "CONVERTTIMEZONE" and inside not in DATE_FUNCTIONS:
        raise scope.refuse(expression.position, "convertTimezone can only be used inside a date function")
    if expression.name in RENDERINGS:
        return _render(expression, inner)
    # Functions of functions are only allowed as arguments of aggregates.
    if inner.aggregate or (not inner.plain and expression.name not in AGGREGATES):
        raise scope.refuse(expression.position, f"unexpected token: '{expression.name}'")
    if expression.name in DATE_FUNCTIONS:
        return _date_function(scope, expression, inner)
    if expression.name == "GROUPING":
        return Operand(f"GROUPING({inner.sql})", "integer", inner.field, expression.position)
    return _aggregate(scope, expression, inner)


def is_distance(expression: Expression) -> bool:
    """Tell whether an expression is a distance, which has operators and clauses of its own."""
    return isinstance(expression, FunctionCall) and expression.distance is not None


def _distance(scope: Scope, call: FunctionCall, field: Path, distance: Distance) -> Operand:
    latitude, longitude = _coordinates(scope, field)
    if isinstance(distance.place, Path):
        other = [each.sql for each in _coordinates(scope, distance.place)]
    else:
        # Numbers that the parser has read: no text of the query gets into the SQL.
        other = [repr(degrees) for degrees in distance.place]
    sql = f"geo_distance({latitude.sql}, {longitude.sql}, {', '.join(other)}, '{distance.unit}')"
    return Operand(sql, "number", latitude, call.position)


def _coordinates(scope: Scope, path: Path) -> tuple[Resolved, Resolved]:
    """Return the two fields of a place: of an address or of a geolocation field.

    :raises OrgError: INVALID_FIELD if it is no place.
    """
    name = path.names[-1]
    custom = name.lower().endswith("__c")
    stem = name[:-3] if custom else name[: -len("Address")] if name.lower().endswith("address") else ""
    if not custom and not name.lower().endswith("address"):
        scope.resolve(path)
        raise scope.refuse(path.position, f"field {name} is not a location and has no distance", "INVALID_FIELD")
    ends = ("__latitude__s", "__longitude__s") if custom else ("Latitude", "Longitude")
    latitude, longitude = (scope.resolve(Path((*path.names[:-1], stem + end), path.positions)) for end in ends)
    return latitude, longitude


def _render(call: FunctionCall, inner: Operand) -> Operand:
    formatted = call.name == "FORMAT"
    return Operand(
        inner.sql, inner.type, inner.field, call.position, inner.aggregate, inner.plain, formatted or inner.formatted
    )


def _date_function(scope: Scope, call: FunctionCall, inner: Operand) -> Operand:
    wanted = ("datetime",) if call.name in ("HOUR_IN_DAY", "DAY_ONLY") else ("date", "datetime")
    if inner.type not in wanted:
        text = f"field {inner.name} of type {inner.type} does not support the date function {call.name}"
        raise scope.refuse(call.position, text, "INVALID_FIELD")
    # With a fiscal year like the calendar's these are the same.
    name = call.name.removeprefix("CALENDAR_").removeprefix("FISCAL_")
    field_type: FieldType = "date" if name == "DAY_ONLY" else "integer"
    return Operand(_DATE_SQL[name].format(d=inner.sql), field_type, inner.field, call.position)


def _aggregate(scope: Scope, call: FunctionCall, inner: Operand) -> Operand:
    numeric = inner.type in NUMERIC_TYPES
    if call.name in ("SUM", "AVG"):
        fits = numeric
    elif call.name in ("MIN", "MAX"):
        # There is no order of checkboxes, long texts and lists of choices.
        fits = inner.type not in ("boolean", "longtext", "multipicklist")
    else:
        fits = inner.type not in ("longtext", "boolean") or call.name == "COUNT"
    if not fits or (not inner.plain and call.name not in ("COUNT", "COUNT_DISTINCT", "MIN", "MAX")):
        raise scope.refuse(
            call.position, f"field {inner.name} does not support aggregate operator {call.name}", "MALFORMED_QUERY"
        )
    sql = f"COUNT(DISTINCT {inner.sql})" if call.name == "COUNT_DISTINCT" else f"{call.name}({inner.sql})"
    field_type: FieldType = "integer" if call.name.startswith("COUNT") else inner.type
    # An average of whole numbers need not be whole.
    if call.name == "AVG":
        field_type = "number"
    return Operand(sql, field_type, inner.field, call.position, aggregate=True)
