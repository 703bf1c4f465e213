"""What a SELECT gives: values, parents, children, groups, order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from one_test import in_one_test
from small_org import ACCOUNTS, CASES, open_small_org, plain
from soql_cases import GIVEN

from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg


@pytest.fixture(scope="module")
def org() -> Iterator[LocalOrg]:
    org = open_small_org()
    yield org
    org.close()


@in_one_test(("query", "records"), GIVEN, ids=lambda each: str(each)[:70])
def test_select(org: LocalOrg, query: str, records: list[dict[str, Any]]) -> None:
    result = org.run(query)
    assert [plain(record) for record in result.records] == records
    assert [list(record)[1:] for record in result.records] == [list(record) for record in records]
    assert result.total_size == len(records)


def test_the_envelope_is_the_rest_apis(org: LocalOrg) -> None:
    record_id = CASES[3]
    result = org.run(f"SELECT Id, Account.Name, (SELECT Id FROM CaseHistories__r) FROM Case WHERE Id = '{record_id}'")
    assert result.envelope() == {
        "totalSize": 1,
        "done": True,
        "records": [
            {
                "attributes": {"type": "Case", "url": f"/services/data/v62.0/sobjects/Case/{record_id}"},
                "Id": record_id,
                "Account": {
                    "attributes": {"type": "Account", "url": f"/services/data/v62.0/sobjects/Account/{ACCOUNTS[2]}"},
                    "Name": "Zeta 100% Foods",
                },
                "CaseHistories__r": None,
            }
        ],
    }


def test_children_are_envelopes_and_are_counted(org: LocalOrg) -> None:
    result = org.run(f"SELECT (SELECT Id FROM CaseHistories__r) FROM Case WHERE Id = '{CASES[1]}'")
    children = result.records[0]["CaseHistories__r"]
    assert (children["totalSize"], children["done"], len(children["records"])) == (3, True, 3)
    assert (result.total_size, result.rows_read) == (1, 4)


def test_groups_are_aggregate_results(org: LocalOrg) -> None:
    assert org.run("SELECT COUNT(Id) n FROM Case").records == ({"attributes": {"type": "AggregateResult"}, "n": 7},)


def test_count_has_no_records(org: LocalOrg) -> None:
    assert org.run("SELECT COUNT() FROM Case").envelope() == {"totalSize": 7, "done": True, "records": []}
    assert org.run("SELECT COUNT() FROM Case LIMIT 3").total_size == 3


def test_fields_gives_what_the_agent_was_told_of(org: LocalOrg) -> None:
    told = [field.name for field in org.schema.object("Case").fields]  # type: ignore[union-attr]
    record = org.run("SELECT FIELDS(ALL) FROM Case LIMIT 1").records[0]
    assert sorted(record) == sorted(["attributes", *told])
    custom = org.run("SELECT FIELDS(CUSTOM) FROM Case LIMIT 1").records[0]
    assert list(custom) == ["attributes", "IssueId__c", "OrderItemId__c"]
    assert "IssueId__c" not in org.run("SELECT FIELDS(STANDARD) FROM Case").records[0]
