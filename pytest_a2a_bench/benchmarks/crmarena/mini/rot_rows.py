"""What distractor rows are made of, and where they are put; :mod:`.rot` says why they change no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.mini import words
from pytest_a2a_bench.benchmarks.crmarena.mini.dice import Dice
from pytest_a2a_bench.benchmarks.crmarena.mini.ids import KEY_PREFIXES, record_id
from pytest_a2a_bench.benchmarks.crmarena.mini.tables import Row, written

YEARS_BEFORE = 5
_SPAN_DAYS = 10 * 365
_EARLIEST = 1950
"""What claims to be older than this is a slip of the pen, not the org's first day."""


@dataclass(slots=True)
class Soil:
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
        last = datetime(max(self.first.year, _EARLIEST) - YEARS_BEFORE, 1, 1, 8)
        return last - timedelta(days=1 + dice.below(_SPAN_DAYS), minutes=-dice.below(480))


def _account(_: Soil, dice: Dice) -> Row:
    name = f"Old {dice.pick(words.FIRM_HEADS)} {dice.pick(words.FIRM_TAILS)} {dice.between(100, 9999)}"
    return {
        "Name": name,
        "Industry": dice.pick(words.INDUSTRIES),
        "ShippingState": dice.pick(words.ACCOUNT_STATES),
        "NumberOfEmployees": dice.between(3, 900),
        "Phone": f"555-{dice.between(1000, 9999)}",
        "Description": f"{name} has not bought anything for years.",
    }


def _contact(soil: Soil, dice: Dice) -> Row:
    first, last = dice.pick(words.FIRST_NAMES), f"Former-{dice.pick(words.LAST_NAMES)}"
    return {
        "AccountId": soil.one(dice, "Account"),
        "FirstName": first,
        "LastName": last,
        "Email": f"{first}.{last}{dice.between(1, 9999)}@old.example".lower(),
    }


def _product(_: Soil, dice: Dice) -> Row:
    number = dice.between(1000, 9999)
    return {
        "Name": f"Discontinued label printer {number}",
        "Description": "No longer made and not replaced.",
        "External_ID__c": f"OLD-{number}",
        "IsActive": False,
    }


def _entry(soil: Soil, dice: Dice) -> Row:
    return {"Product2Id": soil.one(dice, "Product2"), "Pricebook2Id": None, "UnitPrice": dice.between(5, 50) * 10}


def _lead(soil: Soil, dice: Dice) -> Row:
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


def _contract(soil: Soil, dice: Dice) -> Row:
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


def _opportunity(soil: Soil, dice: Dice) -> Row:
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


def _opportunity_line(soil: Soil, dice: Dice) -> Row:
    quantity = dice.between(1, 9)
    return {"OpportunityId": soil.one(dice, "Opportunity"), "TotalPrice": quantity * 100} | _goods(soil, dice, quantity)


def _goods(soil: Soil, dice: Dice, quantity: int) -> Row:
    return {"Product2Id": soil.one(dice, "Product2"), "PricebookEntryId": None, "Quantity": quantity}


def _quote(soil: Soil, dice: Dice) -> Row:
    at = soil.moment(dice)
    return {
        "OpportunityId": soil.one(dice, "Opportunity"),
        "AccountId": soil.one(dice, "Account"),
        "ContactId": soil.one(dice, "Contact"),
        "Name": f"Old quote {dice.between(1000, 99999)}",
        "Status": "Rejected",
        "CreatedDate": at,
        "ExpirationDate": at.date() + timedelta(days=30),
        "Description": "Not taken up",
    }


def _quote_line(soil: Soil, dice: Dice) -> Row:
    quantity = dice.between(1, 9)
    price = {"UnitPrice": 100, "Discount": 0, "TotalPrice": quantity * 100}
    return {"QuoteId": soil.one(dice, "Quote")} | _goods(soil, dice, quantity) | price


def _order(soil: Soil, dice: Dice) -> Row:
    return {
        "AccountId": soil.one(dice, "Account"),
        "OwnerId": soil.owner(dice),
        "EffectiveDate": soil.moment(dice).date(),
        "Status": "Activated",
    }


def _order_item(soil: Soil, dice: Dice) -> Row:
    return {"OrderId": soil.one(dice, "Order"), "UnitPrice": 100} | _goods(soil, dice, dice.between(1, 9))


def _case(soil: Soil, dice: Dice) -> Row:
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


def _history(soil: Soil, dice: Dice) -> Row:
    return {
        "CaseId__c": soil.one(dice, "Case"),
        "CreatedDate": soil.moment(dice),
        "Field__c": "Owner Assignment",
        "OldValue__c": soil.owner(dice),
        "NewValue__c": soil.owner(dice),
    }


def _mail(soil: Soil, dice: Dice) -> Row:
    case = soil.one(dice, "Case")
    return {
        "ParentId": case,
        "RelatedToId": case,
        "FromAddress": f"former{dice.between(1, 999)}@old.example",
        "Subject": "Re: old matter",
        "TextBody": "Thank you, this is settled.",
        "MessageDate": soil.moment(dice),
    }


def _chat(soil: Soil, dice: Dice) -> Row:
    return {
        "CaseId": soil.one(dice, "Case"),
        "AccountId": soil.one(dice, "Account"),
        "ContactId": soil.one(dice, "Contact"),
        "OwnerId": soil.owner(dice),
        "EndTime": soil.moment(dice),
        "Body": "Customer: Is anybody there?\nAgent: Yes, good morning.",
    }


def _call(soil: Soil, dice: Dice) -> Row:
    at = soil.moment(dice)
    return {
        "LeadId__c": soil.one(dice, "Lead"),
        "OpportunityId__c": soil.one(dice, "Opportunity"),
        "Body__c": "Agent: Hello?\nCustomer: You have the wrong number.",
        "CreatedDate": at,
        "EndTime__c": at + timedelta(minutes=2),
    }


def _article(_: Soil, dice: Dice) -> Row:
    number = dice.between(1000, 99999)
    return {
        "Title": f"Canteen and car park, notice {number}",
        "FAQ_Answer__c": dice.pick(("The canteen opens at noon.", "The car park is swept on Fridays.")),
        "Summary": "For visitors of the old building",
        "UrlName": f"notice-{number}",
    }


def _task(soil: Soil, dice: Dice) -> Row:
    return {
        "WhatId": soil.one(dice, "Opportunity"),
        "OwnerId": soil.owner(dice),
        "Subject": f"Old errand {dice.between(1000, 99999)}",
        "Status": dice.pick(("Not Started", "Completed", "Deferred")),
        "Priority": "Low",
        "ActivityDate": soil.moment(dice).date(),
        "Description": "Nobody remembers.",
    }


def _event(soil: Soil, dice: Dice) -> Row:
    return {
        "WhatId": soil.one(dice, "Opportunity"),
        "OwnerId": soil.owner(dice),
        "Subject": "Old meeting",
        "Location": "Old building",
        "StartDateTime": soil.moment(dice),
        "DurationInMinutes": 30,
        "IsAllDayEvent": False,
    }


MAKERS: dict[str, Callable[[Soil, Dice], Row]] = {
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
"""What makes a row of each object; parents stand before their children, so that even a few rows hang together."""
