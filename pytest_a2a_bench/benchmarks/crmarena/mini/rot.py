"""Distractor rows: an org that has grown old, with rows that look like the others and leave every answer as it is.

Three things keep them out of every answer. They are dated at least :data:`YEARS_BEFORE` years before the first row of
the org, so no period that a task names reaches them. They hang together among themselves: nothing that a task names by
its id has one of them as a child. And where an answer counts rows without a date, they do not qualify: cases are
closed, without issue and order item; leads are converted; quotes are not accepted; products are not active; no user
joins a territory. Issues, territories, users and price books are never added.

Nobody can promise this for articles about which a reader has to judge, as in the published tasks: there the added
articles are about the canteen and the car park, which no question is about.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.mini import words
from pytest_a2a_bench.benchmarks.crmarena.mini.dice import Dice
from pytest_a2a_bench.benchmarks.crmarena.mini.ids import KEY_PREFIXES, record_id
from pytest_a2a_bench.benchmarks.crmarena.mini.tables import Row, written

YEARS_BEFORE = 5
_SPAN_DAYS = 10 * 365
_FALLBACK = date(2020, 1, 1)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

B2B_SIZES: tuple[tuple[str, int], ...] = (
    ("Account", 101),
    ("Contact", 886),
    ("Lead", 1465),
    ("Opportunity", 1170),
    ("OpportunityLineItem", 4926),
    ("Case", 153),
    ("CaseHistory__c", 393),
    ("Quote", 704),
    ("QuoteLineItem", 2966),
    ("Contract", 163),
    ("EmailMessage", 5686),
    ("LiveChatTranscript", 58),
    ("VoiceCallTranscript__c", 4033),
    ("Order", 163),
    ("OrderItem", 689),
    ("Product2", 51),
    ("PricebookEntry", 50),
    ("Knowledge__kav", 194),
    ("Task", 4783),
    ("Event", 54),
)
"""Rows by object of upstream's b2b org, as far as rows are added: what measuring at its size takes."""


@dataclass(slots=True)
class _Soil:
    """The org that rots: the columns and the number of rows of each object, its users and its first day."""

    columns: Mapping[str, Sequence[str]]
    counts: Counter[str]
    users: Sequence[str]
    first: date
    made: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, name: str, values: Mapping[str, Any]) -> None:
        """Add a row, with the columns that the org's table has."""
        key = record_id(KEY_PREFIXES[name], self.counts[name], marker="Rt")
        self.counts[name] += 1
        known = {"Id": key} | {column: written(value) for column, value in values.items()}
        self.made.setdefault(name, []).append({column: known.get(column) for column in self.columns[name]})

    def one(self, dice: Dice, name: str) -> str | None:
        """Return the id of one of the added rows, None if there is none yet."""
        rows = self.made.get(name)
        return str(dice.pick(rows)["Id"]) if rows else None

    def owner(self, dice: Dice) -> str | None:
        """Return one of the org's users."""
        return dice.pick(self.users) if self.users else None

    def moment(self, dice: Dice) -> datetime:
        """Return a working hour long before the org's first day."""
        last = datetime(self.first.year - YEARS_BEFORE, 1, 1, 8)
        return last - timedelta(days=1 + dice.below(_SPAN_DAYS), minutes=-dice.below(480))


def rot(rows: Mapping[str, Sequence[Mapping[str, Any]]], n: int, seed: int) -> dict[str, list[Row]]:
    """Return ``n`` distractor rows for an org, by object; the same arguments give the same rows.

    :param rows: the org's rows, or those of a part of it; only objects that it has get more.
    """
    soil = _soil_of_rows(rows)
    _spread(soil, n, Dice(seed, "rot"))
    return soil.made


