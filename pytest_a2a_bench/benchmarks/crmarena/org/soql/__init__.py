"""Compile SOQL to parameterised SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import combinations, count
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org import TEXT_TYPES, Field, FieldType, OrgSchema, refuse
from pytest_a2a_bench.benchmarks.crmarena.org.soql.conditions import ConditionCompiler, Sql, compile_where, join
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import (
    DATE_FUNCTIONS,
    Expression,
    FunctionCall,
    Order,
    Path,
    Query,
    SelectAll,
    SelectByType,
    SelectField,
    SelectItem,
    parse_query,
)
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import (
    Operand,
    Scope,
    Target,
    cannot_be,
    compile_expression,
    find_object,
    is_distance,
    quote,
)


def compile_soql(text: str, schema: OrgSchema, today: date) -> QueryPlan:
    """Return the plan of a SOQL query.

    :param today: the day that TODAY means.
    :raises OrgError: as Salesforce would refuse it.
    """
    query = parse_query(text)
    root = find_object(schema, text, query.source)
    scope = Scope(schema, text, root, query.alias, aliases=dict(query.aliases))
    roots = {root.name.lower(), (query.alias or root.name).lower()}
    # Further entries of FROM are other names for relationships of the first one.
    for alias, path in query.aliases:
        first = path.names[0].lower()
        # An alias may stand on an earlier alias, never on itself.
        if len(path.names) > 1 and (first in roots or (first in dict(query.aliases) and first != alias)):
            continue
        driving = "A driving SObject type has already been set, all other entity types in the FROM clause must be"
        text_ = f"{driving} relationships to the initial object.  The driving object is {root.name}"
        raise refuse("MALFORMED_QUERY", text, path.position, text_)
    if query.grouped:
        return GroupCompiler(scope, query, today).compile()
    return RecordCompiler(scope, query, today).compile()


#: How many fields ROLLUP and CUBE take, on Salesforce.
MOST_SUBTOTALS = 3


@dataclass
class GroupCompiler:
    """Compiler of one SELECT of groups."""

    scope: Scope
    query: Query
    today: date
    _groups: list[Operand] = field(default_factory=list)
    #: For ROLLUP and CUBE: the groups that are summed over in the arm of the union that is being written.
    _over: frozenset[str] = frozenset()

    def compile(self) -> QueryPlan:
        """Return the plan of the query; raises OrgError for whatever Salesforce would refuse."""
        if self.query.group:
            self._groups = [self._group(each) for each in self.query.group]
        # Salesforce refuses this, and agents learn from the refusal.
        elif self.query.limit is not None and not self._is_count():
            text = "Non-grouped query that uses overall aggregate functions cannot also use LIMIT"
            raise self.scope.refuse(self.query.limit_position, text)
        where = compile_where(self.scope, self.query.where, self.today)
        if self._is_count():
            return self._count(where)
        return self._grouped(where)

    def _is_count(self) -> bool:
        item = self.query.select[0]
        return (
            isinstance(item, SelectField)
            and isinstance(item.expression, FunctionCall)
            and item.expression.argument is None
        )

    def _count(self, where: Sql) -> QueryPlan:
        if len(self.query.select) > 1 or self.query.group or self.query.order:
            raise self.scope.refuse(self.query.position, "COUNT() must be the only item of a query without GROUP BY")
        # Salesforce answers SELECT COUNT() with a total and no records; LIMIT and OFFSET say which rows are counted.
        inner = f"SELECT 1 FROM {self.scope.from_sql} WHERE {where.text}{limit_sql(self.query)}"
        return QueryPlan(f"SELECT COUNT(*) FROM ({inner})", where.parameters, lambda row, _: row[0], counting=True)

    def _group(self, expression: Expression) -> Operand:
        operand = compile_expression(self.scope, expression)
        if is_distance(expression):
            raise self.scope.refuse(operand.position, "The DISTANCE function is not supported in GROUP BY")
        if operand.aggregate or operand.sql.startswith("GROUPING("):
            raise self.scope.refuse(operand.position, f"Grouped field should not be aggregated: {operand.name}")
        # Salesforce groups by a day or a year of a datetime (DAY_ONLY, CALENDAR_YEAR), never by the datetime itself.
        if operand.plain and operand.type in ("longtext", "datetime"):
            raise cannot_be("grouped", self.scope, operand)
        return operand

    def operand(self, expression: Expression, what: str = "Field") -> Operand:
        """Return an expression in SQL that has one value in each group.

        :raises OrgError: if it is neither grouped by nor an aggregate.
        """
        operand = compile_expression(self.scope, expression)
        keys = {group.sql for group in self._groups}
        if operand.sql.startswith("GROUPING("):
            return self._grouping(operand, operand.sql[len("GROUPING(") : -1])
        if operand.aggregate:
            # A key has one value in each group, of which no sum can be made.
            if operand.column[0] in keys:
                raise self.scope.refuse(operand.position, f"Grouped field should not be aggregated: {operand.name}")
            return operand
        if operand.sql not in keys:
            # A period of a date has one value where the date itself is a key.
            column, column_type = operand.column
            is_period = isinstance(expression, FunctionCall) and expression.name in DATE_FUNCTIONS
            if column in keys and column_type == "date" and is_period:
                return replace(operand, sql="NULL") if column in self._over else operand
            raise self.scope.refuse(operand.position, f"{what} must be grouped or aggregated: {operand.name}")
        # In a subtotal the keys that are summed over are null.
        return replace(operand, sql="NULL") if operand.sql in self._over else operand

    def _grouping(self, operand: Operand, inner: str) -> Operand:
        if not self.query.subtotals or inner not in {each.sql for each in self._groups}:
            raise self.scope.refuse(operand.position, f"Field must be grouped or aggregated: {operand.name}")
        return replace(operand, sql=str(int(inner in self._over)))

    def _grouped(self, where: Sql) -> QueryPlan:
        entries = self._entries()
        ordered = [self.operand(key.expression, "Ordered field") for key in self.query.order]
        keys = [
            order_sql(self.scope, replace(operand, sql=f"s{at}"), self.query.order[at])
            for at, operand in enumerate(ordered)
        ]
        arms = [self._arm(over, where) for over in self._subtotals()]
        # Groups in the order of their keys: answers must be repeatable.
        keys += [f"g{at} COLLATE NOCASE" for at in range(len(self._groups))] or ["1"]
        # SQLite knows neither ROLLUP nor CUBE: each of their subtotals is an arm of a union.
        union = " UNION ALL ".join(text for text, _ in arms)
        # Subtotals come last, unless an order is asked for.
        by = [*keys, "subtotal"] if self.query.order else ["subtotal", *keys]
        sql = f"SELECT * FROM ({union}) ORDER BY {', '.join(by)}{limit_sql(self.query)}"
        makers = {key: value_maker(at, each.type, formatted=each.formatted) for at, (key, each) in enumerate(entries)}

        def build(row: SqlRow, children: ChildSets) -> dict[str, Any]:
            record: dict[str, Any] = {"attributes": {"type": "AggregateResult"}}
            return record | {key: make(row, children) for key, make in makers.items()}

        return QueryPlan(sql, tuple(each for _, parameters in arms for each in parameters), build)

    def _subtotals(self) -> list[frozenset[str]]:
        """Return, for each arm of the union, the groups that it sums over; the first sums over none."""
        kind = self.query.subtotals
        keys = [group.sql for group in self._groups]
        if not kind:
            return [frozenset()]
        if len(keys) > MOST_SUBTOTALS:
            text = f"Maximum {MOST_SUBTOTALS} fields are allowed in GROUP BY {kind}"
            raise self.scope.refuse(self._groups[-1].position, text)
        if kind == "ROLLUP":
            # ROLLUP drops keys from the right; CUBE every subset of them.
            return [frozenset(keys[at:]) for at in range(len(keys), -1, -1)]
        return [frozenset(over) for size in range(len(keys) + 1) for over in combinations(reversed(keys), size)]

    def _entries(self) -> list[tuple[str, Operand]]:
        entries: dict[str, Operand] = {}
        unnamed = 0
        for item in self.query.select:
            if not isinstance(item, SelectField):
                text = "Aggregate queries cannot select children, FIELDS() or TYPEOF"
                raise self.scope.refuse(self.query.position, text)
            operand = self.operand(item.expression)
            key = item.alias
            # Salesforce numbers the aggregates that have no alias: expr0, expr1 ...
            if key is None and isinstance(item.expression, FunctionCall):
                key, unnamed = f"expr{unnamed}", unnamed + 1
            key = key or operand.name
            if key.lower() in (each.lower() for each in entries):
                raise self.scope.refuse(operand.position, f"duplicate alias: {key}")
            entries[key] = operand
        return list(entries.items())

    def _arm(self, over: frozenset[str], where: Sql) -> tuple[str, tuple[Any, ...]]:
        self._over = over
        columns = [f"{operand.sql} AS c{at}" for at, (_, operand) in enumerate(self._entries())]
        columns += [f"{self.operand(key.expression).sql} AS s{at}" for at, key in enumerate(self.query.order)]
        columns += [f"{'NULL' if g.sql in over else g.sql} AS g{at}" for at, g in enumerate(self._groups)]
        columns.append(f"{len(over)} AS subtotal")
        parameters = where.parameters
        having = ""
        if self.query.having is not None:
            compiled = ConditionCompiler(self.scope, self.today, self.operand).compile(self.query.having)
            having, parameters = f" HAVING {compiled.text}", parameters + compiled.parameters
        by = ", ".join(group.sql for group in self._groups if group.sql not in over)
        grouped = f" GROUP BY {by}" if by else ""
        # An aggregate that is always there, so that HAVING without a group left is still one over all rows.
        columns.append("COUNT(*) AS size")
        # Back to nothing: the next arm begins with its own.
        self._over = frozenset()
        return f"SELECT {', '.join(columns)} FROM {self.scope.from_sql} WHERE {where.text}{grouped}{having}", parameters


#: How many rows FIELDS() may give, and how deep children may be inside children, on Salesforce.
MOST_WITH_FIELDS = 200
DEEPEST_CHILDREN = 5
# Agents only ever see it in the URLs of records.
_URL = "/services/data/v62.0/sobjects/{}/{}"

SqlRow = Sequence[Any]
#: Child envelopes: by child subquery, then by the parent's id.
ChildSets = Sequence[Mapping[str, Any]]
#: Makes a value of a record from a row and the children of all rows.
Maker = Callable[[SqlRow, ChildSets], Any]


@dataclass(slots=True)
class RecordShape:
    """How one record is made from a row.

    :param sobject: the column of its object's name.
    :param record_id: the column of its id.
    :param entries: key and maker of each value, in the order of the query.
    :param by_type: for TYPEOF: the entries that a record of each object has instead.
    """

    sobject: int
    record_id: int
    entries: dict[str, Maker] = field(default_factory=dict)
    by_type: dict[str, dict[str, Maker]] = field(default_factory=dict)

    def build(self, row: SqlRow, children: ChildSets) -> dict[str, Any] | None:
        """Return the record, or None where a parent is missing."""
        record_id = row[self.record_id]
        # A missing parent is null as a whole.
        if record_id is None:
            return None
        sobject = str(row[self.sobject])
        record: dict[str, Any] = {"attributes": {"type": sobject, "url": _URL.format(sobject, record_id)}}
        for key, make in self.by_type.get(sobject, self.entries).items():
            record[key] = make(row, children)
        return record


def value_maker(column: int, field_type: FieldType, *, formatted: bool = False) -> Maker:
    """Return a function that reads a value from a row and gives it its JSON type."""
    if formatted:
        return lambda row, _: format_value(row[column], field_type)
    if field_type == "boolean":
        return lambda row, _: None if row[column] is None else bool(row[column])
    # SQLite has Python's own types already.
    return lambda row, _: row[column]


def format_value(value: Any, field_type: FieldType) -> Any:
    """Return a value as FORMAT shows it to a reader of American English."""
    if value is None or field_type == "boolean":
        return None if value is None else str(bool(value)).lower()
    if field_type == "currency":
        return f"${value:,.2f}"
    if isinstance(value, int | float):
        # 15 digits: more are the noise of doubles.
        return f"{value:,.15g}" if value == int(value) else f"{value:,}"
    if field_type not in ("date", "datetime"):
        return value
    # By hand: strftime has no portable way to leave out leading zeros.
    moment = datetime.fromisoformat(value[:19])
    day = f"{moment.month}/{moment.day}/{moment.year}"
    half = "AM" if moment.hour < 12 else "PM"
    return day if field_type == "date" else f"{day}, {moment.hour % 12 or 12}:{moment.minute:02d} {half}"


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A compiled query.

    :param parameters: as SQLite takes them.
    :param build: makes a record of a row and the children of all rows.
    :param record_id: the column of the record's id; None where rows are groups.
    :param children: subqueries for children. The SQL of each takes, as its first parameter, the parents' ids as a JSON
        list, and has the parent's id in its last column.
    :param counting: whether the one number that it finds is the answer itself (``SELECT COUNT()``).
    """

    sql: str
    parameters: tuple[Any, ...]
    build: Maker
    record_id: int | None = None
    children: tuple[QueryPlan, ...] = ()
    counting: bool = False


