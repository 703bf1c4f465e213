"""Names and functions in SQL: which column a path means, the joins that lead to it, and functions of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_a2a_bench.benchmarks.crmarena.org import (
    NUMERIC_TYPES,
    TEXT_TYPES,
    ChildRelationship,
    Field,
    FieldType,
    OrgError,
    OrgSchema,
    SObject,
    no_such,
    outside_object,
    refuse,
)
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import (
    AGGREGATES,
    DATE_FUNCTIONS,
    RENDERINGS,
    Expression,
    FunctionCall,
    Path,
)

#: How far from its root a query may walk up, on Salesforce.
MOST_PARENTS = 5
#: What the parent of a reference to several objects shows of itself: the fields of Salesforce's Name object.
_NAME_FIELDS: dict[str, FieldType] = {
    **dict.fromkeys(("Name", "Type", "FirstName", "LastName", "Title", "Alias", "Username"), "text"),
    "Id": "id",
    "Email": "email",
    "Phone": "phone",
    "IsActive": "boolean",
}


def quote(name: str) -> str:
    """Return an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Target:
    """A joined table, or several where a reference may point at several objects."""

    tables: tuple[tuple[str, SObject], ...]

    @property
    def id_sql(self) -> str:
        """The record's id, NULL where there is no record."""
        return _coalesce([f"{alias}.{quote('Id')}" for alias, _ in self.tables])

    @property
    def type_sql(self) -> str:
        """The name of the record's object, NULL where there is no record."""
        cases = " ".join(
            f"WHEN {alias}.{quote('Id')} IS NOT NULL THEN '{sobject.name}'" for alias, sobject in self.tables
        )
        return f"CASE {cases} END"


Parents = tuple[tuple[str, Target], ...]
"""Names of the relationships that lead to a field, as the schema spells them, and where each leads."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A field, or a function of one, in SQL.

    :param sql: the expression, with its collation where it is text.
    :param name: the field's name as the schema spells it, for messages and keys.
    :param column: the field itself in SQL, and its type; empty for ``COUNT()``.
    :param refers_to: objects that the field may point at.
    :param parents: the path to the field.
    :param aggregate: whether it is a number for a group rather than for a record.
    :param plain: whether it is the field itself.
    :param formatted: whether its value is shown as people read it.
    """

    sql: str
    type: FieldType
    name: str
    position: int
    column: tuple[str, FieldType | str] = ("", "")
    refers_to: tuple[str, ...] = ()
    parents: Parents = ()
    aggregate: bool = False
    plain: bool = False
    formatted: bool = False

    def function(self, sql: str, field_type: FieldType, position: int, *, aggregate: bool = False) -> Operand:
        """Return a function of this operand."""
        return replace(
            self, sql=sql, type=field_type, position=position, aggregate=aggregate, plain=False, formatted=False
        )


