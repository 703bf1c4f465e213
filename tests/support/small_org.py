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


def moment(text: str) -> str:
    return text.replace(" ", "T") + ":00.000+0000"


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


def _user(n: int, first: str, last: str) -> Record:
    return {
        "Id": USERS[n],
        "FirstName": first,
        "LastName": last,
        "Alias": first[:1] + last[:3],
        "Email": f"{first}.{last}@support.example".lower(),
    }


def _account(n: int, name: str, state: str | None, people: str | None, industry: str | None) -> Record:
    return {
        "Id": ACCOUNTS[n],
        "Name": name,
        "ShippingState": state,
        "NumberOfEmployees": people,
        "Industry": industry,
        "Description": f"About {name}.",
        "Phone": f"555-010{n}",
    }


def _case(n: int, account: int | None, owner: int, status: str, priority: str, times: tuple[str, str | None]) -> Record:
    created, closed = times
    return {
        "Id": CASES[n],
        "AccountId": None if account is None else ACCOUNTS[account],
        "ContactId": CONTACTS[n] if n < 4 else None,
        "OwnerId": USERS[owner],
        "Status": status,
        "Priority": priority,
        "Subject": f"Case {n} about the pump",
        "Description": "It is broken.",
        "CreatedDate": moment(created),
        "ClosedDate": closed and moment(closed),
        "IssueId__c": ISSUES[n % 2],
        "OrderItemId__c": ITEMS[n % 5],
    }


def _deal(n: int, name: str, account: int, amount: str | None, stage: str, close: str) -> Record:
    return {
        "Id": DEALS[n],
        "Name": name,
        "AccountId": ACCOUNTS[account],
        "Amount": amount,
        "StageName": stage,
        "CloseDate": close,
        "Probability": str(25 * n),
        "OwnerId": USERS[n % 3],
        "CreatedDate": moment(f"2022-0{n + 1}-01 09:30"),
    }


def _task(n: int, what: str | None, status: str, due: str) -> Record:
    return {
        "Id": TASKS[n],
        "WhatId": what,
        "Status": status,
        "ActivityDate": due,
        "Subject": f"Call {n}",
        "Priority": "High" if n == 0 else "Low",
        "OwnerId": USERS[n % 2],
    }


ROWS: dict[str, list[Record]] = {
    "User": [_user(0, "Ada", "Lund"), _user(1, "Bo", "Ek"), _user(2, "Cleo", "Árnason")],
    "Account": [
        _account(0, "Northwind Pumps", "OR", "950", "Energy"),
        _account(1, "acme tools", "CA", "40", "Machinery"),
        _account(2, "Zeta 100% Foods", "CA", "1200.0", "Food"),
        _account(3, "O'Brien & Söhne", "NY", "7", None),
        _account(4, "Under_score Ltd", None, None, "Energy"),
    ],
    "Contact": [
        {"Id": CONTACTS[n], "FirstName": first, "LastName": last, "AccountId": ACCOUNTS[account], "Email": email}
        for n, (first, last, account, email) in enumerate(
            [
                ("Mia", "Moss", 0, "mia@northwind.example"),
                ("Ned", "North", 0, "ned@northwind.example"),
                ("Ola", "Oak", 1, "ola@acme.example"),
                ("Pia", "Moss", 2, None),
            ]
        )
    ],
    "Case": [
        _case(0, 0, 0, "Closed", "High", ("2023-01-10 08:00", "2023-01-10 09:30")),
        _case(1, 0, 1, "Closed", "Low", ("2023-02-05 10:00", "2023-02-07 10:00")),
        _case(2, 1, 0, "Working", "Medium", ("2023-02-28 23:59", None)),
        _case(3, 2, 2, "New", "High", ("2023-03-01 00:00", None)),
        _case(4, 2, 0, "Closed", "Medium", ("2022-12-31 23:59", "2023-01-01 00:00")),
        _case(5, None, 1, "Working", "Low", ("2023-03-15 12:00", None)),
        _case(6, 1, 0, "closed", "High", ("2022-03-15 06:45", "2022-06-01 06:45")),
    ],
    "Issue__c": [
        {"Id": ISSUES[0], "Name": "Leak", "Description__c": "Water where it should not be."},
        {"Id": ISSUES[1], "Name": "Noise", "Description__c": "Louder than a pump should be."},
    ],
    "CaseHistory__c": [
        {
            "Id": make_id("a04", n),
            "CaseId__c": CASES[case],
            "Field__c": field,
            "OldValue__c": None if old is None else USERS[old],
            "NewValue__c": None if new is None else USERS[new],
            "CreatedDate": moment(when),
        }
        for n, (case, field, old, new, when) in enumerate(
            [
                (0, "Case Creation", None, None, "2023-01-10 08:00"),
                (0, "Owner Assignment", None, 0, "2023-01-10 08:00"),
                (1, "Owner Assignment", None, 0, "2023-02-05 10:00"),
                (1, "Owner Assignment", 0, 1, "2023-02-06 10:00"),
                (1, "Case Closed", None, None, "2023-02-07 10:00"),
            ],
            start=1,
        )
    ],
    "Product2": [
        {"Id": PRODUCTS[n], "Name": name, "IsActive": active, "External_ID__c": f"P-{n}", "Description": text}
        for n, (name, active, text) in enumerate(
            [("Pump One", 1, "A small pump"), ("Pump Two", "true", "A big pump"), ("Valve", 0, "Opens and closes")]
        )
    ],
    "Order": [
        {"Id": ORDERS[n], "AccountId": ACCOUNTS[n], "EffectiveDate": day, "Status": status, "OwnerId": USERS[n]}
        for n, (day, status) in enumerate(
            [("2022-11-01", "Activated"), ("2023-01-31", "Draft"), ("2023-03-15", "Activated")]
        )
    ],
    "OrderItem": [
        {
            "Id": ITEMS[n],
            "OrderId": ORDERS[order],
            "Product2Id": PRODUCTS[product],
            "Quantity": pieces,
            "UnitPrice": price,
        }
        for n, (order, product, pieces, price) in enumerate(
            [
                (0, 0, "2.0", "99.5"),
                (0, 1, "10.0", "20"),
                (1, 0, "1.0", "100"),
                (2, 2, "3.0", "7.25"),
                (2, 0, "9.0", "95"),
            ]
        )
    ],
    "Opportunity": [
        _deal(0, "Big deal", 0, "10000.5", "Negotiation", "2023-03-31"),
        _deal(1, "small deal", 1, "900", "Discovery", "2023-04-01"),
        _deal(2, "Third", 1, None, "Closed", "2022-12-31"),
        _deal(3, "Fourth", 2, "10000.5", "Quote", "2023-03-15"),
    ],
    "Task": [
        _task(0, DEALS[0], "Not Started", "2023-03-15"),
        _task(1, DEALS[0], "Completed", "2023-03-14"),
        _task(2, ACCOUNTS[1], "Not Started", "2023-03-16"),
        _task(3, None, "In Progress", "2023-05-01"),
    ],
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
    "Lead": [
        {
            "Id": LEADS[n],
            "FirstName": first,
            "LastName": "Quill",
            "Company": "Inkworks",
            "IsConverted": converted,
            "ConvertedDate": day,
            "CreatedDate": moment("2023-01-05 08:00"),
            "OwnerId": USERS[n],
            "Phone": phone,
            "Email": f"{first}@inkworks.example".lower(),
        }
        for n, (first, converted, day, phone) in enumerate(
            [("Quin", 1, "2023-02-01", "555-0199"), ("Rae", 0, None, None), ("Sol", None, None, "555-0142")]
        )
    ],
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
