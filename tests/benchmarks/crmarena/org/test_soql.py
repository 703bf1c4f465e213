"""What a SELECT gives: values, parents, children, groups, order."""

import json
from pathlib import Path
from typing import Any

import pytest
from crm import mini, opened
from one_test import in_one_test
from small_org import ACCOUNTS, CASES, ROWS, USERS, plain

from pytest_a2a_bench.benchmarks.crmarena.org import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg


def _one(**record: Any) -> list[dict[str, Any]]:
    return [record]


#: Query, and its records without ``attributes``.
GIVEN: dict[str, list[dict[str, Any]]] = {
    # Values have their types, keys the schema's spelling.
    f"select ID, name, NUMBEROFEMPLOYEES, industry from ACCOUNT where id = '{ACCOUNTS[2]}'": _one(
        Id=ACCOUNTS[2], Name="Zeta 100% Foods", NumberOfEmployees=1200, Industry="Food"
    ),
    "SELECT UnitPrice, Quantity FROM OrderItem LIMIT 1": _one(UnitPrice=99.5, Quantity=2.0),
    "SELECT CreatedDate, ClosedDate FROM Case WHERE Status = 'New'": _one(
        CreatedDate="2023-03-01T00:00:00.000+0000", ClosedDate=None
    ),
    "SELECT EffectiveDate FROM Order WHERE Status = 'Draft'": _one(EffectiveDate="2023-01-31"),
    "SELECT Name FROM User WHERE Alias = 'CÁrn'": _one(Name="Cleo Árnason"),
    "SELECT CaseNumber, Origin FROM Case LIMIT 1": _one(CaseNumber=None, Origin=None),
    "SELECT Case.Subject FROM Case WHERE Case.Status = 'New'": _one(Subject="Case 3 about the pump"),
    "SELECT c.Subject FROM Case AS c WHERE c.Status = 'New'": _one(Subject="Case 3 about the pump"),
    "SELECT toLabel(Status) FROM Case WHERE Status = 'New'": _one(Status="New"),
    "SELECT FORMAT(Amount) shown FROM Opportunity WHERE Name = 'Big deal'": _one(shown="$10,000.50"),
    "SELECT FORMAT(CreatedDate) d FROM Case WHERE Status = 'New'": _one(d="3/1/2023, 12:00 AM"),
    "SELECT FORMAT(CloseDate) FROM Opportunity WHERE Name = 'Third'": _one(CloseDate="12/31/2022"),
    "SELECT convertCurrency(Amount) FROM Opportunity WHERE Name = 'small deal'": _one(Amount=900.0),
    # Parents.
    "SELECT Account.Name, Account.ShippingState, Owner.Name FROM Case WHERE Status = 'New'": _one(
        Account={"Name": "Zeta 100% Foods", "ShippingState": "CA"}, Owner={"Name": "Cleo Árnason"}
    ),
    "SELECT Order.Account.Name, Order.Status FROM OrderItem WHERE Quantity = 1": _one(
        Order={"Account": {"Name": "acme tools"}, "Status": "Draft"}
    ),
    "SELECT a.Name, o.LastName FROM Case c, c.Account a, c.Owner o WHERE c.Status = 'New'": _one(
        Account={"Name": "Zeta 100% Foods"}, Owner={"LastName": "Árnason"}
    ),
    "SELECT k.LastName, a.Name FROM Case c, c.Contact k, k.Account a WHERE c.Status = 'New'": _one(
        Contact={"LastName": "Moss", "Account": {"Name": "Zeta 100% Foods"}}
    ),
    "SELECT What.Name, What.Type FROM Task ORDER BY Subject": [
        {"What": {"Name": "Big deal", "Type": "Opportunity"}},
        {"What": {"Name": "Big deal", "Type": "Opportunity"}},
        {"What": {"Name": "acme tools", "Type": "Account"}},
        {"What": None},
    ],
    "SELECT TYPEOF What WHEN Opportunity THEN Amount, StageName WHEN Account THEN Phone END FROM Task": [
        {"What": {"Amount": 10000.5, "StageName": "Negotiation"}},
        {"What": {"Amount": 10000.5, "StageName": "Negotiation"}},
        {"What": {"Phone": "555-0101"}},
        {"What": None},
    ],
    "SELECT TYPEOF What WHEN Opportunity THEN Amount ELSE Name END FROM Task WHERE What.Type = 'Account'": _one(
        What={"Name": "acme tools"}
    ),
    # Children.
    "SELECT Name, (SELECT LastName FROM Contacts ORDER BY LastName DESC) FROM Account WHERE Name LIKE 'n%'": _one(
        Name="Northwind Pumps", Contacts=[{"LastName": "North"}, {"LastName": "Moss"}]
    ),
    (
        "SELECT (SELECT FirstName FROM Contacts LIMIT 1), (SELECT Subject FROM Cases WHERE Status = 'New') FROM "
        "Account ORDER BY Id LIMIT 5"
    ): [
        {"Contacts": [{"FirstName": "Mia"}], "Cases": None},
        {"Contacts": [{"FirstName": "Pia"}], "Cases": [{"Subject": "Case 3 about the pump"}]},
        {"Contacts": None, "Cases": None},
        {"Contacts": [{"FirstName": "Ola"}], "Cases": None},
        {"Contacts": None, "Cases": None},
    ],
    (
        "SELECT Id, (SELECT Field__c, NewValue__r.FirstName FROM CaseHistories__r WHERE OldValue__c != null) FROM Case "
        f"WHERE Id = '{CASES[1]}'"
    ): _one(Id=CASES[1], CaseHistories__r=[{"Field__c": "Owner Assignment", "NewValue__r": {"FirstName": "Bo"}}]),
    (
        "SELECT Name, (SELECT Status, (SELECT Quantity FROM OrderItems ORDER BY Quantity) FROM Orders) FROM "
        "Account WHERE Name = 'Northwind Pumps'"
    ): _one(
        Name="Northwind Pumps", Orders=[{"Status": "Activated", "OrderItems": [{"Quantity": 2.0}, {"Quantity": 10.0}]}]
    ),
    (
        "SELECT (SELECT Quantity FROM OrderItems ORDER BY UnitPrice LIMIT 1 OFFSET 1) FROM Order WHERE Status = "
        "'Draft' LIMIT 1"
    ): _one(OrderItems=None),
    # Order, limit, offset.
    "SELECT Name FROM Account ORDER BY Name ASC LIMIT 1 OFFSET 2": [{"Name": "O'Brien & Söhne"}],
    "SELECT Amount FROM Opportunity ORDER BY Amount DESC LIMIT 2": [{"Amount": None}, {"Amount": 10000.5}],
    "SELECT Amount FROM Opportunity ORDER BY Amount NULLS LAST LIMIT 1": [{"Amount": 900.0}],
    "SELECT Account.Name FROM Case WHERE Status = 'Closed' ORDER BY Account.Name DESC, CreatedDate LIMIT 2": [
        {"Account": {"Name": "Zeta 100% Foods"}},
        {"Account": {"Name": "Northwind Pumps"}},
    ],
    "SELECT Name FROM Account LIMIT 0": [],
    # Groups.
    "SELECT COUNT(Id), COUNT(AccountId) FROM Case": _one(expr0=7, expr1=6),
    "SELECT COUNT_DISTINCT(Status) n FROM Case": _one(n=3),
    "SELECT SUM(Quantity) total, AVG(UnitPrice) FROM OrderItem": _one(total=25.0, expr0=64.35),
    "SELECT MAX(CreatedDate) latest FROM Case": _one(latest="2023-03-15T12:00:00.000+0000"),
    "SELECT MIN(Name) FROM Account": _one(expr0="acme tools"),
    "SELECT COUNT(Id) n, SUM(Amount) s FROM Opportunity WHERE Name = 'none'": _one(n=0, s=None),
    "SELECT Priority, COUNT(Id) n FROM Case GROUP BY Priority ORDER BY COUNT(Id) DESC, Priority": [
        {"Priority": "High", "n": 3},
        {"Priority": "Low", "n": 2},
        {"Priority": "Medium", "n": 2},
    ],
    "SELECT Account.ShippingState, COUNT(Id) FROM Case WHERE AccountId != null GROUP BY Account.ShippingState": [
        {"ShippingState": "CA", "expr0": 4},
        {"ShippingState": "OR", "expr0": 2},
    ],
    (
        "SELECT OwnerId o, COUNT(Id) FROM Case GROUP BY OwnerId HAVING COUNT(Id) >= 2 AND OwnerId != null ORDER "
        "BY COUNT(Id) DESC LIMIT 1"
    ): _one(o=USERS[0], expr0=4),
    (
        "SELECT CALENDAR_MONTH(CreatedDate), COUNT(Id) FROM Case WHERE CALENDAR_YEAR(CreatedDate) = 2023 GROUP BY "
        "CALENDAR_MONTH(CreatedDate) ORDER BY CALENDAR_MONTH(CreatedDate) DESC"
    ): [{"expr0": 3, "expr1": 2}, {"expr0": 2, "expr1": 2}, {"expr0": 1, "expr1": 1}],
    "SELECT DAY_ONLY(CreatedDate) d FROM Case WHERE CreatedDate = THIS_MONTH GROUP BY DAY_ONLY(CreatedDate)": [
        {"d": "2023-03-01"},
        {"d": "2023-03-15"},
    ],
    "SELECT Status, Priority, COUNT(Id) n FROM Case WHERE Status != 'Closed' GROUP BY ROLLUP(Status, Priority)": [
        {"Status": "New", "Priority": "High", "n": 1},
        {"Status": "Working", "Priority": "Low", "n": 1},
        {"Status": "Working", "Priority": "Medium", "n": 1},
        {"Status": "New", "Priority": None, "n": 1},
        {"Status": "Working", "Priority": None, "n": 2},
        {"Status": None, "Priority": None, "n": 3},
    ],
    "SELECT IsActive a, GROUPING(IsActive) g, COUNT(Id) n FROM Product2 GROUP BY CUBE(IsActive)": [
        {"a": False, "g": 0, "n": 1},
        {"a": True, "g": 0, "n": 2},
        {"a": None, "g": 1, "n": 3},
    ],
    # Parents that a real org has and this one has no table of: they are null.
    "SELECT LastName FROM User WHERE Profile.Name != null OR UserRole.Name LIKE 'a%'": [],
    "SELECT Profile.Name, COUNT(Id) n FROM User GROUP BY Profile.Name": _one(Name=None, n=len(USERS)),
    "SELECT\n  Name\nFROM\tOpportunity\r\nWHERE Amount=900": _one(Name="small deal"),
}