def order_sql(scope: Scope, operand: Operand, key: Order) -> str:
    """Return a key of ORDER BY: Salesforce puts nulls first in either direction by default.

    :raises OrgError: INVALID_FIELD for long texts.
    """
    if operand.type == "longtext":
        raise cannot_be("sorted", scope, operand)
    collation = " COLLATE NOCASE" if operand.type in TEXT_TYPES else ""
    direction = "DESC" if key.descending else "ASC"
    return f"{operand.sql}{collation} {direction} NULLS {'LAST' if key.nulls_last else 'FIRST'}"


def limit_sql(query: Query) -> str:
    """Return LIMIT and OFFSET."""
    if query.limit is None and not query.offset:
        return ""
    return f" LIMIT {-1 if query.limit is None else query.limit} OFFSET {query.offset or 0}"


@dataclass
class RecordCompiler:
    """Compiler of one SELECT of records.

    :param parent: for children: the field that points at the parent.
    :param depth: how many subqueries it is inside.
    :param search: a further condition: the match of a SOSL search.
    """

    scope: Scope
    query: Query
    today: date
    parent: Field | None = None
    depth: int = 0
    search: Sql | None = None
    _columns: list[str] = field(default_factory=list)
    _children: list[QueryPlan] = field(default_factory=list)
    _shapes: dict[tuple[str, ...], RecordShape] = field(default_factory=dict)
    _selected: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=count)

    def compile(self) -> QueryPlan:
        """Return the plan of the query; raises OrgError for whatever Salesforce would refuse."""
        # Every record has its id in attributes, selected or not.
        root = self._shape_of(Target(((self.scope.root_table, self.scope.root),)))
        for item in self.query.select:
            self._select(root, item)
        where = self._where()
        order = [self._order(key) for key in self.query.order]
        # Without ORDER BY Salesforce promises no order; that of the table makes answers repeatable, and paging
        # consistent.
        order.append(f"{self.scope.root_table}.rowid")
        if self.parent is None:
            sql = f"SELECT {', '.join(self._columns)} FROM {self.scope.from_sql} WHERE {where.text}"
            sql += f" ORDER BY {', '.join(order)}{limit_sql(self.query)}"
        else:
            sql = self._child_sql(where, order)
        children = tuple(self._children)
        return QueryPlan(sql, where.parameters, root.build, record_id=root.record_id, children=children)

    def _column(self, sql: str) -> int:
        # Each expression is read once, however often it is selected.
        if sql not in self._columns:
            self._columns.append(sql)
        return self._columns.index(sql)

    def _where(self) -> Sql:
        parts = []
        if self.parent is not None:
            reference = f"{self.scope.root_table}.{quote(self.parent.name)}"
            # The parents' ids come as one parameter when they are known.
            parts.append(Sql(f"{reference} IN (SELECT value FROM json_each(?))"))
        parts.append(compile_where(self.scope, self.query.where, self.today))
        if self.search is not None:
            parts.append(self.search)
        return join("AND", parts)

    def _order(self, key: Order) -> str:
        operand = compile_expression(self.scope, key.expression)
        if operand.aggregate:
            raise self.scope.refuse(operand.position, f"Ordered field must be grouped or aggregated: {operand.name}")
        return order_sql(self.scope, operand, key)

    def _child_sql(self, where: Sql, order: list[str]) -> str:
        """Return the SQL for the children of many parents at once, with the limit for each parent."""
        # A window function, as LIMIT in SQL would be for all parents together.
        reference = f"{self.scope.root_table}.{quote(str(self.parent and self.parent.name))}"
        columns = ", ".join(f"{sql} AS c{at}" for at, sql in enumerate(self._columns))
        names = ", ".join(f"c{at}" for at in range(len(self._columns)))
        ranked = f"ROW_NUMBER() OVER (PARTITION BY {reference} ORDER BY {', '.join(order)}) AS place"
        inner = f"SELECT {columns}, {reference} AS parent, {ranked} FROM {self.scope.from_sql} WHERE {where.text}"
        first = self.query.offset or 0
        last = "" if self.query.limit is None else f" AND place <= {first + self.query.limit}"
        return f"SELECT {names}, parent FROM ({inner}) WHERE place > {first}{last} ORDER BY place"

    def _shape_of(self, target: Target) -> RecordShape:
        return RecordShape(self._column(target.type_sql), self._column(target.id_sql))

    def _maker(self, operand: Operand) -> Maker:
        return value_maker(self._column(operand.sql), operand.type, formatted=operand.formatted)

    def _select(self, root: RecordShape, item: SelectItem) -> None:
        if isinstance(item, Query):
            self._select_children(root, item)
        elif isinstance(item, SelectByType):
            self._select_by_type(root, item)
        elif isinstance(item, SelectAll):
            self._select_all(root, item)
        else:
            self._select_field(root, item)

    def _select_field(self, root: RecordShape, item: SelectField) -> None:
        operand = compile_expression(self.scope, item.expression)
        if is_distance(item.expression):
            # As aggregates without an alias: expr0, expr1 ...
            root.entries[item.alias or f"expr{next(self._numbers)}"] = self._maker(operand)
            return
        if not operand.plain:
            raise self.scope.refuse(operand.position, f"Field must be grouped or aggregated: {operand.name}")
        if item.alias and not isinstance(item.expression, FunctionCall):
            # Salesforce's rule, which surprises those who know SQL.
            raise self.scope.refuse(operand.position, "only aggregate expressions use field aliasing")
        shape = self._shape(root, operand.parents)
        key = item.alias or operand.name
        self._check_new(operand, item)
        shape.entries[key] = self._maker(operand)

    def _check_new(self, operand: Operand, item: SelectField) -> None:
        name = ".".join([*(relationship for relationship, _ in operand.parents), operand.name])
        key = (item.alias or name).lower()
        if key in self._selected:
            text = f"duplicate field selected: {item.alias or name}"
            raise self.scope.refuse(operand.position, text, "INVALID_FIELD")
        self._selected.add(key)

    def _shape(self, root: RecordShape, parents: tuple[tuple[str, Target], ...]) -> RecordShape:
        """Return the shape of a parent, which is put into its own parent's entries on the way."""
        shape = root
        for at, (relationship, target) in enumerate(parents):
            # One shape for each way through the parents: Account.Owner twice is one object.
            key = tuple(name for name, _ in parents[: at + 1])
            if key not in self._shapes:
                self._shapes[key] = self._shape_of(target)
                shape.entries[relationship] = self._shapes[key].build
            shape = self._shapes[key]
        return shape

    def _select_all(self, root: RecordShape, item: SelectAll) -> None:
        if item.which != "STANDARD" and (self.query.limit is None or self.query.limit > MOST_WITH_FIELDS):
            # Salesforce wants a limit for fields that nobody has listed; standard ones are known.
            text = f"The SOQL FIELDS function must have a LIMIT of at most {MOST_WITH_FIELDS}"
            raise self.scope.refuse(item.position, text)
        fields = {each.name: each for each in self.scope.root.fields}
        if item.which != "CUSTOM" and (record_id := self.scope.root.field("Id")):
            # Id counts as a standard field and comes first.
            fields = {record_id.name: record_id} | fields
        for each in fields.values():
            if item.which == "ALL" or each.custom == (item.which == "CUSTOM"):
                self._select_field(root, SelectField(Path((each.name,), (item.position,))))

    def _select_children(self, root: RecordShape, inner: Query) -> None:
        if self.depth + 1 >= DEEPEST_CHILDREN:
            text = (
                "SOQL statements cannot query aggregate relationships more than 4 levels away from the root entity "
                "object."
            )
            raise self.scope.refuse(inner.position, text)
        if inner.offset is not None and self.query.limit != 1:
            raise self.scope.refuse(inner.position, "OFFSET in a subquery needs LIMIT 1 in the query that it is in")
        relationship = self.scope.children(inner.source.names[-1], inner.source.positions[-1])
        if inner.grouped:
            raise self.scope.refuse(inner.position, "Only root queries support aggregate expressions")
        scope = Scope(self.scope.schema, self.scope.text, relationship.child, inner.alias, "t", dict(inner.aliases))
        compiler = RecordCompiler(scope, inner, self.today, relationship.field, self.depth + 1)
        if relationship.name in root.entries:
            text = f"duplicate field selected: {relationship.name}"
            raise self.scope.refuse(inner.position, text, "INVALID_FIELD")
        number, parent = len(self._children), root.record_id
        root.entries[relationship.name] = lambda row, children: children[number].get(row[parent])
        self._children.append(compiler.compile())

    def _select_by_type(self, root: RecordShape, item: SelectByType) -> None:
        parents, target = self.scope.resolve_parent(item.relationship)
        relationship = self.scope.root.parent(item.relationship.names[-1])
        if relationship is None or parents or len(target.tables) < 2:
            text = f"TYPEOF is only supported for polymorphic relationships: {item.relationship.text}"
            raise self.scope.refuse(item.relationship.position, text)
        shape = self._shape(root, ((str(relationship.relationship), target),))
        for named, paths in item.branches:
            sobject = find_object(self.scope.schema, self.scope.text, named)
            for table in (table for table, there in target.tables if there.name == sobject.name):
                operands = [self.scope.column_of(table, sobject, path) for path in paths]
                shape.by_type[sobject.name] = {operand.name: self._maker(operand) for operand in operands}
        for path in item.otherwise:
            full = Path(item.relationship.names + path.names, item.relationship.positions + path.positions)
            self._select_field(root, SelectField(full))