def add_rot(connection: sqlite3.Connection, n: int, seed: int) -> int:
    """Put ``n`` distractor rows into an org that is a SQLite database, and return how many were added.

    :param connection: a writable copy: the official files are never changed.
    """
    soil = _soil_of_tables(connection)
    _spread(soil, n, Dice(seed, "rot"))
    with connection:
        for name, rows in soil.made.items():
            columns = soil.columns[name]
            named = ", ".join(f'"{column}"' for column in columns)
            marks = ", ".join("?" for _ in columns)
            values = ([row[column] for column in columns] for row in rows)
            connection.executemany(f'INSERT INTO "{name}" ({named}) VALUES ({marks})', values)
    return sum(map(len, soil.made.values()))


def pad(rows: Mapping[str, Sequence[Row]], sizes: Mapping[str, int], seed: int) -> dict[str, list[Row]]:
    """Return the rows with so many distractors that every object named has the size that is asked for, or more."""
    soil = _soil_of_rows(rows)
    dice = Dice(seed, "pad")
    for name, make in _MAKERS.items():
        for _ in range(sizes.get(name, 0) - len(rows.get(name, ()))):
            soil.add(name, make(soil, dice))
    return {name: [*made, *soil.made.get(name, [])] for name, made in rows.items()}


def _spread(soil: _Soil, n: int, dice: Dice) -> None:
    names = [name for name in _MAKERS if name in soil.columns]
    for number in range(n if names else 0):
        name = names[number % len(names)]
        soil.add(name, _MAKERS[name](soil, dice))


