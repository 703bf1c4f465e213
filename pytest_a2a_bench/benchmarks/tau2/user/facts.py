"""What the user knows, typed: from the scenario's text and from what its wishes come down to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.user.scenario import Scenario

RESERVATION = r"\b(?!HAT\d)(?=[A-Z0-9]{6}\b)(?:[A-Z0-9]*[A-Z][A-Z0-9]*)\b"
IDENTIFIERS: Mapping[str, str] = {
    "user id": r"\b[a-z]+_[a-z]+_\d{4}\b|\buser_\d+\b",
    "email": r"\b[\w.+-]+@[\w-]+\.\w+\b",
    "phone": r"\b\d{3}-\d{3}-\d{4}\b",
    "order": r"#W\d{7}\b",
    "payment": r"\b(?:credit_card|gift_card|paypal|certificate)_\d+\b",
    "item": r"\b\d{10}\b",
    "flight": r"\bHAT\d{3}\b",
    "date": r"\b\d{4}-\d{2}-\d{2}\b",
    "task": r"\btask_\d+\b",
    "bill": r"\bB\d{7}\b",
    "line": r"\bL\d{4}\b",
    "customer": r"\bC\d{4}\b",
    "reservation": RESERVATION,
    "zip": r"(?<![\w#-])\d{5}(?![\w-])",
}
"""Patterns of what identifies something, by kind. First match wins where kinds overlap."""
_IDENTIFIERS = tuple((kind, re.compile(pattern)) for kind, pattern in IDENTIFIERS.items())

# Airport codes, currencies and emphasis look like reservation ids but for their length or sense.
_NOT_RESERVATIONS = frozenset("PLEASE CANCEL CHANGE STATUS NUMBER RETURN REFUND UPDATE FLIGHT SILVER".split())

_NAMES = (
    r"\b(?:[Yy]our? name is|[Yy]ou are user|[Yy]our? full name is) ((?:[A-Z][\w'-]+ ?){1,3})",
    r"\b(?:[Yy]ou are|[Yy]ou're) (?:an? [a-z ]+ called )?([A-Z][\w'-]+(?: [A-Z][\w'-]+){0,2})",
)
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "user id": ("user_id",),
    "email": ("email",),
    "zip": ("zip",),
    "first name": ("first_name",),
    "last name": ("last_name",),
    "order": ("order_id",),
    "payment": ("payment_method_id", "payment_id"),
    "item": ("item_ids",),
    "reservation": ("reservation_id",),
    "date": ("date",),
    "birthday": ("dob",),
    "cabin": ("cabin",),
    "baggage": ("total_baggages",),
    "insurance": ("insurance",),
    "cause": ("reason",),
    "trip": ("flight_type",),
    "origin": ("origin",),
    "destination": ("destination",),
    "task": ("task_id",),
    "title": ("title",),
    "status": ("status",),
    "amount": ("gb_amount", "amount"),
}
"""Which arguments of the task's own writes answer which question. Not what the agent has to find out (new items)."""

_DENIED: Mapping[str, str] = {
    "email": r"e-?mail",
    "reservation": r"reservation|confirmation number",
    "order": r"order (id|number)",
    "payment": r"payment method",
    "flight": r"flight number",
    "cabin": r"\bcabin\b",
    "birthday": r"\bdob\b|birth",
    "zip": r"\bzip",
    "user id": r"user id",
}
_ADDRESS = ("address1", "address2", "city", "state", "country", "zip")


def identifiers(text: str) -> dict[str, list[str]]:
    """Find what identifies something, by kind, in the order of the text."""
    found: dict[str, list[str]] = {}
    rest = text
    for kind, pattern in _IDENTIFIERS:
        if values := [v for v in pattern.findall(rest) if v not in _NOT_RESERVATIONS]:
            found[kind] = list(dict.fromkeys(values))
            # What one kind has claimed is no other's: a payment id ends in digits that look like an item.
            rest = pattern.sub(lambda m: m[0] if m[0] in _NOT_RESERVATIONS else " ", rest)
    return found


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the scalars of nested arguments with the name of the argument that they stand under."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner, name)
    else:
        yield name, value


class Facts:
    """Questions' subjects and this user's answers to them.

    :param writes: arguments of what the user wants done, as the task's golds have them.
    """

    def __init__(self, scenario: Scenario, writes: Sequence[Mapping[str, Any]] = ()) -> None:
        told = f"{scenario.known}\n{scenario.reason}\n{scenario.instructions}"
        self._values: dict[str, list[str]] = identifiers(told)
        # Shops' and airlines' numbers of the same look are no zip codes unless the user's own facts have them.
        self._values["zip"] = identifiers(scenario.known).get("zip") or self._values.get("zip", [])
        self._denied = {s for s, pattern in _DENIED.items() if re.search(pattern, scenario.unknown, re.I)}
        if re.search(r"(don't|do not) want to reveal", told, re.I):
            self._denied.add("address")
        self._name(told)
        self._birthday(told)
        self._wishes(writes)

    def _name(self, told: str) -> None:
        for pattern in _NAMES:
            match = re.search(pattern, told)
            if match:
                self._values["name"] = [match[1].strip()]
                break
        else:
            # tau2's user ids are made of names.
            for user in self._values.get("user id", ())[:1]:
                parts = user.split("_")
                if len(parts) == 3:
                    self._values["name"] = [f"{parts[0].title()} {parts[1].title()}"]

    def _birthday(self, told: str) -> None:
        born = re.search(r"(?:dob|date of birth|birthday|born)\D{0,20}(\d{4}-\d{2}-\d{2})", told, re.I)
        if born:
            self._values["birthday"] = [born[1]]

    def _wishes(self, writes: Sequence[Mapping[str, Any]]) -> None:
        for slot, names in _ARGUMENTS.items():
            if self._values.get(slot) and slot != "order":
                continue
            values = [str(v) for w in writes for name, v in leaves(w) if name in names and v is not None]
            if values:
                self._values[slot] = list(dict.fromkeys([*self._values.get(slot, ()), *values]))
        for write in writes:
            if "address1" in write:
                self._values["address"] = [", ".join(str(write[p]) for p in _ADDRESS if write.get(p))]
            if "passengers" in write:
                people = write["passengers"]
                names_ = [f"{p.get('first_name', '')} {p.get('last_name', '')}".strip() for p in people]
                self._values["passengers"] = [f"{len(people)}: {', '.join(names_)}"]

    def get(self, slot: str) -> list[str]:
        """Return what the user knows of a subject; empty where it does not, or does not say."""
        return [] if slot in self._denied else self._values.get(slot, [])