@in_one_test(("query", "records"), GIVEN.items(), ids=lambda each: str(each)[:70])
def test_select(org: LocalOrg, query: str, records: list[dict[str, Any]]) -> None:
    result = org.run(query)
    assert [plain(record) for record in result.records] == records
    assert [list(record)[1:] for record in result.records] == [list(record) for record in records]
    assert result.total_size == len(records)


def test_envelopes_are_the_rest_apis(org: LocalOrg) -> None:
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
    result = org.run(f"SELECT (SELECT Id FROM CaseHistories__r) FROM Case WHERE Id = '{CASES[1]}'")
    children = result.records[0]["CaseHistories__r"]
    assert (children["totalSize"], children["done"], len(children["records"])) == (3, True, 3)
    assert (result.total_size, result.rows_read) == (1, 4)
    assert org.run("SELECT COUNT(Id) n FROM Case").records == ({"attributes": {"type": "AggregateResult"}, "n": 7},)
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

#: Object, condition, and the numbers of the records that it finds.
FOUND: list[tuple[str, str, list[int]]] = [
    # Text: any case, and beyond ASCII too.
    ("Account", "Name = 'ACME TOOLS'", [1]),
    ("Account", "Name = 'O\\'BRIEN & SÖHNE'", [3]),
    ("Account", "Name != 'acme tools'", [0, 2, 3, 4]),
    ("Account", "Name <= 'NORTHWIND PUMPS'", [0, 1]),
    ("Account", "Name LIKE '%söHNE'", [3]),
    ("Account", "Name LIKE '%100\\%%'", [2]),
    ("Account", "Name LIKE 'Under\\_%'", [4]),
    ("Account", "Name LIKE '_cme tools'", [1]),
    ("Account", "Name = 'Zeta 100\\% Foods'", [2]),
    ("Account", "Name NOT IN ('acme tools', 'Northwind Pumps')", [2, 3, 4]),
    ("Account", "Name IN ('O\\'BRIEN & SÖHNE', 'x')", [3]),
    # No value: != and NOT IN keep it, = finds it as null and as the empty text.
    ("Account", "Industry = null", [3]),
    ("Account", "Industry = ''", [3]),
    ("Account", "Industry != null", [0, 1, 2, 4]),
    ("Account", "Industry != 'Energy'", [1, 2, 3]),
    ("Account", "Industry NOT IN ('Energy', 'Food')", [1, 3]),
    ("Account", "Industry IN ('Food', null)", [2, 3]),
    ("Account", "Industry NOT IN ('Food', null)", [0, 1, 4]),
    ("Account", "NOT Industry = 'Energy' AND ShippingState = 'CA'", [1, 2]),
    ("Account", "NOT NumberOfEmployees > 40", [1, 3, 4]),
    # Numbers, though the tables hold texts.
    ("Account", "NumberOfEmployees NOT IN (7, 40)", [0, 2, 4]),
    ("OrderItem", "Quantity >= 9.0", [1, 4]),
    ("OrderItem", "UnitPrice > -5", [0, 1, 2, 3, 4]),
    ("Opportunity", "Amount > USD5000", [0, 3]),
    # Booleans, which are never null.
    ("Product2", "IsActive = true", [0, 1]),
    ("Lead", "IsConverted = false", [1, 2]),
    # Ids: 15 or 18 characters.
    ("Case", f"Id = '{CASES[0][:15]}'", [0]),
    ("Case", f"Id IN ('{CASES[2][:15]}', '{CASES[3]}')", [2, 3]),
    ("Case", f"Id = '{CASES[0][:15].swapcase()}'", []),
    # Days and moments.
    ("Opportunity", "CloseDate >= 2023-03-15", [0, 1, 3]),
    ("Opportunity", "CloseDate = NEXT_MONTH", [1]),
    ("Opportunity", "CloseDate < THIS_YEAR", [2]),
    ("Opportunity", "CloseDate <= THIS_QUARTER", [0, 2, 3]),
    ("Opportunity", "CloseDate > THIS_QUARTER", [1]),
    ("Opportunity", "CloseDate NOT IN (LAST_YEAR, TODAY)", [0, 1]),
    ("Opportunity", "CloseDate != THIS_MONTH", [1, 2]),
    ("Case", "CreatedDate = 2023-03-01T00:59:00+01:00", [2]),
    ("Case", "CreatedDate > 2023-02-28T23:59:00Z", [3, 5]),
    ("Case", "CreatedDate = LAST_MONTH", [1, 2]),
    ("Case", "CreatedDate = LAST_N_MONTHS:1", [1, 2]),
    ("Case", "CreatedDate >= LAST_N_MONTHS:2", [0, 1, 2, 3, 5]),
    ("Case", "CreatedDate = LAST_N_DAYS:14", [3, 5]),
    ("Case", "CreatedDate = LAST_N_DAYS:15", [2, 3, 5]),
    ("Case", "CreatedDate = LAST_90_DAYS", [0, 1, 2, 3, 4, 5]),
    ("Case", "CreatedDate = LAST_QUARTER", [4]),
    ("Case", "CreatedDate = THIS_FISCAL_QUARTER", [0, 1, 2, 3, 5]),
    ("Case", "CreatedDate = LAST_N_QUARTERS:4", [4, 6]),
    ("Case", "CreatedDate = N_YEARS_AGO:1", [4, 6]),
    ("Case", "CreatedDate = THIS_WEEK", [5]),
    ("Case", "CreatedDate = last_n_weeks:2", [2, 3]),
    ("Task", "ActivityDate = NEXT_N_DAYS:60", [2, 3]),
    ("Task", "ActivityDate = NEXT_N_MONTHS:1", []),
    ("Task", "ActivityDate = NEXT_N_MONTHS:2", [3]),
    ("Task", "ActivityDate = N_DAYS_AGO:1", [1]),
    # Functions of days.
    ("Case", "CALENDAR_QUARTER(CreatedDate) IN (1, 2) AND FISCAL_YEAR(CreatedDate) = 2023", [0, 1, 2, 3, 5]),
    ("Case", "DAY_ONLY(convertTimezone(CreatedDate)) = TODAY", [5]),
    ("Case", "HOUR_IN_DAY(CreatedDate) >= 23", [2, 4]),
    ("Case", "DAY_IN_WEEK(CreatedDate) = 4", [3, 5]),
    ("Case", "DAY_IN_MONTH(CreatedDate) = 31", [4]),
    ("Case", "DAY_IN_YEAR(CreatedDate) = 74", [5, 6]),
    ("Case", "WEEK_IN_MONTH(CreatedDate) = 5", [4]),
    ("Case", "WEEK_IN_YEAR(CreatedDate) = 2", [0]),
    # Logic and brackets.
    ("Case", "Status = 'Closed' AND (Priority = 'High' OR (Priority = 'Low' AND OwnerId != null))", [0, 1, 6]),
    ("Case", "NOT (Status = 'Closed') AND NOT Priority = 'High'", [2, 5]),
    # Parents, several levels up, with names of the object and aliases in front.
    ("Case", "Account.ShippingState != 'CA'", [0, 1, 5]),
    ("Case", "Account.Name = null", [5]),
    ("Case", "OrderItemId__r.Order.Account.ShippingState = 'OR'", [0, 1, 5, 6]),
    ("Task", "What.Name = 'Big deal'", [0, 1]),
    ("Case", "Owner.Type = 'User'", [0, 1, 2, 3, 4, 5, 6]),
    # Semi- and anti-joins.
    ("Account", "Id NOT IN (SELECT AccountId FROM Contact WHERE Email != null)", [2, 3, 4]),
    ("Case", "AccountId IN (SELECT Id FROM Account WHERE ShippingState = 'CA') AND Status = 'Closed'", [4, 6]),
    ("Case", "Id IN (SELECT CaseId__c FROM CaseHistory__c WHERE OldValue__c != null)", [1]),
    ("Account", "Id IN (SELECT AccountId FROM Case) AND Id IN (SELECT AccountId FROM Order)", [0, 1, 2]),
    # What a real org has and the tables lack.
    ("Case", "CaseNumber = null", [0, 1, 2, 3, 4, 5, 6]),
    ("Case", "IsClosed = true", [0, 1, 4, 6]),
    ("User", "Name = 'bo ek'", [1]),
    ("User", "IsActive = true AND IsDeleted = false", [0, 1, 2]),
]


