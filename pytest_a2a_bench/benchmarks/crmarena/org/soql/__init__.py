"""Compile SOQL to parameterised SQLite."""

from __future__ import annotations

from datetime import date

from pytest_a2a_bench.benchmarks.crmarena.org.base import refuse
from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.org.soql.groups import GroupCompiler, is_grouped
from pytest_a2a_bench.benchmarks.crmarena.org.soql.parser import parse_query
from pytest_a2a_bench.benchmarks.crmarena.org.soql.records import QueryPlan, RecordCompiler
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import Scope, find_object


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
    if is_grouped(query):
        return GroupCompiler(scope, query, today).compile()
    return RecordCompiler(scope, query, today).compile()
