"""Compile SOQL to parameterised SQLite."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from itertools import combinations
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org import refuse
from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.org.soql.conditions import ConditionCompiler, Sql, compile_where
from pytest_a2a_bench.benchmarks.crmarena.org.soql.nodes import (
    DATE_FUNCTIONS,
    Expression,
    FunctionCall,
    Query,
    SelectField,
)
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import parse_query
from pytest_a2a_bench.benchmarks.crmarena.org.soql.records import (
    ChildSets,
    QueryPlan,
    RecordCompiler,
    SqlRow,
    limit_sql,
    order_sql,
    value_maker,
)
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import (
    Operand,
    Scope,
    cannot_be,
    compile_expression,
    find_object,
    is_distance,
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
        """Return the plan of the query.

        :raises OrgError: for whatever Salesforce would refuse.
        """
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
        if operand.plain and operand.type in ("longtext", "datetime", "multipicklist"):
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