@in_one_test(("sobject", "condition", "numbers"), FOUND, ids=lambda each: str(each)[:60])
def test_where_and_its_count(org: LocalOrg, sobject: str, condition: str, numbers: list[int]) -> None:
    records = org.run(f"SELECT Id FROM {sobject} WHERE {condition}").records
    ids = [row["Id"] for row in ROWS[sobject]]
    assert [ids.index(record["Id"]) for record in records] == numbers
    assert org.run(f"SELECT COUNT() FROM {sobject} WHERE {condition}").total_size == len(numbers)


# What the org refuses, in Salesforce's codes and words, with the place.

_NO_COLUMN = (
    "No such column '{}' on entity '{}'. If you are attempting to use a custom field, be sure to append the '__c' "
    "after the custom field name. Please reference your WSDL or the describe call for the appropriate names."
)
_NO_RELATIONSHIP = (
    "Didn't understand relationship '{}' in field path. If you are attempting to use a custom relationship, be sure to "
    "append the '__r' after the custom relationship name. Please reference your WSDL or the describe call for the "
    "appropriate names."
)
_NO_CHILDREN = (
    "Didn't understand relationship '{}' in FROM part of query call. If you are attempting to use a custom "
    "relationship, be sure to append the '__r' after the custom relationship name. Please reference your WSDL or the "
    "describe call for the appropriate names."
)
_NO_OBJECT = (
    "sObject type '{}' is not supported. If you are attempting to use a custom object, be sure to append the '__c' "
    "after the entity name. Please reference your WSDL or the describe call for the appropriate names."
)
_MUST = "value of filter criterion for field '{}' must be of type {}"
_TEXT, _BARE = "string and should be enclosed in quotes", "{} and should not be enclosed in quotes"
_BIND = "Bind variables only allowed in Apex code"
_PLACE = "The inner and outer selects should not be on the same object type"

