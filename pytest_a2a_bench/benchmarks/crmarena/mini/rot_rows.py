"""What distractor rows are made of, and where they are put; :mod:`.rot` says why they change no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.mini import words
from pytest_a2a_bench.benchmarks.crmarena.mini.building import NewRow, SeededRandom, key_prefixes, written
from pytest_a2a_bench.benchmarks.crmarena.mini.ids import record_id

YEARS_BEFORE = 5
_SPAN_DAYS = 10 * 365
_EARLIEST = 1950
"""An older date is a typing error in the data, not the org's first day."""


@dataclass(slots=True)
class AgedOrg:
    """An org that distractor rows are added to: its columns and row counts by object, its users and its first day."""

    columns: Mapping[str, Sequence[str]]
    counts: Counter[str]
    users: Sequence[str]
    first: date
    made: dict[str, list[NewRow]] = field(default_factory=dict)

    def add(self, name: str, values: Mapping[str, Any]) -> None:
        """Add a row, with the columns that the org's table has."""
        key = record_id(key_prefixes()[name], self.counts[name], marker="Rt")
        self.counts[name] += 1
        known = {"Id": key} | {column: written(value) for column, value in values.items()}
        self.made.setdefault(name, []).append({column: known.get(column) for column in self.columns[name]})

    def one(self, rng: SeededRandom, name: str) -> str | None:
        """Return the id of one of the added rows, None if there is none yet."""
        rows = self.made.get(name)
        return str(rng.pick(rows)["Id"]) if rows else None

    def owner(self, rng: SeededRandom) -> str | None:
        """Return one of the org's users."""
        return rng.pick(self.users) if self.users else None

    def moment(self, rng: SeededRandom) -> datetime:
        """Return a working hour long before the org's first day."""
        last = datetime(max(self.first.year, _EARLIEST) - YEARS_BEFORE, 1, 1, 8)
        return last - timedelta(days=1 + rng.below(_SPAN_DAYS), minutes=-rng.below(480))


def _account(_: AgedOrg, rng: SeededRandom) -> NewRow:
    name = f"Old {rng.pick(words.FIRM_HEADS)} {rng.pick(words.FIRM_TAILS)} {rng.between(100, 9999)}"
    return {
        "Name": name,
        "Industry": rng.pick(words.INDUSTRIES),
        "ShippingState": rng.pick(words.ACCOUNT_STATES),
        "NumberOfEmployees": rng.between(3, 900),
        "Phone": f"555-{rng.between(1000, 9999)}",
        "Description": f"{name} has not bought anything for years.",
    }


def _contact(org: AgedOrg, rng: SeededRandom) -> NewRow:
    first, last = rng.pick(words.FIRST_NAMES), f"Former-{rng.pick(words.LAST_NAMES)}"
    return {
        "AccountId": org.one(rng, "Account"),
        "FirstName": first,
        "LastName": last,
        "Email": f"{first}.{last}{rng.between(1, 9999)}@old.example".lower(),
    }


def _product(_: AgedOrg, rng: SeededRandom) -> NewRow:
    number = rng.between(1000, 9999)
    return {
        "Name": f"Discontinued label printer {number}",
        "Description": "No longer made and not replaced.",
        "External_ID__c": f"OLD-{number}",
        "IsActive": False,
    }


def _entry(org: AgedOrg, rng: SeededRandom) -> NewRow:
    return {"Product2Id": org.one(rng, "Product2"), "Pricebook2Id": None, "UnitPrice": rng.between(5, 50) * 10}


def _lead(org: AgedOrg, rng: SeededRandom) -> NewRow:
    at = org.moment(rng)
    return {
        "FirstName": rng.pick(words.FIRST_NAMES),
        "LastName": rng.pick(words.LAST_NAMES),
        "Company": f"Old {rng.pick(words.FIRM_HEADS)}",
        "Title": "Buyer",
        "Email": f"lead{rng.between(1, 99999)}@old.example",
        "Phone": f"555-{rng.between(1000, 9999)}",
        "OwnerId": org.owner(rng),
        "CreatedDate": at,
        "IsConverted": True,
        "ConvertedDate": at.date() + timedelta(days=20),
        "ConvertedAccountId": org.one(rng, "Account"),
        "ConvertedContactId": org.one(rng, "Contact"),
        "Status": "Qualified",
    }


def _contract(org: AgedOrg, rng: SeededRandom) -> NewRow:
    day = org.moment(rng).date()
    return {
        "AccountId": org.one(rng, "Account"),
        "CompanySignedDate": day,
        "CustomerSignedDate": day,
        "StartDate": day,
        "ContractTerm": 12,
        "Status": "Expired",
        "Description": "Ended",
    }


def _opportunity(org: AgedOrg, rng: SeededRandom) -> NewRow:
    at = org.moment(rng)
    return {
        "AccountId": org.one(rng, "Account"),
        "ContactId": org.one(rng, "Contact"),
        "ContractID__c": org.one(rng, "Contract"),
        "OwnerId": org.owner(rng),
        "Name": f"Old plan {rng.between(1000, 99999)}",
        "CreatedDate": at,
        "CloseDate": at.date() + timedelta(days=90),
        "StageName": "Closed",
        "Probability": 0,
        "Amount": rng.between(1, 90) * 100,
        "Description": "Came to nothing.",
    }


