"""What a SELECT gives: values, parents, children, groups, order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from small_org import ACCOUNTS, CASES, DEALS, USERS, open_small_org, plain

from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg


@pytest.fixture(scope="module")
def org() -> Iterator[LocalOrg]:
    org = open_small_org()
    yield org
    org.close()


def _one(**record: Any) -> list[dict[str, Any]]:
    return [record]


#: Query, and its records without ``attributes``.
GIVEN: list[tuple[str, list[dict[str, Any]]]] = [
    # Values have their types, keys the schema's spelling.
    (
        f"select ID, name, NUMBEROFEMPLOYEES, industry from ACCOUNT where id = '{ACCOUNTS[2]}'",
        _one(Id=ACCOUNTS[2], Name="Zeta 100% Foods", NumberOfEmployees=1200, Industry="Food"),
    ),
    ("SELECT UnitPrice, Quantity FROM OrderItem LIMIT 1", _one(UnitPrice=99.5, Quantity=2.0)),
    ("SELECT IsActive FROM Product2 ORDER BY Name", [{"IsActive": True}, {"IsActive": True}, {"IsActive": False}]),
    (
        "SELECT CreatedDate, ClosedDate FROM Case WHERE Status = 'New'",
        _one(CreatedDate="2023-03-01T00:00:00.000+0000", ClosedDate=None),
    ),
    ("SELECT EffectiveDate FROM Order WHERE Status = 'Draft'", _one(EffectiveDate="2023-01-31")),
    ("SELECT Name FROM User WHERE Alias = 'CÁrn'", _one(Name="Cleo Árnason")),
    ("SELECT CaseNumber, Origin FROM Case LIMIT 1", _one(CaseNumber=None, Origin=None)),
    ("SELECT c.Subject FROM Case c WHERE c.Status = 'New'", _one(Subject="Case 3 about the pump")),
    ("SELECT Case.Subject FROM Case WHERE Case.Status = 'New'", _one(Subject="Case 3 about the pump")),
    ("SELECT c.Subject FROM Case AS c WHERE c.Status = 'New'", _one(Subject="Case 3 about the pump")),
    ("SELECT toLabel(Status) FROM Case WHERE Status = 'New'", _one(Status="New")),
    ("SELECT FORMAT(Amount) shown FROM Opportunity WHERE Name = 'Big deal'", _one(shown="$10,000.50")),
    ("SELECT FORMAT(CreatedDate) d FROM Case WHERE Status = 'New'", _one(d="3/1/2023, 12:00 AM")),
    ("SELECT FORMAT(CloseDate) FROM Opportunity WHERE Name = 'Third'", _one(CloseDate="12/31/2022")),
    ("SELECT convertCurrency(Amount) FROM Opportunity WHERE Name = 'small deal'", _one(Amount=900.0)),
    # Parents.
    (
        "SELECT Account.Name, Account.ShippingState, Owner.Name FROM Case WHERE Status = 'New'",
        _one(Account={"Name": "Zeta 100% Foods", "ShippingState": "CA"}, Owner={"Name": "Cleo Árnason"}),
    ),
    ("SELECT Account.Name FROM Case WHERE AccountId = null", _one(Account=None)),
    (
        "SELECT Order.Account.Name, Order.Status FROM OrderItem WHERE Quantity = 1",
        _one(Order={"Account": {"Name": "acme tools"}, "Status": "Draft"}),
    ),
    (
        "SELECT a.Name, o.LastName FROM Case c, c.Account a, c.Owner o WHERE c.Status = 'New'",
        _one(Account={"Name": "Zeta 100% Foods"}, Owner={"LastName": "Árnason"}),
    ),
    (
        "SELECT What.Name, What.Type FROM Task ORDER BY Subject",
        [
            {"What": {"Name": "Big deal", "Type": "Opportunity"}},
            {"What": {"Name": "Big deal", "Type": "Opportunity"}},
            {"What": {"Name": "acme tools", "Type": "Account"}},
            {"What": None},
        ],
    ),
    (
        "SELECT TYPEOF What WHEN Opportunity THEN Amount, StageName WHEN Account THEN Phone END FROM Task",
        [
            {"What": {"Amount": 10000.5, "StageName": "Negotiation"}},
            {"What": {"Amount": 10000.5, "StageName": "Negotiation"}},
            {"What": {"Phone": "555-0101"}},
            {"What": None},
        ],
    ),
    (
        "SELECT TYPEOF What WHEN Opportunity THEN Amount ELSE Name END FROM Task WHERE What.Type = 'Account'",
        _one(What={"Name": "acme tools"}),
    ),
    # Children.
    (
        "SELECT Name, (SELECT LastName FROM Contacts ORDER BY LastName DESC) FROM Account WHERE Name LIKE 'n%'",
        _one(Name="Northwind Pumps", Contacts=[{"LastName": "North"}, {"LastName": "Moss"}]),
    ),
    (
        "SELECT (SELECT FirstName FROM Contacts LIMIT 1), (SELECT Subject FROM Cases WHERE Status = 'New') FROM Account"
        " ORDER BY Id LIMIT 5",
        [
            {"Contacts": [{"FirstName": "Mia"}], "Cases": None},
            {"Contacts": [{"FirstName": "Pia"}], "Cases": [{"Subject": "Case 3 about the pump"}]},
            {"Contacts": None, "Cases": None},
            {"Contacts": [{"FirstName": "Ola"}], "Cases": None},
            {"Contacts": None, "Cases": None},
        ],
    ),
    (
        "SELECT Id, (SELECT Field__c, NewValue__r.FirstName FROM CaseHistories__r WHERE OldValue__c != null) FROM Case "
        f"WHERE Id = '{CASES[1]}'",
        _one(Id=CASES[1], CaseHistories__r=[{"Field__c": "Owner Assignment", "NewValue__r": {"FirstName": "Bo"}}]),
    ),
    (
        "SELECT Name, (SELECT Status, (SELECT Quantity FROM OrderItems ORDER BY Quantity) FROM Orders) FROM Account"
        " WHERE Name = 'Northwind Pumps'",
        _one(
            Name="Northwind Pumps",
            Orders=[{"Status": "Activated", "OrderItems": [{"Quantity": 2.0}, {"Quantity": 10.0}]}],
        ),
    ),
    (
        "SELECT (SELECT Quantity FROM OrderItems ORDER BY UnitPrice LIMIT 1 OFFSET 1) FROM Order "
        "WHERE Status = 'Draft'",
        _one(OrderItems=None),
    ),
    # Order, limit, offset.
    ("SELECT Name FROM Account ORDER BY Name LIMIT 2", [{"Name": "acme tools"}, {"Name": "Northwind Pumps"}]),
    ("SELECT Name FROM Account ORDER BY Name DESC LIMIT 1", [{"Name": "Zeta 100% Foods"}]),
    ("SELECT Name FROM Account ORDER BY Name ASC LIMIT 1 OFFSET 2", [{"Name": "O'Brien & Söhne"}]),
    ("SELECT Amount FROM Opportunity ORDER BY Amount LIMIT 2", [{"Amount": None}, {"Amount": 900.0}]),
    ("SELECT Amount FROM Opportunity ORDER BY Amount DESC LIMIT 2", [{"Amount": None}, {"Amount": 10000.5}]),
    ("SELECT Amount FROM Opportunity ORDER BY Amount NULLS LAST LIMIT 1", [{"Amount": 900.0}]),
    ("SELECT Amount FROM Opportunity ORDER BY Amount DESC NULLS LAST LIMIT 1", [{"Amount": 10000.5}]),
    (
        "SELECT NumberOfEmployees n FROM Account GROUP BY NumberOfEmployees ORDER BY NumberOfEmployees LIMIT 1",
        _one(n=None),
    ),
    (
        "SELECT Account.Name FROM Case WHERE Status = 'Closed' ORDER BY Account.Name DESC, CreatedDate LIMIT 2",
        [{"Account": {"Name": "Zeta 100% Foods"}}, {"Account": {"Name": "Northwind Pumps"}}],
    ),
    ("SELECT Name FROM Account LIMIT 0", []),
    # Groups.
    ("SELECT COUNT(Id) FROM Case", _one(expr0=7)),
    ("SELECT COUNT(Id), COUNT(AccountId) FROM Case", _one(expr0=7, expr1=6)),
    ("SELECT COUNT_DISTINCT(AccountId) n FROM Case", _one(n=3)),
    ("SELECT COUNT_DISTINCT(Status) n FROM Case", _one(n=3)),
    ("SELECT SUM(Quantity) total, AVG(UnitPrice) FROM OrderItem", _one(total=25.0, expr0=64.35)),
    ("SELECT MIN(CloseDate), MAX(Amount) FROM Opportunity", _one(expr0="2022-12-31", expr1=10000.5)),
    ("SELECT MAX(CreatedDate) latest FROM Case", _one(latest="2023-03-15T12:00:00.000+0000")),
    ("SELECT MIN(Name) FROM Account", _one(expr0="acme tools")),
    ("SELECT COUNT(Id) n, SUM(Amount) s FROM Opportunity WHERE Name = 'none'", _one(n=0, s=None)),
    (
        "SELECT Priority, COUNT(Id) n FROM Case GROUP BY Priority ORDER BY COUNT(Id) DESC, Priority",
        [{"Priority": "High", "n": 3}, {"Priority": "Low", "n": 2}, {"Priority": "Medium", "n": 2}],
    ),
    ("SELECT Status FROM Case GROUP BY Status HAVING COUNT(Id) > 2", _one(Status="Closed")),
    (
        "SELECT Account.ShippingState, COUNT(Id) FROM Case WHERE AccountId != null GROUP BY Account.ShippingState",
        [{"ShippingState": "CA", "expr0": 4}, {"ShippingState": "OR", "expr0": 2}],
    ),
    (
        "SELECT OwnerId o, COUNT(Id) FROM Case GROUP BY OwnerId HAVING COUNT(Id) >= 2 AND OwnerId != null "
        "ORDER BY COUNT(Id) DESC LIMIT 1",
        _one(o=USERS[0], expr0=4),
    ),
    (
        "SELECT CALENDAR_YEAR(CreatedDate) y, COUNT(Id) n FROM Case GROUP BY CALENDAR_YEAR(CreatedDate)",
        [{"y": 2022, "n": 2}, {"y": 2023, "n": 5}],
    ),
    (
        "SELECT CALENDAR_MONTH(CreatedDate), COUNT(Id) FROM Case WHERE CALENDAR_YEAR(CreatedDate) = 2023 "
        "GROUP BY CALENDAR_MONTH(CreatedDate) ORDER BY CALENDAR_MONTH(CreatedDate) DESC",
        [{"expr0": 3, "expr1": 2}, {"expr0": 2, "expr1": 2}, {"expr0": 1, "expr1": 1}],
    ),
    (
        "SELECT DAY_ONLY(CreatedDate) d FROM Case WHERE CreatedDate = THIS_MONTH GROUP BY DAY_ONLY(CreatedDate)",
        [{"d": "2023-03-01"}, {"d": "2023-03-15"}],
    ),
    (
        "SELECT Status, Priority, COUNT(Id) n FROM Case WHERE Status != 'Closed' GROUP BY ROLLUP(Status, Priority)",
        [
            {"Status": "New", "Priority": "High", "n": 1},
            {"Status": "Working", "Priority": "Low", "n": 1},
            {"Status": "Working", "Priority": "Medium", "n": 1},
            {"Status": "New", "Priority": None, "n": 1},
            {"Status": "Working", "Priority": None, "n": 2},
            {"Status": None, "Priority": None, "n": 3},
        ],
    ),
    (
        "SELECT IsActive a, GROUPING(IsActive) g, COUNT(Id) n FROM Product2 GROUP BY CUBE(IsActive)",
        [{"a": False, "g": 0, "n": 1}, {"a": True, "g": 0, "n": 2}, {"a": None, "g": 1, "n": 3}],
    ),
    ("SELECT Id, Name FROM Opportunity WHERE Amount = 900 FOR VIEW", _one(Id=DEALS[1], Name="small deal")),
    ("SELECT Name FROM Opportunity USING SCOPE Everything WHERE Amount = 900", _one(Name="small deal")),
    ("SELECT Name FROM Opportunity WHERE Amount = 900 WITH SECURITY_ENFORCED LIMIT 1", _one(Name="small deal")),
    ("SELECT Name FROM Opportunity WHERE Amount = 900 LIMIT 1 FOR UPDATE", _one(Name="small deal")),
    ("SELECT Name FROM Knowledge__kav WHERE Title = 'x' UPDATE VIEWSTAT".replace("Name", "Title"), []),
    ("SELECT\n  Name\nFROM\tOpportunity\r\nWHERE Amount=900", _one(Name="small deal")),
]


@pytest.mark.parametrize(("query", "records"), GIVEN, ids=lambda each: str(each)[:70])
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
