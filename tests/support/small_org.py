"""A hand-made org for the tests of the query engine: few records, each there for a reason."""

from datetime import date
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.org import checksum, standard_schema
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg

#: A Wednesday in the first quarter.
TODAY = date(2023, 3, 15)
Record = dict[str, Any]


def make_id(prefix: str, number: int) -> str:
    """Return an id of 18 characters; odd numbers have capitals, so that the checksum matters."""
    stem = f"{prefix}Wt000000{'AbC' if number % 2 else 'xyz'}{number}"
    stem = stem[:15].ljust(15, "0")
    return stem + checksum(stem)


def table(ids: list[str], members: str, *rows: tuple[Any, ...]) -> list[Record]:
    """Return a record for each row: its id, and the members in the row's order, times as Salesforce writes them."""
    records = [dict(zip(["Id", *members.split()], (id, *row), strict=True)) for id, row in zip(ids, rows, strict=True)]
    for record in records:
        for name in {"CreatedDate", "ClosedDate"} & set(record):
            record[name] = record[name] and record[name].replace(" ", "T") + ":00.000+0000"
    return records


USERS = [make_id("005", n) for n in range(1, 4)]
ACCOUNTS = [make_id("001", n) for n in range(1, 6)]
CONTACTS = [make_id("003", n) for n in range(1, 5)]
CASES = [make_id("500", n) for n in range(1, 8)]
ISSUES = [make_id("a03", n) for n in range(1, 3)]
PRODUCTS = [make_id("01t", n) for n in range(1, 4)]
ORDERS = [make_id("801", n) for n in range(1, 4)]
ITEMS = [make_id("802", n) for n in range(1, 6)]
DEALS = [make_id("006", n) for n in range(1, 5)]
TASKS = [make_id("00T", n) for n in range(1, 5)]
ARTICLES = [make_id("ka0", n) for n in range(1, 5)]
LEADS = [make_id("00Q", n) for n in range(1, 4)]


