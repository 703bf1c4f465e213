"""The engine on real rows and on queries that models wrote. Skips where the data, not the project's, is not at hand.

The data (CC BY-NC) is read in place; nothing of it is in here.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from small_org import plain

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.drift import drifted
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema, read_published

_DATA = Path(__file__).parents[4] / ".." / "shared" / "data" / "crmarena"
pytestmark = pytest.mark.skipif(not _DATA.is_dir(), reason=f"the CRMArena data is not at {_DATA}")


def _load(name: str) -> Any:
    return json.loads((_DATA / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def schema() -> OrgSchema:
    return read_published(_load("b2b_schema.json"))


@pytest.fixture(scope="module")
def partial(schema: OrgSchema) -> Iterator[LocalOrg]:
    org = LocalOrg(_DATA / "b2b_partial.db", schema, name="b2b", today=date(2022, 10, 1))
    yield org
    org.close()


def _written() -> list[tuple[str, list[dict[str, Any]]]]:
    """Return queries that a model wrote, with the records that the real org gave."""
    pairs = []
    for row in _load("raw/csmith_rows.json"):
        query = re.sub(r"</?execute>", "", row["soql"]).strip()
        _, _, answer = row["res"].partition("Salesforce instance output: ")
        try:
            pairs.append((query, ast.literal_eval(answer)))
        except (SyntaxError, ValueError):
            continue
    return pairs


@pytest.fixture(scope="module")
def recovered(schema: OrgSchema) -> Iterator[LocalOrg]:
    """An org of the rows that the answers themselves hold."""
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for name in ("raw/h_csmith.json", "raw/h_palm.json"):
        for sobject, records in _load(name).items():
            for record in records:
                values = {key: json.dumps(value) if isinstance(value, list) else value for key, value in record.items()}
                rows.setdefault(sobject, {}).setdefault(record["Id"], {}).update(values)
    org = LocalOrg.from_rows({name: list(each.values()) for name, each in rows.items()}, schema, name="recovered")
    yield org
    org.close()


def _refusal(org: LocalOrg, query: str) -> str:
    try:
        org.run(query)
    except OrgError as refused:
        return refused.message.split("\n")[-1]
    return ""


def test_every_written_query_is_answered_or_refused_for_a_reason(recovered: LocalOrg) -> None:
    """The queries were answered by SQLite, not by Salesforce, so that a few would not pass there.

    Those double a quote, which SOQL escapes with a backslash, or filter by a long text.
    """
    queries = [query for query, _ in _written()]
    assert len(queries) > 150
    for query in queries:
        refusal = _refusal(recovered, query)
        if "''s" in query:
            assert refusal.startswith("unexpected token: 's ")
        elif "FAQ_Answer__c LIKE" in query:
            assert refusal == "field 'FAQ_Answer__c' can not be filtered in a query call"
        else:
            assert refusal == ""


def _is_comparable(org: LocalOrg, query: str, expected: list[dict[str, Any]]) -> bool:
    """Tell whether the recovered rows have the fields that the query filters by: many were recovered without them."""
    ids = [record.get("Id") for record in expected]
    names = set(re.findall(r"(\w+)\s*(?:=|LIKE)\s*'", query))
    if None in ids or not names:
        return False
    listed = ", ".join(f"'{each}'" for each in ids)
    sobject = re.findall(r"FROM\s+(\w+)", query)[-1]
    rows = org.run(f"SELECT {', '.join(sorted(names | {'Id'}))} FROM {sobject} WHERE Id IN ({listed})").records
    return len(rows) == len(set(ids)) and all(row[name] is not None for row in rows for name in names)


def test_answers_agree_with_the_real_org(recovered: LocalOrg) -> None:
    compared = 0
    for query, expected in _written():
        if not expected or _refusal(recovered, query) or not _is_comparable(recovered, query, expected):
            continue
        found = [plain(record) for record in recovered.run(query).records]
        ids = {record["Id"] for record in found}
        assert {record["Id"] for record in expected} <= ids, query
        by_id = {record["Id"]: record for record in found}
        for record in expected:
            known = {key: value for key, value in record.items() if by_id[record["Id"]].get(key) is not None}
            assert known.items() <= by_id[record["Id"]].items(), query
            compared += 1
    assert compared > 300


def test_the_official_table_shape(partial: LocalOrg) -> None:
    assert partial.run("SELECT COUNT() FROM Case").total_size == 77
    assert partial.run("SELECT COUNT() FROM CaseHistory__c WHERE CaseId__r.Status = 'Closed'").total_size > 50
    states = partial.run("SELECT Account.ShippingState s, COUNT(Id) n FROM Case GROUP BY Account.ShippingState").records
    assert sum(record["n"] for record in states) == 77
    assert partial.run("SELECT CaseNumber, Owner.Name FROM Case LIMIT 1").records[0]["CaseNumber"] is None
    with pytest.raises(OrgError, match="No such column 'Foo'"):
        partial.run("SELECT Foo FROM Case")


@pytest.mark.parametrize("name", ["original", "b2b", "b2c"])
def test_published_schemas_are_known(name: str) -> None:
    schema = read_published(_load(f"{name}_schema.json"))
    assert len(schema.objects) == (16 if name == "original" else 27)
    assert all(sobject.key_prefix for sobject in schema.objects)
    assert all(sobject.field("Id") for sobject in schema.objects)
    references = [f for s in schema.objects for f in s.fields if f.name.endswith(("Id", "Id__c")) and f.name != "Id"]
    assert all(field.type == "reference" for field in references)


def test_drift_on_real_rows(partial: LocalOrg) -> None:
    changed = drifted(partial, "high", seed=5)
    try:
        case = changed.schema.object("Case")
        assert case is not None
        names = ", ".join(field.name for field in case.fields)
        before = ", ".join(field.column or field.name for field in case.fields)
        new = changed.run(f"SELECT {names} FROM Case").records
        old = partial.run(f"SELECT {before} FROM Case").records
        assert [list(record.values())[1:] for record in new] == [list(record.values())[1:] for record in old]
    finally:
        changed.close()
