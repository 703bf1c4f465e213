"""Which records a WHERE finds: one line per rule, over the hand-made org."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from small_org import ACCOUNTS, CASES, CONTACTS, DEALS, ITEMS, LEADS, ORDERS, PRODUCTS, TASKS, USERS, open_small_org

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


#: Object, condition, and the numbers of the records that it finds.
FOUND: list[tuple[str, str, list[int]]] = [
    # Text: any case, and beyond ASCII too.
    ("Account", "Name = 'ACME TOOLS'", [1]),
    ("Account", "name = 'Acme Tools'", [1]),
    ("Account", "Name = 'O\\'Brien & Söhne'", [3]),
    ("Account", "Name = 'O\\'BRIEN & SÖHNE'", [3]),
    ("User", "LastName = 'árnason'", [2]),
    ("Account", "Name != 'acme tools'", [0, 2, 3, 4]),
    ("Account", "Name <> 'acme tools'", [0, 2, 3, 4]),
    ("Account", "Name > 'm'", [0, 2, 3, 4]),
    ("Account", "Name <= 'NORTHWIND PUMPS'", [0, 1]),
    ("Account", "Name LIKE 'NORTH%'", [0]),
    ("Account", "Name LIKE '%pumps'", [0]),
    ("Account", "Name LIKE '%söHNE'", [3]),
    ("Account", "Name LIKE '%100\\%%'", [2]),
    ("Account", "Name LIKE 'Under\\_%'", [4]),
    ("Account", "Name LIKE '_cme tools'", [1]),
    ("Account", "Name LIKE 'acme'", []),
    ("Account", "NOT Name LIKE '%oo%'", [0, 3, 4]),
    ("Account", "Name = 'Zeta 100% Foods'", [2]),
    ("Account", "Name = 'Zeta 100\\% Foods'", [2]),
    ("Account", "Name IN ('ACME tools', 'Northwind Pumps', 'nobody')", [0, 1]),
    ("Account", "Name NOT IN ('acme tools', 'Northwind Pumps')", [2, 3, 4]),
    ("Account", "Name IN ('O\\'BRIEN & SÖHNE', 'x')", [3]),
    # No value: != and NOT IN keep it, = finds it as null and as the empty text.
    ("Account", "Industry = null", [3]),
    ("Account", "Industry = NULL", [3]),
    ("Account", "Industry = ''", [3]),
    ("Account", "Industry != null", [0, 1, 2, 4]),
    ("Account", "Industry != 'Energy'", [1, 2, 3]),
    ("Account", "Industry NOT IN ('Energy', 'Food')", [1, 3]),
    ("Account", "Industry IN ('Food', null)", [2, 3]),
    ("Account", "Industry NOT IN ('Food', null)", [0, 1, 4]),
    ("Account", "NOT (Industry = 'Energy')", [1, 2, 3]),
    ("Account", "NOT Industry = 'Energy' AND ShippingState = 'CA'", [1, 2]),
    ("Account", "NOT (Industry = 'Energy' OR Industry = 'Food')", [1, 3]),
    ("Account", "NumberOfEmployees != 40", [0, 2, 3, 4]),
    ("Account", "NOT NumberOfEmployees > 40", [1, 3, 4]),
    # Numbers, though the tables hold texts.
    ("Account", "NumberOfEmployees > 100", [0, 2]),
    ("Account", "NumberOfEmployees >= 950", [0, 2]),
    ("Account", "NumberOfEmployees < 950", [1, 3]),
    ("Account", "NumberOfEmployees IN (7, 40)", [1, 3]),
    ("Account", "NumberOfEmployees NOT IN (7, 40)", [0, 2, 4]),
    ("OrderItem", "Quantity = 9", [4]),
    ("OrderItem", "Quantity >= 9.0", [1, 4]),
    ("OrderItem", "UnitPrice = 7.25", [3]),
    ("OrderItem", "UnitPrice < 1e2", [0, 1, 3, 4]),
    ("OrderItem", "UnitPrice > -5", [0, 1, 2, 3, 4]),
    ("Opportunity", "Amount > USD5000", [0, 3]),
    ("Opportunity", "Amount = 10000.50", [0, 3]),
    ("Opportunity", "Amount = null", [2]),
    # Booleans, which are never null.
    ("Product2", "IsActive = true", [0, 1]),
    ("Product2", "IsActive = FALSE", [2]),
    ("Lead", "IsConverted = false", [1, 2]),
    ("Lead", "IsConverted != true", [1, 2]),
    # Ids: 15 or 18 characters.
    ("Case", f"Id = '{CASES[0]}'", [0]),
    ("Case", f"Id = '{CASES[0][:15]}'", [0]),
    ("Case", f"OwnerId = '{USERS[1][:15]}'", [1, 5]),
    ("Case", f"Id IN ('{CASES[2][:15]}', '{CASES[3]}')", [2, 3]),
    ("Case", f"Id NOT IN ('{CASES[2][:15]}', '{CASES[3]}')", [0, 1, 4, 5, 6]),
    ("Case", f"AccountId != '{ACCOUNTS[0]}'", [2, 3, 4, 5, 6]),
    ("Case", "AccountId = null", [5]),
    ("Case", "AccountId = ''", [5]),
    ("Case", f"Id = '{CASES[0][:15].swapcase()}'", []),
    # Days and moments.
    ("Opportunity", "CloseDate = 2023-03-31", [0]),
    ("Opportunity", "CloseDate > 2023-03-15", [0, 1]),
    ("Opportunity", "CloseDate >= 2023-03-15", [0, 1, 3]),
    ("Opportunity", "CloseDate != 2023-03-15", [0, 1, 2]),
    ("Opportunity", "CloseDate IN (2023-03-15, 2023-04-01)", [1, 3]),
    ("Opportunity", "CloseDate = TODAY", [3]),
    ("Opportunity", "CloseDate = THIS_MONTH", [0, 3]),
    ("Opportunity", "CloseDate = NEXT_MONTH", [1]),
    ("Opportunity", "CloseDate < THIS_YEAR", [2]),
    ("Opportunity", "CloseDate <= THIS_QUARTER", [0, 2, 3]),
    ("Opportunity", "CloseDate > THIS_QUARTER", [1]),
    ("Opportunity", "CloseDate IN (LAST_YEAR, TODAY)", [2, 3]),
    ("Opportunity", "CloseDate NOT IN (LAST_YEAR, TODAY)", [0, 1]),
    ("Opportunity", "CloseDate != THIS_MONTH", [1, 2]),
    ("Case", "CreatedDate = 2023-02-28T23:59:00Z", [2]),
    ("Case", "CreatedDate = 2023-03-01T00:59:00+01:00", [2]),
    ("Case", "CreatedDate = 2023-03-01T00:59:00.000+0100", [2]),
    ("Case", "CreatedDate >= 2023-02-28T23:59:00.000Z", [2, 3, 5]),
    ("Case", "CreatedDate > 2023-02-28T23:59:00Z", [3, 5]),
    ("Case", "CreatedDate < 2022-12-31T23:59:00Z", [6]),
    ("Case", "ClosedDate = null", [2, 3, 5]),
    ("Case", "ClosedDate > 2022-01-01T00:00:00Z", [0, 1, 4, 6]),
    ("Case", "CreatedDate = TODAY", [5]),
    ("Case", "CreatedDate = THIS_MONTH", [3, 5]),
    ("Case", "CreatedDate = LAST_MONTH", [1, 2]),
    ("Case", "CreatedDate = LAST_N_MONTHS:1", [1, 2]),
    ("Case", "CreatedDate = LAST_N_MONTHS:2", [0, 1, 2]),
    ("Case", "CreatedDate >= LAST_N_MONTHS:2", [0, 1, 2, 3, 5]),
    ("Case", "CreatedDate = LAST_N_DAYS:14", [3, 5]),
    ("Case", "CreatedDate = LAST_N_DAYS:15", [2, 3, 5]),
    ("Case", "CreatedDate = LAST_90_DAYS", [0, 1, 2, 3, 4, 5]),
    ("Case", "CreatedDate = LAST_YEAR", [4, 6]),
    ("Case", "CreatedDate = LAST_QUARTER", [4]),
    ("Case", "CreatedDate = THIS_FISCAL_QUARTER", [0, 1, 2, 3, 5]),
    ("Case", "CreatedDate = LAST_N_QUARTERS:4", [4, 6]),
    ("Case", "CreatedDate = N_MONTHS_AGO:2", [0]),
    ("Case", "CreatedDate = N_YEARS_AGO:1", [4, 6]),
    ("Case", "CreatedDate < LAST_N_YEARS:1", []),
    ("Case", "CreatedDate = THIS_WEEK", [5]),
    ("Case", "CreatedDate = last_n_weeks:2", [2, 3]),
    ("Task", "ActivityDate = TOMORROW", [2]),
    ("Task", "ActivityDate = YESTERDAY", [1]),
    ("Task", "ActivityDate = NEXT_N_DAYS:60", [2, 3]),
    ("Task", "ActivityDate = NEXT_90_DAYS", [2, 3]),
    ("Task", "ActivityDate = NEXT_N_MONTHS:1", []),
    ("Task", "ActivityDate = NEXT_N_MONTHS:2", [3]),
    ("Task", "ActivityDate = N_DAYS_AGO:1", [1]),
    # Functions of days.
    ("Case", "CALENDAR_YEAR(CreatedDate) = 2022", [4, 6]),
    ("Case", "CALENDAR_MONTH(CreatedDate) = 3", [3, 5, 6]),
    ("Case", "CALENDAR_QUARTER(CreatedDate) IN (1, 2) AND FISCAL_YEAR(CreatedDate) = 2023", [0, 1, 2, 3, 5]),
    ("Case", "DAY_ONLY(CreatedDate) = 2023-02-28", [2]),
    ("Case", "DAY_ONLY(convertTimezone(CreatedDate)) = TODAY", [5]),
    ("Case", "HOUR_IN_DAY(CreatedDate) >= 23", [2, 4]),
    ("Case", "DAY_IN_WEEK(CreatedDate) = 4", [3, 5]),
    ("Case", "DAY_IN_MONTH(CreatedDate) = 31", [4]),
    ("Case", "DAY_IN_YEAR(CreatedDate) = 74", [5, 6]),
    ("Case", "WEEK_IN_MONTH(CreatedDate) = 5", [4]),
    ("Case", "WEEK_IN_YEAR(CreatedDate) = 2", [0]),
    # Logic and brackets.
    ("Case", "Status = 'Closed' AND Priority = 'High'", [0, 6]),
    ("Case", "Status = 'New' OR Priority = 'Low'", [1, 3, 5]),
    ("Case", "(Status = 'New' OR Status = 'Working') AND Priority = 'High'", [3]),
    ("Case", "Status = 'Closed' AND (Priority = 'High' OR (Priority = 'Low' AND OwnerId != null))", [0, 1, 6]),
    ("Case", "NOT (Status = 'Closed') AND NOT Priority = 'High'", [2, 5]),
    ("Case", "NOT (NOT Status = 'New')", [3]),
    # Parents, several levels up, with names of the object and aliases in front.
    ("Case", "Account.ShippingState = 'CA'", [2, 3, 4, 6]),
    ("Case", "Account.ShippingState != 'CA'", [0, 1, 5]),
    ("Case", "Account.Name = null", [5]),
    ("Case", "Case.Account.Name LIKE 'n%'", [0, 1]),
    ("OrderItem", "Order.Account.Name = 'acme tools'", [2]),
    ("OrderItem", "Order.Owner.Name = 'Ada Lund'", [0, 1]),
    ("Case", "OrderItemId__r.Order.Account.ShippingState = 'OR'", [0, 1, 5, 6]),
    ("Case", "IssueId__r.Name = 'leak'", [0, 2, 4, 6]),
    ("Task", "What.Name = 'Big deal'", [0, 1]),
    ("Task", "What.Type = 'Account'", [2]),
    ("Case", "Owner.Type = 'User'", [0, 1, 2, 3, 4, 5, 6]),
    # Semi- and anti-joins.
    ("Account", "Id IN (SELECT AccountId FROM Contact)", [0, 1, 2]),
    ("Account", "Id NOT IN (SELECT AccountId FROM Contact WHERE Email != null)", [2, 3, 4]),
    ("Account", "Id NOT IN (SELECT AccountId FROM Case)", [3, 4]),
    ("Case", "AccountId IN (SELECT Id FROM Account WHERE ShippingState = 'CA') AND Status = 'Closed'", [4, 6]),
    ("Case", "AccountId NOT IN (SELECT Id FROM Account WHERE ShippingState = 'CA')", [0, 1, 5]),
    ("Case", "Id IN (SELECT CaseId__c FROM CaseHistory__c WHERE OldValue__c != null)", [1]),
    ("Account", "Id IN (SELECT AccountId FROM Case) AND Id IN (SELECT Account.Id FROM Order)", [0, 1, 2]),
    # What a real org has and the tables lack.
    ("Case", "CaseNumber = null", [0, 1, 2, 3, 4, 5, 6]),
    ("Case", "IsClosed = true", [0, 1, 4, 6]),
    ("User", "Name = 'bo ek'", [1]),
    ("User", "IsActive = true AND IsDeleted = false", [0, 1, 2]),
    ("Opportunity", "IsClosed = false", [0, 1, 3]),
]


@pytest.mark.parametrize(("sobject", "condition", "numbers"), FOUND, ids=lambda each: str(each)[:60])
def test_where(org: LocalOrg, sobject: str, condition: str, numbers: list[int]) -> None:
    records = org.run(f"SELECT Id FROM {sobject} WHERE {condition}").records
    assert [_IDS[sobject].index(record["Id"]) for record in records] == numbers


@pytest.mark.parametrize(("sobject", "condition", "numbers"), FOUND[::9], ids=lambda each: str(each)[:60])
def test_count_agrees(org: LocalOrg, sobject: str, condition: str, numbers: list[int]) -> None:
    assert org.run(f"SELECT COUNT() FROM {sobject} WHERE {condition}").total_size == len(numbers)