INK, CREATED = ("Quill", "Inkworks"), "2023-01-05 08:00"
LEAD = "FirstName LastName Company IsConverted ConvertedDate CreatedDate OwnerId Phone Email"
ROWS: dict[str, list[Record]] = {
    "User": table(
        USERS,
        "FirstName LastName Alias Email",
        ("Ada", "Lund", "ALun", "ada.lund@support.example"),
        ("Bo", "Ek", "BEk", "bo.ek@support.example"),
        ("Cleo", "Árnason", "CÁrn", "cleo.árnason@support.example"),
    ),
    "Account": table(
        ACCOUNTS,
        "Name ShippingState NumberOfEmployees Industry Description Phone",
        ("Northwind Pumps", "OR", "950", "Energy", "About Northwind Pumps.", "555-0100"),
        ("acme tools", "CA", "40", "Machinery", "About acme tools.", "555-0101"),
        ("Zeta 100% Foods", "CA", "1200.0", "Food", "About Zeta 100% Foods.", "555-0102"),
        ("O'Brien & Söhne", "NY", "7", None, "About O'Brien & Söhne.", "555-0103"),
        ("Under_score Ltd", None, None, "Energy", "About Under_score Ltd.", "555-0104"),
    ),
    "Contact": table(
        CONTACTS,
        "FirstName LastName AccountId Email",
        ("Mia", "Moss", ACCOUNTS[0], "mia@northwind.example"),
        ("Ned", "North", ACCOUNTS[0], "ned@northwind.example"),
        ("Ola", "Oak", ACCOUNTS[1], "ola@acme.example"),
        ("Pia", "Moss", ACCOUNTS[2], None),
    ),
    "Case": [
        {**row, "Subject": f"Case {n} about the pump", "Description": "It is broken.", "IssueId__c": ISSUES[n % 2]}
        for n, row in enumerate(
            table(
                CASES,
                "AccountId ContactId OwnerId Status Priority CreatedDate ClosedDate OrderItemId__c",
                (
                    ACCOUNTS[0],
                    CONTACTS[0],
                    USERS[0],
                    "Closed",
                    "High",
                    "2023-01-10 08:00",
                    "2023-01-10 09:30",
                    ITEMS[0],
                ),
                (ACCOUNTS[0], CONTACTS[1], USERS[1], "Closed", "Low", "2023-02-05 10:00", "2023-02-07 10:00", ITEMS[1]),
                (ACCOUNTS[1], CONTACTS[2], USERS[0], "Working", "Medium", "2023-02-28 23:59", None, ITEMS[2]),
                (ACCOUNTS[2], CONTACTS[3], USERS[2], "New", "High", "2023-03-01 00:00", None, ITEMS[3]),
                (ACCOUNTS[2], None, USERS[0], "Closed", "Medium", "2022-12-31 23:59", "2023-01-01 00:00", ITEMS[4]),
                (None, None, USERS[1], "Working", "Low", "2023-03-15 12:00", None, ITEMS[0]),
                (ACCOUNTS[1], None, USERS[0], "closed", "High", "2022-03-15 06:45", "2022-06-01 06:45", ITEMS[1]),
            )
        )
    ],
    "Issue__c": table(
        ISSUES,
        "Name Description__c",
        ("Leak", "Water where it should not be."),
        ("Noise", "Louder than a pump should be."),
    ),
    "CaseHistory__c": table(
        [make_id("a04", n) for n in range(1, 6)],
        "CaseId__c Field__c OldValue__c NewValue__c CreatedDate",
        (CASES[0], "Case Creation", None, None, "2023-01-10 08:00"),
        (CASES[0], "Owner Assignment", None, USERS[0], "2023-01-10 08:00"),
        (CASES[1], "Owner Assignment", None, USERS[0], "2023-02-05 10:00"),
        (CASES[1], "Owner Assignment", USERS[0], USERS[1], "2023-02-06 10:00"),
        (CASES[1], "Case Closed", None, None, "2023-02-07 10:00"),
    ),
    "Product2": table(
        PRODUCTS,
        "Name IsActive External_ID__c Description",
        ("Pump One", 1, "P-0", "A small pump"),
        ("Pump Two", "true", "P-1", "A big pump"),
        ("Valve", 0, "P-2", "Opens and closes"),
    ),
    "Order": table(
        ORDERS,
        "AccountId EffectiveDate Status OwnerId",
        (ACCOUNTS[0], "2022-11-01", "Activated", USERS[0]),
        (ACCOUNTS[1], "2023-01-31", "Draft", USERS[1]),
        (ACCOUNTS[2], "2023-03-15", "Activated", USERS[2]),
    ),
    "OrderItem": table(
        ITEMS,
        "OrderId Product2Id Quantity UnitPrice",
        (ORDERS[0], PRODUCTS[0], "2.0", "99.5"),
        (ORDERS[0], PRODUCTS[1], "10.0", "20"),
        (ORDERS[1], PRODUCTS[0], "1.0", "100"),
        (ORDERS[2], PRODUCTS[2], "3.0", "7.25"),
        (ORDERS[2], PRODUCTS[0], "9.0", "95"),
    ),
    "Opportunity": table(
        DEALS,
        "Name AccountId Amount StageName CloseDate Probability OwnerId CreatedDate",
        ("Big deal", ACCOUNTS[0], "10000.5", "Negotiation", "2023-03-31", "0", USERS[0], "2022-01-01 09:30"),
        ("small deal", ACCOUNTS[1], "900", "Discovery", "2023-04-01", "25", USERS[1], "2022-02-01 09:30"),
        ("Third", ACCOUNTS[1], None, "Closed", "2022-12-31", "50", USERS[2], "2022-03-01 09:30"),
        ("Fourth", ACCOUNTS[2], "10000.5", "Quote", "2023-03-15", "75", USERS[0], "2022-04-01 09:30"),
    ),
    "Task": table(
        TASKS,
        "WhatId Status ActivityDate Subject Priority OwnerId",
        (DEALS[0], "Not Started", "2023-03-15", "Call 0", "High", USERS[0]),
        (DEALS[0], "Completed", "2023-03-14", "Call 1", "Low", USERS[1]),
        (ACCOUNTS[1], "Not Started", "2023-03-16", "Call 2", "Low", USERS[0]),
        (None, "In Progress", "2023-05-01", "Call 3", "Low", USERS[1]),
    ),
    "Knowledge__kav": [
        {"Id": ARTICLES[n], "Title": title, "FAQ_Answer__c": text, "Summary": title, "UrlName": f"article-{n}"}
        for n, (title, text) in enumerate(
            [
                ("Returns policy", "Goods may be returned within 30 days, with the receipt."),
                ("Warranty", "The warranty covers pumps for two years. No returns after that."),
                ("Pump maintenance", "Clean the filter: use AT&T's C++ guide (v1.2)."),
                ("Discount rules", "Volume discounts begin at 10 pieces."),
            ]
        )
    ],
    "Lead": table(
        LEADS,
        LEAD,
        ("Quin", *INK, 1, "2023-02-01", CREATED, USERS[0], "555-0199", "quin@inkworks.example"),
        ("Rae", *INK, 0, None, CREATED, USERS[1], None, "rae@inkworks.example"),
        ("Sol", *INK, None, None, CREATED, USERS[2], "555-0142", "sol@inkworks.example"),
    ),
}


def open_small_org(**options: Any) -> LocalOrg:
    return LocalOrg.from_rows(ROWS, standard_schema(), **({"name": "small", "today": TODAY} | options))


def plain(record: Any) -> Any:
    """Return a record without ``attributes``, parents and children included."""
    if isinstance(record, dict):
        if "records" in record:
            return [plain(each) for each in record["records"]]
        return {key: plain(value) for key, value in record.items() if key != "attributes"}
    return record
