"""Generated queries: the engine and a naive evaluator over dictionaries must agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_org import ROWS, Record, open_small_org
from soql_model import FIELDS, conditions, fold, order_by, read

from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg

_SETTINGS = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
_OBJECTS = sorted(FIELDS)


@pytest.fixture(scope="module")
def org() -> Iterator[LocalOrg]:
    org = open_small_org()
    yield org
    org.close()


def _ids(records: Any) -> list[str]:
    return [record["Id"] for record in records]


@_SETTINGS
@given(data=st.data())
def test_where_order_and_limit(org: LocalOrg, data: st.DataObject) -> None:
    sobject = data.draw(st.sampled_from(_OBJECTS))
    test = data.draw(conditions(sobject))
    path = data.draw(st.sampled_from(sorted(FIELDS[sobject])))
    descending, nulls_last = data.draw(st.booleans()), data.draw(st.booleans())
    limit, offset = data.draw(st.integers(0, 8)), data.draw(st.integers(0, 3))
    query = f"SELECT Id FROM {sobject} WHERE {test.text} ORDER BY {path} {'DESC' if descending else 'ASC'} "
    query += f"NULLS {'LAST' if nulls_last else 'FIRST'} LIMIT {limit} OFFSET {offset}"
    found = [record for record in ROWS[sobject] if test.holds(record)]
    ordered = order_by(sobject, found, path, descending, nulls_last)
    assert _ids(org.run(query).records) == _ids(ordered[offset : offset + limit])
    assert org.run(f"SELECT COUNT() FROM {sobject} WHERE {test.text}").total_size == len(found)


@_SETTINGS
@given(data=st.data())
def test_groups(org: LocalOrg, data: st.DataObject) -> None:
    sobject = data.draw(st.sampled_from(["Case", "Account", "OrderItem", "Opportunity"]))
    test = data.draw(conditions(sobject))
    kinds = FIELDS[sobject]
    key = data.draw(st.sampled_from(sorted(path for path, kind in kinds.items() if kind in ("text", "id"))))
    numbers = sorted(path for path, kind in kinds.items() if kind == "number")
    number = data.draw(st.sampled_from(numbers))
    least = data.draw(st.integers(0, 2))
    query = f"SELECT {key} k, COUNT(Id) n, SUM({number}) s, MIN({number}) low, MAX({number}) high, "
    query += f"COUNT_DISTINCT({number}) d FROM {sobject} WHERE {test.text} GROUP BY {key} HAVING COUNT(Id) >= {least}"
    groups: dict[Any, list[Record]] = defaultdict(list)
    for record in ROWS[sobject]:
        if test.holds(record):
            groups[fold(read(sobject, record, key))].append(record)
    expected = {}
    for value, records in groups.items():
        values = [each for record in records if (each := read(sobject, record, number)) is not None]
        if len(records) >= least:
            low, high = (min(values), max(values)) if values else (None, None)
            expected[value] = (len(records), sum(values) if values else None, low, high, len(set(values)))
    found = {fold(r["k"]): (r["n"], r["s"], r["low"], r["high"], r["d"]) for r in org.run(query).records}
    assert found == expected


@_SETTINGS
@given(data=st.data())
def test_children_and_joins(org: LocalOrg, data: st.DataObject) -> None:
    test = data.draw(conditions("Case"))
    limit = data.draw(st.integers(1, 3))
    query = f"SELECT Id, (SELECT Id FROM Cases WHERE {test.text} ORDER BY CreatedDate DESC LIMIT {limit}) FROM Account"
    cases = [record for record in ROWS["Case"] if test.holds(record)]
    latest = order_by("Case", cases, "CreatedDate", True, True)
    for account in org.run(query).records:
        own = [record for record in latest if record["AccountId"] == account["Id"]][:limit]
        assert _ids((account["Cases"] or {"records": []})["records"]) == _ids(own)
    for word, wanted in (("IN", True), ("NOT IN", False)):
        joined = org.run(f"SELECT Id FROM Account WHERE Id {word} (SELECT AccountId FROM Case WHERE {test.text})")
        ids = {record["AccountId"] for record in cases}
        assert _ids(joined.records) == [each["Id"] for each in ROWS["Account"] if (each["Id"] in ids) == wanted]


@_SETTINGS
@given(data=st.data())
def test_parents(org: LocalOrg, data: st.DataObject) -> None:
    test = data.draw(conditions("Case"))
    query = f"SELECT Id, Account.Name, Account.NumberOfEmployees, Owner.LastName FROM Case WHERE {test.text}"
    expected = [
        {path: read("Case", record, path) for path in ("Account.Name", "Account.NumberOfEmployees", "Owner.LastName")}
        for record in ROWS["Case"]
        if test.holds(record)
    ]
    found = [
        {
            "Account.Name": (record["Account"] or {}).get("Name"),
            "Account.NumberOfEmployees": (record["Account"] or {}).get("NumberOfEmployees"),
            "Owner.LastName": (record["Owner"] or {}).get("LastName"),
        }
        for record in org.run(query).records
    ]
    assert found == expected