#: Error code -> query with a mark before the place that the frame points at -> last line of the message.
REFUSED: dict[str, dict[str, str]] = {
    "INVALID_FIELD": {
        "SELECT Account.^Foo FROM Case": _NO_COLUMN.format("Foo", "Account"),
        "SELECT COUNT(Id) n FROM Case GROUP BY Status ORDER BY ^n": _NO_COLUMN.format("n", "Case"),
        "SELECT Id,\n  ^Foo\nFROM Case": _NO_COLUMN.format("Foo", "Case"),
        "SELECT What.^Amount FROM Task": _NO_COLUMN.format("Amount", "Name"),
        "SELECT ^IssueId__c.Name FROM Case": _NO_RELATIONSHIP.format("IssueId__c"),
        # Types.
        "SELECT Id FROM Case WHERE ^Status = 5": _MUST.format("Status", _TEXT),
        "SELECT Id FROM Case WHERE ^CreatedDate > 2023-01-01": _MUST.format("CreatedDate", _BARE.format("dateTime")),
        "SELECT Id FROM Opportunity WHERE ^CloseDate > 2023-01-01T00:00:00Z": _MUST.format(
            "CloseDate", _BARE.format("date")
        ),
        "SELECT Id FROM Opportunity WHERE ^Amount > '5'": _MUST.format("Amount", _BARE.format("double")),
        "SELECT Id FROM Account WHERE ^NumberOfEmployees = '5'": _MUST.format("NumberOfEmployees", _BARE.format("int")),
        "SELECT Id FROM Product2 WHERE ^IsActive = 'true'": _MUST.format("IsActive", _BARE.format("boolean")),
        # Long texts.
        "SELECT Id FROM Case WHERE ^Description LIKE '%x%'": "field 'Description' can not be filtered in a query call",
        "SELECT Id FROM Case ORDER BY ^Description": "field 'Description' can not be sorted in a query call",
        "SELECT Description FROM Case GROUP BY ^Description": "field 'Description' can not be grouped in a query call",
        "SELECT CreatedDate FROM Case GROUP BY ^CreatedDate": "field 'CreatedDate' can not be grouped in a query call",
        # Groups.
        "SELECT Id, Subject, ^ID FROM Case": "duplicate field selected: Id",
        # Words that cannot stand where they do.
        "SELECT ^DISTINCT Status FROM Case": _NO_COLUMN.format("DISTINCT", "Case"),
    },
    "INVALID_TYPE": {
        "SELECT Id, (SELECT Id FROM ^Foos) FROM Case": _NO_CHILDREN.format("Foos"),
        "SELECT Id FROM ^sqlite_master": _NO_OBJECT.format("sqlite_master"),
    },
    "INVALID_QUERY_FILTER_OPERATOR": {
        "SELECT Id FROM Case WHERE ^Id = 'abc'": "invalid ID field: abc",
        "SELECT Id FROM Case WHERE ^Id LIKE '500%'": "invalid operator on id field",
        "SELECT Id FROM Case WHERE ^Status INCLUDES ('a')": (
            "includes or excludes operator is only valid on multipicklist field"
        ),
        "SELECT Id FROM Opportunity WHERE CloseDate = ^2023-13-01": "Invalid date: 2023-13-01",
    },
    "MALFORMED_QUERY": {
        # Groups.
        "SELECT ^Status, COUNT(Id) FROM Case": "Field must be grouped or aggregated: Status",
        "SELECT Status FROM Case GROUP BY Status ORDER BY ^Priority": (
            "Ordered field must be grouped or aggregated: Priority"
        ),
        "SELECT Status FROM Case GROUP BY Status HAVING ^Priority = 'x'": (
            "Field must be grouped or aggregated: Priority"
        ),
        "SELECT ^COUNT(Status) FROM Case GROUP BY Status": "Grouped field should not be aggregated: Status",
        "SELECT ^SUM(Subject) FROM Case": "field Subject does not support aggregate operator SUM",
        "SELECT MAX(CreatedDate) FROM Case ^LIMIT 1": (
            "Non-grouped query that uses overall aggregate functions cannot also use LIMIT"
        ),
        "SELECT ^Subject s FROM Case": "only aggregate expressions use field aliasing",
        "SELECT Status s, ^Priority s FROM Case GROUP BY Status, Priority": "duplicate alias: s",
        "SELECT Id FROM Case WHERE ^COUNT(Id) > 1": (
            "Aggregate functions are only allowed in HAVING, ORDER BY and SELECT clauses"
        ),
        # Semi-joins.
        "SELECT Id FROM Case WHERE ^Subject IN (SELECT Id FROM Account)": (
            "The selected field 'Id' in the subquery and the left operand field 'Subject' in the where "
            "expression in the "
            "outer query should point to the same object type"
        ),
        "SELECT Id FROM Case WHERE Id IN (^SELECT Id FROM Case)": _PLACE,
        "SELECT Id FROM Account WHERE Id IN (SELECT AccountId FROM Case WHERE OwnerId IN (^SELECT Id FROM User))": (
            "Nesting of semi join sub-selects is not supported"
        ),
        "SELECT Id FROM Account WHERE Name = 'a' OR Id IN (^SELECT AccountId FROM Case)": (
            "Semi join sub-selects are only allowed at the top level WHERE expressions and not in nested WHERE "
            "expressions."
        ),
        # Words that cannot stand where they do.
        "^": "SOQL statements cannot be empty or null",
        "SELECT Id FROM Case WHERE^": "unexpected token: '<EOF>'",
        "SELECT ^* FROM Case": "unexpected token: '*'",
        "^DELETE FROM Case": "unexpected token: 'DELETE'",
        "SELECT Id FROM Case^; DROP TABLE x": "unexpected token: ';'",
        "SELECT Id FROM Case WHERE Status ^IS NULL": "unexpected token: 'IS'",
        "SELECT Id FROM Case WHERE Status = ^:status": _BIND,
        "SELECT Id FROM Case WHERE Status = 'a' AND Priority = 'b' ^OR OwnerId = null": "unexpected token: 'OR'",
        "SELECT Id FROM Case ^/* all */ LIMIT 1": "unexpected token: '/'",
        "SELECT ^FIELDS(ALL) FROM Case": "The SOQL FIELDS function must have a LIMIT of at most 200",
        "SELECT Id, (^SELECT Id FROM Cases LIMIT 5 OFFSET 1) FROM Account LIMIT 2": (
            "OFFSET in a subquery needs LIMIT 1 in the query that it is in"
        ),
        "SELECT ^convertTimezone(CreatedDate) FROM Case": "convertTimezone can only be used inside a date function",
        "SELECT Id FROM Account WHERE Id IN (SELECT ^Contact.AccountId FROM Case)": (
            "The selected field 'Contact.AccountId' in the subquery must not traverse relationships"
        ),
        "SELECT Id, (^SELECT COUNT(Id) FROM Cases) FROM Account": "Only root queries support aggregate expressions",
        "SELECT Id FROM Case c, ^Account a": (
            "A driving SObject type has already been set, all other entity types in the FROM clause must be "
            "relationships "
            "to the initial object.  The driving object is Case"
        ),
        "SELECT TYPEOF ^Account WHEN Account THEN Name END FROM Case": (
            "TYPEOF is only supported for polymorphic relationships: Account"
        ),
        # Signs that no word begins with, and texts without end.
        'SELECT Id FROM Case WHERE Status =^ "New"': "line 1:35 no viable alternative at character '\"'",
        "SELECT Id FROM Case WHERE CreatedDate > 2022-01-01T00:00:0^0 AND Status = 'New'": (
            "line 1:59 no viable alternative at character ' '"
        ),
        "SELECT Id FROM Case WHERE Status = 'Ne^w": "line 1:39 mismatched character '<EOF>' expecting '''",
        "SELECT Id FROM Case WHERE Status = '^\\q'": "line 1:36 Illegal character sequence '\\q' in string literal",
    },
    "NUMBER_OUTSIDE_VALID_RANGE": {"SELECT Id FROM Case OFFSET ^2001": "Maximum SOQL offset allowed is 2000"},
}


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
        assert message[0] == ""
        assert message[-2] == f"ERROR at Row:{row}:Column:{column}"
        caret = message[2].index("^")
        assert query.split("\n")[row - 1][column - 1 :].startswith(message[1][caret : caret + 3])