def _opportunity_line(org: AgedOrg, rng: SeededRandom) -> NewRow:
    quantity = rng.between(1, 9)
    return {"OpportunityId": org.one(rng, "Opportunity"), "TotalPrice": quantity * 100} | _goods(org, rng, quantity)


def _goods(org: AgedOrg, rng: SeededRandom, quantity: int) -> NewRow:
    return {"Product2Id": org.one(rng, "Product2"), "PricebookEntryId": None, "Quantity": quantity}


def _quote(org: AgedOrg, rng: SeededRandom) -> NewRow:
    at = org.moment(rng)
    return {
        "OpportunityId": org.one(rng, "Opportunity"),
        "AccountId": org.one(rng, "Account"),
        "ContactId": org.one(rng, "Contact"),
        "Name": f"Old quote {rng.between(1000, 99999)}",
        "Status": "Rejected",
        "CreatedDate": at,
        "ExpirationDate": at.date() + timedelta(days=30),
        "Description": "Not taken up",
    }


def _quote_line(org: AgedOrg, rng: SeededRandom) -> NewRow:
    quantity = rng.between(1, 9)
    price = {"UnitPrice": 100, "Discount": 0, "TotalPrice": quantity * 100}
    return {"QuoteId": org.one(rng, "Quote")} | _goods(org, rng, quantity) | price


def _order(org: AgedOrg, rng: SeededRandom) -> NewRow:
    return {
        "AccountId": org.one(rng, "Account"),
        "OwnerId": org.owner(rng),
        "EffectiveDate": org.moment(rng).date(),
        "Status": "Activated",
    }


def _order_item(org: AgedOrg, rng: SeededRandom) -> NewRow:
    return {"OrderId": org.one(rng, "Order"), "UnitPrice": 100} | _goods(org, rng, rng.between(1, 9))


def _case(org: AgedOrg, rng: SeededRandom) -> NewRow:
    at = org.moment(rng)
    return {
        "AccountId": org.one(rng, "Account"),
        "ContactId": org.one(rng, "Contact"),
        "OwnerId": org.owner(rng),
        "CreatedDate": at,
        "ClosedDate": at + timedelta(hours=rng.between(3, 90)),
        "Status": "Closed",
        "Priority": "Low",
        "Subject": "Old matter",
        "Description": "Settled long ago.",
    }


def _history(org: AgedOrg, rng: SeededRandom) -> NewRow:
    return {
        "CaseId__c": org.one(rng, "Case"),
        "CreatedDate": org.moment(rng),
        "Field__c": "Owner Assignment",
        "OldValue__c": org.owner(rng),
        "NewValue__c": org.owner(rng),
    }


def _mail(org: AgedOrg, rng: SeededRandom) -> NewRow:
    case = org.one(rng, "Case")
    return {
        "ParentId": case,
        "RelatedToId": case,
        "FromAddress": f"former{rng.between(1, 999)}@old.example",
        "Subject": "Re: old matter",
        "TextBody": "Thank you, this is settled.",
        "MessageDate": org.moment(rng),
    }


def _chat(org: AgedOrg, rng: SeededRandom) -> NewRow:
    return {
        "CaseId": org.one(rng, "Case"),
        "AccountId": org.one(rng, "Account"),
        "ContactId": org.one(rng, "Contact"),
        "OwnerId": org.owner(rng),
        "EndTime": org.moment(rng),
        "Body": "Customer: Is anybody there?\nAgent: Yes, good morning.",
    }


def _call(org: AgedOrg, rng: SeededRandom) -> NewRow:
    at = org.moment(rng)
    return {
        "LeadId__c": org.one(rng, "Lead"),
        "OpportunityId__c": org.one(rng, "Opportunity"),
        "Body__c": "Agent: Hello?\nCustomer: You have the wrong number.",
        "CreatedDate": at,
        "EndTime__c": at + timedelta(minutes=2),
    }


def _article(_: AgedOrg, rng: SeededRandom) -> NewRow:
    number = rng.between(1000, 99999)
    return {
        "Title": f"Canteen and car park, notice {number}",
        "FAQ_Answer__c": rng.pick(("The canteen opens at noon.", "The car park is swept on Fridays.")),
        "Summary": "For visitors of the old building",
        "UrlName": f"notice-{number}",
    }


def _task(org: AgedOrg, rng: SeededRandom) -> NewRow:
    return {
        "WhatId": org.one(rng, "Opportunity"),
        "OwnerId": org.owner(rng),
        "Subject": f"Old errand {rng.between(1000, 99999)}",
        "Status": rng.pick(("Not Started", "Completed", "Deferred")),
        "Priority": "Low",
        "ActivityDate": org.moment(rng).date(),
        "Description": "Nobody remembers.",
    }


def _event(org: AgedOrg, rng: SeededRandom) -> NewRow:
    return {
        "WhatId": org.one(rng, "Opportunity"),
        "OwnerId": org.owner(rng),
        "Subject": "Old meeting",
        "Location": "Old building",
        "StartDateTime": org.moment(rng),
        "DurationInMinutes": 30,
        "IsAllDayEvent": False,
    }


MAKERS: dict[str, Callable[[AgedOrg, SeededRandom], NewRow]] = {
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
