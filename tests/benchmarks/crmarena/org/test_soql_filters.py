"""Which records a WHERE finds: one line per rule, over the hand-made org."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from one_test import in_one_test
from small_org import ACCOUNTS, CASES, CONTACTS, DEALS, ITEMS, LEADS, ORDERS, PRODUCTS, TASKS, USERS, open_small_org
from soql_cases import FOUND

from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg

_IDS = {
    "Account": ACCOUNTS,
    "Case": CASES,
    "Contact": CONTACTS,
    "Opportunity": DEALS,
    "OrderItem": ITEMS,
    "Order": ORDERS,
    "Lead": LEADS,
    "Product2": PRODUCTS,
    "Task": TASKS,
    "User": USERS,
}


@pytest.fixture(scope="module")
def org() -> Iterator[LocalOrg]:
    org = open_small_org()
    yield org
    org.close()


@in_one_test(("sobject", "condition", "numbers"), FOUND, ids=lambda each: str(each)[:60])
def test_where(org: LocalOrg, sobject: str, condition: str, numbers: list[int]) -> None:
    records = org.run(f"SELECT Id FROM {sobject} WHERE {condition}").records
    assert [_IDS[sobject].index(record["Id"]) for record in records] == numbers


@in_one_test(("sobject", "condition", "numbers"), FOUND[::9], ids=lambda each: str(each)[:60])
def test_count_agrees(org: LocalOrg, sobject: str, condition: str, numbers: list[int]) -> None:
    assert org.run(f"SELECT COUNT() FROM {sobject} WHERE {condition}").total_size == len(numbers)