def test_the_frame_shows_a_window_of_the_line(org: LocalOrg) -> None:
    with pytest.raises(OrgError) as caught:
        org.run("SELECT Id, Foo FROM Case")
    expected = "INVALID_FIELD: \nSELECT Id, Foo FROM Case\n           ^\nERROR at Row:1:Column:12\nNo such column 'Foo'"
    assert str(caught.value).startswith(expected)
    query = "SELECT Id, Subject, Status, Priority, OwnerId, AccountId, ContactId, Foo, CreatedDate, ClosedDate, "
    query += "IssueId__c, OrderItemId__c FROM Case"
    with pytest.raises(OrgError) as caught:
        org.run(query)
    _, excerpt, caret, place, _ = caught.value.message.split("\n")
    assert place == f"ERROR at Row:1:Column:{query.index('Foo') + 1}"
    assert excerpt[caret.index("^") :].startswith("Foo, CreatedDate")
    assert 40 < len(excerpt) < 90


@pytest.mark.slow
def test_length_and_nesting_have_limits_and_lists_have_none(org: LocalOrg) -> None:
    with pytest.raises(OrgError, match="cannot be longer than"):
        org.run("SELECT Id FROM Case WHERE Status = '" + "x" * 100_000 + "'")
    for deep in ("(" * 5_000, "NOT " * 5_000):
        with pytest.raises(OrgError, match="too deeply nested"):
            org.run(f"SELECT Id FROM Case WHERE {deep}Status = 'x'")
    calls = "convertCurrency(" * 5_000
    with pytest.raises(OrgError, match="too deeply nested"):
        org.run(f"SELECT {calls}Amount FROM Opportunity")
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
