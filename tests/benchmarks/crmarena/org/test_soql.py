"""What a SELECT gives: values, parents, children, groups, order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from crm import mini, opened
from one_test import in_one_test
from small_org import ACCOUNTS, CASES, ROWS, plain
from soql_cases import FOUND, GIVEN, REFUSED

from pytest_a2a_bench.benchmarks.crmarena.org import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg


@in_one_test(("query", "records"), GIVEN.items(), ids=lambda each: str(each)[:70])
def test_select(org: LocalOrg, query: str, records: list[dict[str, Any]]) -> None:
    result = org.run(query)
    assert [plain(record) for record in result.records] == records
    assert [list(record)[1:] for record in result.records] == [list(record) for record in records]
    assert result.total_size == len(records)


def test_the_envelope_is_the_rest_apis(org: LocalOrg) -> None:
    record_id = CASES[3]
    result = org.run(f"SELECT Id, Account.Name, (SELECT Id FROM CaseHistories__r) FROM Case WHERE Id = '{record_id}'")
    assert result.total_size == 1
    assert result.records == (
        {
            "attributes": {"type": "Case", "url": f"/services/data/v62.0/sobjects/Case/{record_id}"},
            "Id": record_id,
            "Account": {
                "attributes": {"type": "Account", "url": f"/services/data/v62.0/sobjects/Account/{ACCOUNTS[2]}"},
                "Name": "Zeta 100% Foods",
            },
            "CaseHistories__r": None,
        },
    )


def test_children_are_envelopes_and_are_counted(org: LocalOrg) -> None:
    result = org.run(f"SELECT (SELECT Id FROM CaseHistories__r) FROM Case WHERE Id = '{CASES[1]}'")
    children = result.records[0]["CaseHistories__r"]
    assert (children["totalSize"], children["done"], len(children["records"])) == (3, True, 3)
    assert (result.total_size, result.rows_read) == (1, 4)


def test_groups_are_aggregate_results(org: LocalOrg) -> None:
    assert org.run("SELECT COUNT(Id) n FROM Case").records == ({"attributes": {"type": "AggregateResult"}, "n": 7},)


def test_count_has_no_records(org: LocalOrg) -> None:
    counted = org.run("SELECT COUNT() FROM Case")
    assert (counted.total_size, counted.records) == (7, ())
    assert org.run("SELECT COUNT() FROM Case LIMIT 3").total_size == 3


def test_fields_gives_what_the_agent_was_told_of(org: LocalOrg) -> None:
    reply = [field.name for field in org.schema.object("Case").fields]  # type: ignore[union-attr]
    record = org.run("SELECT FIELDS(ALL) FROM Case LIMIT 1").records[0]
    assert sorted(record) == sorted(["attributes", *reply])
    custom = org.run("SELECT FIELDS(CUSTOM) FROM Case LIMIT 1").records[0]
    assert list(custom) == ["attributes", "IssueId__c", "OrderItemId__c"]
    assert "IssueId__c" not in org.run("SELECT FIELDS(STANDARD) FROM Case").records[0]


# Which records a WHERE finds: one line per rule, over the hand-made org.


@in_one_test(("sobject", "condition", "numbers"), FOUND, ids=lambda each: str(each)[:60])
def test_where(org: LocalOrg, sobject: str, condition: str, numbers: list[int]) -> None:
    records = org.run(f"SELECT Id FROM {sobject} WHERE {condition}").records
    ids = [row["Id"] for row in ROWS[sobject]]
    assert [ids.index(record["Id"]) for record in records] == numbers


@in_one_test(("sobject", "condition", "numbers"), FOUND[::9], ids=lambda each: str(each)[:60])
def test_count_agrees(org: LocalOrg, sobject: str, condition: str, numbers: list[int]) -> None:
    assert org.run(f"SELECT COUNT() FROM {sobject} WHERE {condition}").total_size == len(numbers)


# What the org refuses, in Salesforce's codes and words, with the place.


@in_one_test(("code", "marked", "text"), [(code, *one) for code in REFUSED for one in REFUSED[code].items()])
def test_refusal(org: LocalOrg, code: str, marked: str, text: str) -> None:
    query = marked.replace("^", "")
    with pytest.raises(OrgError) as caught:
        org.run(query)
    message = caught.value.message.split("\n")
    assert (caught.value.code, message[-1]) == (code, text)
    if len(message) > 1:
        before = marked[: marked.index("^")]
        row, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        if text.endswith("'JOIN'"):
            column += len("INNER ")
        if text == "unexpected token: '('":
            column += len("UPPER")
        assert message[0] == ""
        assert message[-2] == f"ERROR at Row:{row}:Column:{column}"
        caret = message[2].index("^")
        assert query.split("\n")[row - 1][column - 1 :].startswith(message[1][caret : caret + 3])


def test_the_frame(org: LocalOrg) -> None:
    with pytest.raises(OrgError) as caught:
        org.run("SELECT Id, Foo FROM Case")
    expected = "INVALID_FIELD: \nSELECT Id, Foo FROM Case\n           ^\nERROR at Row:1:Column:12\nNo such column 'Foo'"
    assert str(caught.value).startswith(expected)


def test_the_frame_shows_a_window_of_a_long_line(org: LocalOrg) -> None:
    query = "SELECT Id, Subject, Status, Priority, OwnerId, AccountId, ContactId, Foo, CreatedDate, ClosedDate, "
    query += "IssueId__c, OrderItemId__c FROM Case"
    with pytest.raises(OrgError) as caught:
        org.run(query)
    _, excerpt, caret, place, _ = caught.value.message.split("\n")
    assert place == f"ERROR at Row:1:Column:{query.index('Foo') + 1}"
    assert excerpt[caret.index("^") :].startswith("Foo, CreatedDate")
    assert 40 < len(excerpt) < 90


def test_a_query_is_not_endless(org: LocalOrg) -> None:
    with pytest.raises(OrgError, match="cannot be longer than"):
        org.run("SELECT Id FROM Case WHERE Status = '" + "x" * 100_000 + "'")


def test_nesting_is_not_endless(org: LocalOrg) -> None:
    for deep in ("(" * 5_000, "NOT " * 5_000):
        with pytest.raises(OrgError, match="too deeply nested"):
            org.run(f"SELECT Id FROM Case WHERE {deep}Status = 'x'")
    calls = "convertCurrency(" * 5_000
    with pytest.raises(OrgError, match="too deeply nested"):
        org.run(f"SELECT {calls}Amount FROM Opportunity")


def test_long_lists_and_chains_are_no_trouble(org: LocalOrg) -> None:
    values = ", ".join(f"'{n}'" for n in range(5_000))
    assert org.run(f"SELECT COUNT() FROM Case WHERE Status NOT IN ({values})").total_size == 7
    chain = " OR ".join(f"Status = '{n}'" for n in range(3_000))
    assert org.run(f"SELECT COUNT() FROM Case WHERE {chain}").total_size == 0


# Queries after Salesforce's SOQL and SOSL Reference, by page and outcome:
# ``ok``, a code, or ``= QUERY`` that finds the same.


CORPUS = json.loads((Path(__file__).parents[3] / "support" / "corpus.json").read_text("utf-8"))


def outcome(org: LocalOrg, query: str) -> tuple[str, Any]:
    try:
        result = org.run(query)
    except OrgError as refusal:
        return refusal.code, None
    return "ok", (sorted(str(record.get("Id")) for record in result.records), result.total_size)


def test_queries_of_the_reference() -> None:
    wrong = []
    with opened(mini()) as org:
        for source, by_outcome in CORPUS.items():
            for expected, queries in by_outcome.items():
                twin = outcome(org, expected[2:]) if expected.startswith("= ") else None
                found = [(query, outcome(org, query)) for query in queries]
                wrong += [(source, q, got) for q, got in found if (got if twin else got[0]) != (twin or expected)]
    assert wrong == []
