"""WHERE and HAVING in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError, no_such_object
from pytest_a2a_bench.benchmarks.crmarena.org.schema import ID_TYPES
from pytest_a2a_bench.benchmarks.crmarena.org.soql.expressions import Operand, compile_expression, is_distance
from pytest_a2a_bench.benchmarks.crmarena.org.soql.filters import Sql, compare, includes, join, member
from pytest_a2a_bench.benchmarks.crmarena.org.soql.nodes import (
    Comparison,
    Condition,
    Expression,
    Junction,
    Membership,
    Negation,
    Path,
    Query,
    SelectField,
    SemiJoin,
)
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import Scope

#: How many semi-joins and anti-joins a query may have, on Salesforce.
MOST_SEMI_JOINS = 2
#: From how many conditions on a chain of OR is worth being looked at as a list.
LONG_CHAIN = 50


@dataclass
class ConditionCompiler:
    """Compiler of the conditions of one query.

    :param operand: turns an expression into SQL; HAVING has one that insists on groups.
    """

    scope: Scope
    today: date
    operand: Callable[[Expression], Operand]
    _semi_joins: int = 0

    def compile(self, condition: Condition) -> Sql:
        """Return a condition in SQL.

        :raises OrgError: for names, types and operators that do not fit.
        """
        return self._compile(condition, top=True)

    def _compile(self, condition: Condition, *, top: bool) -> Sql:
        if isinstance(condition, Junction):
            # Salesforce allows semi-joins beside each other, and not below OR or NOT.
            still_top = top and condition.operator == "AND"
            parts = _merge(condition)
            return join(condition.operator, [self._compile(each, top=still_top) for each in parts])
        if isinstance(condition, Negation):
            inner = self._compile(condition.condition, top=False)
            # A comparison with null is false on Salesforce, so its negation is true; in SQL both would be NULL.
            return Sql(f"NOT IFNULL({inner.text}, 0)", inner.parameters)
        if isinstance(condition, SemiJoin):
            return self._semi_join(condition, top)
        operand = self._filterable(condition.left)
        if isinstance(condition, Membership):
            if is_distance(condition.left):
                raise self.scope.refuse(operand.position, "The DISTANCE function only supports the operators < and >")
            negated = condition.operator in ("NOT IN", "EXCLUDES")
            # INCLUDES and EXCLUDES.
            if condition.operator.endswith("CLUDES"):
                return includes(self.scope, operand, condition.values, negated)
            return member(self.scope, operand, condition.values, negated, self.today)
        if is_distance(condition.left) and condition.operator not in ("<", ">"):
            text = "The DISTANCE function only supports the operators < and >"
            raise self.scope.refuse(operand.position, text)
        return compare(self.scope, operand, condition.operator, condition.value, self.today)

    def _filterable(self, expression: Expression) -> Operand:
        operand = self.operand(expression)
        if operand.type == "longtext":
            text = f"field '{operand.name}' can not be filtered in a query call"
            raise self.scope.refuse(operand.position, text, "INVALID_FIELD")
        return operand

    def _semi_join(self, condition: SemiJoin, top: bool) -> Sql:
        self._check_place(condition, top)
        left = self.operand(condition.left)
        inner, selected = self._inner_scope(condition.query)
        compiler = ConditionCompiler(inner, self.today, where_operand(inner))
        # So that one in it is one too many: they cannot be nested.
        compiler._semi_joins = MOST_SEMI_JOINS + 1
        right = compiler.operand(selected)
        if right.field is not None and right.field.parents:
            text = f"The selected field '{selected.text}' in the subquery must not traverse relationships"
            raise self.scope.refuse(selected.position, text)
        self._check_types(condition, left, right)
        where = compiler.compile(condition.query.where) if condition.query.where else Sql("1")
        # NULLs in the list would make NOT IN find nothing in SQL.
        chosen = f"SELECT {right.sql} FROM {inner.from_sql} WHERE {right.sql} IS NOT NULL AND {where.text}"
        if condition.negated:
            return Sql(f"({left.sql} IS NULL OR {left.sql} NOT IN ({chosen}))", where.parameters)
        return Sql(f"{left.sql} IN ({chosen})", where.parameters)

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
        found = scope.schema.object(query.source.names[0]) if len(query.source.names) == 1 else None
        if found is None:
            raise no_such_object(scope.text, query.source.position, query.source.text)
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
        fits = left.type in ID_TYPES and right.type in ID_TYPES and left.field and right.field
        if not fits or not set(left.field.refers_to) & set(right.field.refers_to):  # type: ignore[union-attr]
            text = (
                f"The selected field '{right.name}' in the subquery and the left operand field '{left.name}' in the "
                "where expression in the outer query should point to the same object type"
            )
            raise self.scope.refuse(condition.position, text)


def _merge(junction: Junction) -> Sequence[Condition]:
    """Return a long chain of OR with the equalities of one field as one list, which SQLite looks up once a row."""
    if junction.operator != "OR" or len(junction.conditions) < LONG_CHAIN:
        return junction.conditions
    lists: dict[tuple[str, ...], list[Comparison]] = {}
    rest: list[Condition] = []
    for each in junction.conditions:
        if isinstance(each, Comparison) and each.operator == "=" and isinstance(each.left, Path):
            lists.setdefault(tuple(name.lower() for name in each.left.names), []).append(each)
        else:
            rest.append(each)
    merged = [Membership(all_[0].left, "IN", tuple(c.value for c in all_), all_[0].position) for all_ in lists.values()]
    return [*merged, *rest]


def where_operand(scope: Scope) -> Callable[[Expression], Operand]:
    """Return what turns an expression of a WHERE into SQL: anything but an aggregate."""

    def compile_one(expression: Expression) -> Operand:
        operand = compile_expression(scope, expression)
        if operand.aggregate or operand.sql.startswith("GROUPING("):
            raise _aggregate_in_where(scope, operand)
        return operand

    return compile_one


def _aggregate_in_where(scope: Scope, operand: Operand) -> OrgError:
    return scope.refuse(operand.position, "Aggregate functions are only allowed in HAVING, ORDER BY and SELECT clauses")
