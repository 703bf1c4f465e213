"""What the org refuses, in Salesforce's codes and words, with the place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from one_test import in_one_test
from small_org import open_small_org
from soql_cases import REFUSED

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg


@pytest.fixture(scope="module")
def org() -> Iterator[LocalOrg]:
    org = open_small_org()
    yield org
    org.close()


@in_one_test(("marked", "code", "text"), REFUSED, ids=lambda each: str(each)[:70])
def test_refusal(org: LocalOrg, marked: str, code: str, text: str) -> None:
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