def _soil_of_rows(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> _Soil:
    return _Soil(
        columns={name: tuple(all_[0]) for name, all_ in rows.items() if all_},
        counts=Counter({name: len(all_) for name, all_ in rows.items()}),
        users=[str(row["Id"]) for row in rows.get("User", ())],
        first=_first_day(value for all_ in rows.values() for row in all_ for value in row.values()),
    )


def _soil_of_tables(connection: sqlite3.Connection) -> _Soil:
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    known = [name for name in names if name in KEY_PREFIXES]
    columns = {name: [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')] for name in known}
    dated = [
        connection.execute(f'SELECT MIN("{column}") FROM "{name}"').fetchone()[0]
        for name in known
        for column in columns[name]
        if "Date" in column or "Time" in column or column in ("ValidFrom", "ValidTo")
    ]
    return _Soil(
        columns=columns,
        counts=Counter({name: connection.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0] for name in known}),
        users=[row[0] for row in connection.execute('SELECT "Id" FROM "User" ORDER BY "Id"')]
        if "User" in known
        else [],
        first=_first_day(dated),
    )


def _first_day(values: Iterable[object]) -> date:
    """Return the earliest date among values of any kind."""
    days = [value[:10] for value in values if isinstance(value, str) and _DATE.match(value)]
    return date.fromisoformat(min(days)) if days else _FALLBACK


def _account(_: _Soil, dice: Dice) -> Row:
    name = f"Old {dice.pick(words.FIRM_HEADS)} {dice.pick(words.FIRM_TAILS)} {dice.between(100, 9999)}"
    return {
        "Name": name,
        "Industry": dice.pick(words.INDUSTRIES),
        "ShippingState": dice.pick(words.ACCOUNT_STATES),
        "NumberOfEmployees": dice.between(3, 900),
        "Phone": f"555-{dice.between(1000, 9999)}",
        "Description": f"{name} has not bought anything for years.",
    }


def _contact(soil: _Soil, dice: Dice) -> Row:
    first, last = dice.pick(words.FIRST_NAMES), f"Former-{dice.pick(words.LAST_NAMES)}"
    return {
        "AccountId": soil.one(dice, "Account"),
        "FirstName": first,
        "LastName": last,
        "Email": f"{first}.{last}{dice.between(1, 9999)}@old.example".lower(),
    }


def _product(_: _Soil, dice: Dice) -> Row:
    number = dice.between(1000, 9999)
    return {
        "Name": f"Discontinued label printer {number}",
        "Description": "No longer made and not replaced.",
        "External_ID__c": f"OLD-{number}",
        "IsActive": False,
    }


def _entry(soil: _Soil, dice: Dice) -> Row:
    return {"Product2Id": soil.one(dice, "Product2"), "Pricebook2Id": None, "UnitPrice": dice.between(5, 50) * 10}


def _lead(soil: _Soil, dice: Dice) -> Row:
    at = soil.moment(dice)
    return {
        "FirstName": dice.pick(words.FIRST_NAMES),
        "LastName": dice.pick(words.LAST_NAMES),
        "Company": f"Old {dice.pick(words.FIRM_HEADS)}",
        "Title": "Buyer",
        "Email": f"lead{dice.between(1, 99999)}@old.example",
        "Phone": f"555-{dice.between(1000, 9999)}",
        "OwnerId": soil.owner(dice),
        "CreatedDate": at,
        "IsConverted": True,
        "ConvertedDate": at.date() + timedelta(days=20),
        "ConvertedAccountId": soil.one(dice, "Account"),
        "ConvertedContactId": soil.one(dice, "Contact"),
        "Status": "Qualified",
    }


def _contract(soil: _Soil, dice: Dice) -> Row:
    day = soil.moment(dice).date()
    return {
        "AccountId": soil.one(dice, "Account"),
        "CompanySignedDate": day,
        "CustomerSignedDate": day,
        "StartDate": day,
        "ContractTerm": 12,
        "Status": "Expired",
        "Description": "Ended",
    }


def _opportunity(soil: _Soil, dice: Dice) -> Row:
    at = soil.moment(dice)
    return {
        "AccountId": soil.one(dice, "Account"),
        "ContactId": soil.one(dice, "Contact"),
        "ContractID__c": soil.one(dice, "Contract"),
        "OwnerId": soil.owner(dice),
        "Name": f"Old plan {dice.between(1000, 99999)}",
        "CreatedDate": at,
        "CloseDate": at.date() + timedelta(days=90),
        "StageName": "Closed",
        "Probability": 0,
        "Amount": dice.between(1, 90) * 100,
        "Description": "Came to nothing.",
    }


def _opportunity_line(soil: _Soil, dice: Dice) -> Row:
    quantity = dice.between(1, 9)
    return {"OpportunityId": soil.one(dice, "Opportunity"), "TotalPrice": quantity * 100} | _goods(soil, dice, quantity)


def _goods(soil: _Soil, dice: Dice, quantity: int) -> Row:
    return {"Product2Id": soil.one(dice, "Product2"), "PricebookEntryId": None, "Quantity": quantity}


def _quote(soil: _Soil, dice: Dice) -> Row:
    at = soil.moment(dice)
    return {
        "OpportunityId": soil.one(dice, "Opportunity"),
        "AccountId": soil.one(dice, "Account"),
        "ContactId": soil.one(dice, "Contact"),
        "Name": f"Old quote {dice.between(1000, 99999)}",
        "Status": "Rejected",
        "CreatedDate": at,
        "ExpirationDate": at + timedelta(days=30),
        "Description": "Not taken up",
    }


def _quote_line(soil: _Soil, dice: Dice) -> Row:
    quantity = dice.between(1, 9)
    price = {"UnitPrice": 100, "Discount": 0, "TotalPrice": quantity * 100}
    return {"QuoteId": soil.one(dice, "Quote")} | _goods(soil, dice, quantity) | price


def _order(soil: _Soil, dice: Dice) -> Row:
    return {
        "AccountId": soil.one(dice, "Account"),
        "OwnerId": soil.owner(dice),
        "EffectiveDate": soil.moment(dice).date(),
        "Status": "Activated",
    }


def _order_item(soil: _Soil, dice: Dice) -> Row:
    return {"OrderId": soil.one(dice, "Order"), "UnitPrice": 100} | _goods(soil, dice, dice.between(1, 9))


def _case(soil: _Soil, dice: Dice) -> Row:
    at = soil.moment(dice)
    return {
        "AccountId": soil.one(dice, "Account"),
        "ContactId": soil.one(dice, "Contact"),
        "OwnerId": soil.owner(dice),
        "CreatedDate": at,
        "ClosedDate": at + timedelta(hours=dice.between(3, 90)),
        "Status": "Closed",
        "Priority": "Low",
        "Subject": "Old matter",
        "Description": "Settled long ago.",
    }


def _history(soil: _Soil, dice: Dice) -> Row:
    return {
        "CaseId__c": soil.one(dice, "Case"),
        "CreatedDate": soil.moment(dice),
        "Field__c": "Owner Assignment",
        "OldValue__c": soil.owner(dice),
        "NewValue__c": soil.owner(dice),
    }


def _mail(soil: _Soil, dice: Dice) -> Row:
    case = soil.one(dice, "Case")
    return {
        "ParentId": case,
        "RelatedToId": case,
        "FromAddress": f"former{dice.between(1, 999)}@old.example",
        "Subject": "Re: old matter",
        "TextBody": "Thank you, this is settled.",
        "MessageDate": soil.moment(dice),
    }


def _chat(soil: _Soil, dice: Dice) -> Row:
    return {
        "CaseId": soil.one(dice, "Case"),
        "AccountId": soil.one(dice, "Account"),
        "ContactId": soil.one(dice, "Contact"),
        "OwnerId": soil.owner(dice),
        "EndTime": soil.moment(dice),
        "Body": "Customer: Is anybody there?\nAgent: Yes, good morning.",
    }


def _call(soil: _Soil, dice: Dice) -> Row:
    at = soil.moment(dice)
    return {
        "LeadId__c": soil.one(dice, "Lead"),
        "OpportunityId__c": soil.one(dice, "Opportunity"),
        "Body__c": "Agent: Hello?\nCustomer: You have the wrong number.",
        "CreatedDate": at,
        "EndTime__c": at + timedelta(minutes=2),
    }


def _article(_: _Soil, dice: Dice) -> Row:
    number = dice.between(1000, 99999)
    return {
        "Title": f"Canteen and car park, notice {number}",
        "FAQ_Answer__c": dice.pick(("The canteen opens at noon.", "The car park is swept on Fridays.")),
        "Summary": "For visitors of the old building",
        "UrlName": f"notice-{number}",
    }


def _task(soil: _Soil, dice: Dice) -> Row:
    return {
        "WhatId": soil.one(dice, "Opportunity"),
        "OwnerId": soil.owner(dice),
        "Subject": f"Old errand {dice.between(1000, 99999)}",
        "Status": dice.pick(("Not Started", "Completed", "Deferred")),
        "Priority": "Low",
        "ActivityDate": soil.moment(dice).date(),
        "Description": "Nobody remembers.",
    }


def _event(soil: _Soil, dice: Dice) -> Row:
    return {
        "WhatId": soil.one(dice, "Opportunity"),
        "OwnerId": soil.owner(dice),
        "Subject": "Old meeting",
        "Location": "Old building",
        "StartDateTime": soil.moment(dice),
        "DurationInMinutes": 30,
        "IsAllDayEvent": False,
    }


# Parents stand before their children, so that even a few rows hang together.
_MAKERS: dict[str, Callable[[_Soil, Dice], Row]] = {
    "Account": _account,
    "Contact": _contact,
    "Product2": _product,
    "PricebookEntry": _entry,
    "Lead": _lead,
    "Contract": _contract,
    "Opportunity": _opportunity,
    "OpportunityLineItem": _opportunity_line,
    "Quote": _quote,
    "QuoteLineItem": _quote_line,
    "Order": _order,
    "OrderItem": _order_item,
    "Case": _case,
    "CaseHistory__c": _history,
    "EmailMessage": _mail,
    "LiveChatTranscript": _chat,
    "VoiceCallTranscript__c": _call,
    "Knowledge__kav": _article,
    "Task": _task,
    "Event": _event,
}
