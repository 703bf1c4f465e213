"""A parsed SOSL query to the plans of its objects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.refusals import no_such_object, refuse
from pytest_a2a_bench.benchmarks.crmarena.org.schema import Field, OrgSchema, SObject
from pytest_a2a_bench.benchmarks.crmarena.org.soql.filters import NEVER, Sql
from pytest_a2a_bench.benchmarks.crmarena.org.soql.nodes import Path, Query, SelectChildren, SelectField
from pytest_a2a_bench.benchmarks.crmarena.org.soql.plan import Plan
from pytest_a2a_bench.benchmarks.crmarena.org.soql.records import RecordCompiler
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import Scope, field_sql
from pytest_a2a_bench.benchmarks.crmarena.org.sosl.parser import CODE, parse_find

#: How many records a search finds at most, on Salesforce.
MOST_FOUND = 2_000
_SEARCHED = frozenset({"text", "textarea", "longtext", "email", "phone", "url"})
_NAMES = frozenset({"name", "firstname", "lastname", "title", "subject", "company", "username", "alias", "urlname"})


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A compiled search: a plan for each object, in order, and how many records there may be in all."""

    plans: tuple[Plan, ...]
    limit: int


def compile_sosl(text: str, schema: OrgSchema, today: date) -> SearchPlan:
    """Return the plan of a SOSL query.

    :raises OrgError: as Salesforce would refuse it.
    """
    find = parse_find(text)
    returning = find.returning or tuple(_ids_of(sobject) for sobject in schema.objects)
    try:
        plans = tuple(_compile_object(query, text, schema, today, find.expression, find.fields) for query in returning)
    except OrgError as refused:
        # What is wrong between the brackets is wrong with the search.
        raise OrgError(CODE if refused.code == "MALFORMED_QUERY" else refused.code, refused.message) from refused
    return SearchPlan(plans, MOST_FOUND if find.limit is None else min(find.limit, MOST_FOUND))


def _ids_of(sobject: SObject) -> Query:
    source = Path((sobject.name,), (0,))
    return Query((SelectField(Path(("Id",), (0,)), None),), source, None, (), None, None, None, (), None, None, 0)


def _compile_object(query: Query, text: str, schema: OrgSchema, today: date, expression: str, fields: str) -> Plan:
    sobject = schema.object(query.source.names[0])
    if sobject is None:
        raise no_such_object(text, query.source.position, query.source.text)
    if any(isinstance(item, SelectChildren) for item in query.select):
        raise refuse(CODE, text, query.position, "Child subqueries are not allowed in RETURNING")
    scope = Scope(schema, text, sobject)
    columns = [field_sql(scope.root_table, field) for field in sobject.fields if _is_searched(field, fields)]
    search = Sql(f"matches_search(?, {', '.join(columns)})", (expression,)) if columns else NEVER
    return RecordCompiler(scope, query, today, search=search).compile()


def _is_searched(field: Field, fields: str) -> bool:
    if fields == "EMAIL":
        return field.type == "email"
    if fields == "PHONE":
        return field.type == "phone"
    if fields == "NAME":
        return field.stored_as.lower() in _NAMES
    return field.type in _SEARCHED