def _coalesce(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"COALESCE({', '.join(parts)})"


@dataclass
class Scope:
    """The root object of a query, and the parents that it walks to.

    :param text: the query, for the frames of refusals.
    :param prefix: begins the names of its tables, so that a query inside another keeps apart from it.
    """

    schema: OrgSchema
    text: str
    root: SObject
    alias: str | None = None
    prefix: str = "t"
    aliases: Mapping[str, Path] = field(default_factory=dict)
    _targets: dict[tuple[str, ...], Target] = field(default_factory=dict)
    _joins: list[str] = field(default_factory=list)
    _tables: int = 1

    @property
    def root_table(self) -> str:
        """Name of the root's table in SQL."""
        return f"{self.prefix}0"

    @property
    def from_sql(self) -> str:
        """The objects after FROM: the root and every parent that was resolved so far."""
        return " ".join([f"{quote(self.root.name)} AS {self.root_table}", *self._joins])

    def resolve(self, path: Path) -> Operand:
        """Return the field that a path means.

        :raises OrgError: INVALID_FIELD for a relationship or a field that is not there.
        """
        names, positions = self._expand(path)
        parents = self._walk(names[:-1], positions)
        tables = parents[-1][1].tables if parents else ((self.root_table, self.root),)
        if len(tables) == 1:
            return self._field(*tables[0], names[-1], positions[-1], parents)
        return self._name_field(parents, names[-1], positions[-1])

    def resolve_parent(self, path: Path) -> tuple[Parents, Target]:
        """Return the relationships that a path of nothing but relationships walks, and where it ends.

        :raises OrgError: INVALID_FIELD for a relationship that is not there.
        """
        parents = self._walk(*self._expand(path))
        return parents[:-1], parents[-1][1]

    def _expand(self, path: Path) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Take away the root's name or alias in front of a path, and spell other aliases out."""
        names, positions = path.names, path.positions
        for _ in range(MOST_PARENTS):
            known = self.aliases.get(names[0].lower())
            if len(names) == 1 or known is None or known.names[0].lower() == names[0].lower():
                break
            names, positions = known.names + names[1:], (positions[0],) * len(known.names) + positions[1:]
        if len(names) > 1 and self._is_root(names[0]):
            names, positions = names[1:], positions[1:]
        if len(names) > MOST_PARENTS + 1:
            text = (
                "SOQL statements cannot query parent relationships more than 5 levels away from the root entity object."
            )
            raise refuse("MALFORMED_QUERY", self.text, positions[0], text)
        return names, positions

    def _is_root(self, name: str) -> bool:
        if self.alias is not None and name.lower() == self.alias.lower():
            return True
        # An object's name in front means the root, unless the root has a relationship of that name: then the path walks
        # there, as on Salesforce.
        return name.lower() == self.root.name.lower() and self.root.parent(name) is None

    def _walk(self, names: tuple[str, ...], positions: tuple[int, ...]) -> Parents:
        walked: list[tuple[str, Target]] = []
        tables: tuple[tuple[str, SObject], ...] = ((self.root_table, self.root),)
        for at, name in enumerate(names):
            reference = tables[0][1].parent(name) if len(tables) == 1 else None
            target = reference and self._join(tuple(each.lower() for each in names[: at + 1]), tables[0][0], reference)
            if reference is None or not target:
                raise no_such("parent", self.text, positions[at], name)
            walked.append((str(reference.relationship), target))
            tables = target.tables
        return tuple(walked)

    def _join(self, key: tuple[str, ...], table: str, reference: Field) -> Target | None:
        if key in self._targets:
            return self._targets[key]
        found = [(quote(there.name), there) for name in reference.refers_to if (there := self.schema.object(name))]
        if not found:
            # A parent that a real org has and this one has no table of: no record is found.
            outside = [there for name in reference.refers_to if (there := outside_object(name))][:1]
            columns = (", ".join(f"NULL AS {quote(each.name)}" for each in there.all_fields) for there in outside)
            found = [(f"(SELECT {each})", there) for each, there in zip(columns, outside, strict=True)]
        tables = []
        for source, sobject in found:
            alias = f"{self.prefix}{self._tables}"
            self._tables += 1
            self._joins.append(
                f"LEFT JOIN {source} AS {alias} ON {alias}.{quote('Id')} = {table}.{quote(reference.name)}"
            )
            tables.append((alias, sobject))
        if not tables:
            return None
        self._targets[key] = Target(tuple(tables))
        return self._targets[key]

    def _field(self, table: str, sobject: SObject, name: str, position: int, parents: Parents) -> Operand:
        found = sobject.field(name)
        if found is not None:
            refers_to = (sobject.name,) if found.type == "id" else found.refers_to
            sql = field_sql(table, found)
            return Operand(sql, found.type, found.name, position, (sql, found.type), refers_to, parents, plain=True)
        # On Salesforce an owner may be a queue, so queries ask Owner.Type although the owners here are all users.
        if name.lower() == "type" and parents and parents[-1][0].lower() == "owner":
            sql = parents[-1][1].type_sql
            return Operand(sql, "text", "Type", position, (sql, "text"), (), parents, plain=True)
        raise no_such("column", self.text, position, name, sobject.name)

    def _name_field(self, parents: Parents, name: str, position: int) -> Operand:
        target = parents[-1][1]
        spelled = next((known for known in _NAME_FIELDS if known.lower() == name.lower()), None)
        if spelled is None:
            raise no_such("column", self.text, position, name, "Name")
        field_type = _NAME_FIELDS[spelled]
        columns = [field_sql(table, found) for table, sobject in target.tables if (found := sobject.field(spelled))]
        collation = " COLLATE NOCASE" if field_type in TEXT_TYPES else ""
        sql = f"({_coalesce(columns)}){collation}" if columns else "NULL"
        if spelled in ("Type", "Id"):
            sql = target.type_sql if spelled == "Type" else target.id_sql
        return Operand(sql, field_type, spelled, position, (sql, field_type), (), parents, plain=True)

    def column_of(self, table: str, sobject: SObject, path: Path) -> Operand:
        """Return a field of one joined table.

        :raises OrgError: INVALID_FIELD for a field that is not there, or a walk further up.
        """
        if len(path.names) > 1:
            raise no_such("parent", self.text, path.position, path.names[0])
        return self._field(table, sobject, path.names[0], path.position, ())

    def children(self, name: str, position: int) -> ChildRelationship:
        """Return the child relationship of the root with that name.

        :raises OrgError: INVALID_TYPE if there is none.
        """
        found = self.schema.children(self.root, name)
        if found is None:
            raise no_such("children", self.text, position, name)
        return found

    def refuse(self, position: int, text: str, code: str = "MALFORMED_QUERY") -> OrgError:
        """Return a refusal that points into the query."""
        return refuse(code, self.text, position, text)


def cannot_be(done: str, scope: Scope, operand: Operand) -> OrgError:
    """Return the refusal of a field of a type that cannot be filtered, sorted or grouped."""
    return scope.refuse(operand.position, f"field '{operand.name}' can not be {done} in a query call", "INVALID_FIELD")


def find_object(schema: OrgSchema, text: str, path: Path) -> SObject:
    """Return the object that a path names.

    :param text: the query.
    :raises OrgError: INVALID_TYPE if there is none.
    """
    found = schema.object(path.names[0]) if len(path.names) == 1 else None
    if found is None:
        raise no_such("object", text, path.position, path.text)
    return found


def field_sql(table: str, found: Field) -> str:
    """Return a field of a table in SQL."""
    return f"{table}.{quote(found.name)}"


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


def compile_expression(scope: Scope, expression: Expression, inside: str = "") -> Operand:
    """Return an expression in SQL.

    :param inside: the function whose argument it is.
    :raises OrgError: for unknown fields, and for functions of fields that they do not fit.
    """
    if isinstance(expression, Path):
        return scope.resolve(expression)
    if expression.argument is None:
        return Operand("COUNT(*)", "integer", "COUNT()", expression.position, aggregate=True)
    if expression.place is not None and isinstance(expression.argument, Path):
        return _distance(scope, expression, expression.argument, expression.place)
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
        return inner.function(f"GROUPING({inner.sql})", "integer", expression.position)
    return _aggregate(scope, expression, inner)


def is_distance(expression: Expression) -> bool:
    """Return whether an expression is a distance, which has operators and clauses of its own."""
    return isinstance(expression, FunctionCall) and expression.place is not None


def _distance(scope: Scope, call: FunctionCall, field: Path, place: tuple[float, float] | Path) -> Operand:
    latitude, longitude = _coordinates(scope, field)
    # Numbers that the parser has read: no text of the query gets into the SQL.
    other = [each.sql for each in _coordinates(scope, place)] if isinstance(place, Path) else map(repr, place)
    sql = f"geo_distance({latitude.sql}, {longitude.sql}, {', '.join(other)}, '{call.unit}')"
    return latitude.function(sql, "number", call.position)


def _coordinates(scope: Scope, path: Path) -> tuple[Operand, Operand]:
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
    return replace(inner, position=call.position, formatted=formatted or inner.formatted)


def _date_function(scope: Scope, call: FunctionCall, inner: Operand) -> Operand:
    wanted = ("datetime",) if call.name in ("HOUR_IN_DAY", "DAY_ONLY") else ("date", "datetime")
    if inner.type not in wanted:
        text = f"field {inner.name} of type {inner.type} does not support the date function {call.name}"
        raise scope.refuse(call.position, text, "INVALID_FIELD")
    # With a fiscal year like the calendar's these are the same.
    name = call.name.removeprefix("CALENDAR_").removeprefix("FISCAL_")
    field_type: FieldType = "date" if name == "DAY_ONLY" else "integer"
    return inner.function(_DATE_SQL[name].format(d=inner.sql), field_type, call.position)


def _aggregate(scope: Scope, call: FunctionCall, inner: Operand) -> Operand:
    numeric = inner.type in NUMERIC_TYPES
    if call.name in ("SUM", "AVG"):
        fits = numeric
    else:
        # There is no order of checkboxes and long texts.
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
    return inner.function(sql, field_type, call.position, aggregate=True)
