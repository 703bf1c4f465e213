"""Ids: of records, as Salesforce makes them, and of tasks, which are known before anything is built."""

from __future__ import annotations

import string

from pytest_a2a_bench.benchmarks.crmarena.categories import CATEGORIES

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_CHECK = string.ascii_uppercase + "012345"
_FIRST = 146_000
_STEP = 37

KEY_PREFIXES = {
    "User": "005",
    "Account": "001",
    "Contact": "003",
    "Lead": "00Q",
    "Opportunity": "006",
    "OpportunityLineItem": "00k",
    "Case": "500",
    "CaseHistory__c": "a04",
    "Quote": "0Q0",
    "QuoteLineItem": "0QL",
    "Contract": "800",
    "EmailMessage": "02s",
    "LiveChatTranscript": "570",
    "VoiceCallTranscript__c": "a05",
    "Order": "801",
    "OrderItem": "802",
    "Product2": "01t",
    "PricebookEntry": "01u",
    "Pricebook2": "01s",
    "Knowledge__kav": "ka0",
    "Issue__c": "a03",
    "ProductCategory": "0ZG",
    "ProductCategoryProduct": "0ZK",
    "Task": "00T",
    "Event": "00U",
    "Territory2": "0MI",
    "UserTerritory2Association": "0NJ",
}
"""The 27 objects, and the three characters that the ids of each begin with."""


def checksum(short: str) -> str:
    """Return the three characters that make a 15-character id one of 18: which of its letters are capitals."""
    blocks = (short[at : at + 5] for at in range(0, 15, 5))
    return "".join(_CHECK[sum(1 << bit for bit, char in enumerate(block) if char.isupper())] for block in blocks)


def record_id(prefix: str, number: int, marker: str = "Mn") -> str:
    """Return the 18-character id of the ``number``-th record of an object.

    :param marker: two characters that tell where the record comes from: ``Mn`` for the mini org's own.
    """
    value, digits = _FIRST + number * _STEP, ""
    for _ in range(6):
        value, digit = divmod(value, 62)
        digits = _DIGITS[digit] + digits
    short = f"{prefix}{marker}0000{digits}"
    return short + checksum(short)


def task_ids(tasks_per_category: int = 10) -> tuple[str, ...]:
    """Return the ids of all tasks, in the order of the categories, without building the org."""
    return tuple(task_id(name, n, tasks_per_category) for name in CATEGORIES for n in range(tasks_per_category))


def task_id(category: str, number: int, tasks_per_category: int) -> str:
    """Return the id of one task: ``handle_time-03``."""
    width = max(2, len(str(tasks_per_category - 1)))
    return f"{category}-{number:0{width}d}"
