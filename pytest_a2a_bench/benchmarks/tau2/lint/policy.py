"""What policies rule out and a database alone can decide: each rule holds only where the policy's own text says it.

A policy that was changed (a fork's, an edition's) and does not say a thing any more is not held to it.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.lint.data import Records

Arguments = Mapping[str, Any]
Judge = Callable[[Records, Arguments, "re.Match[str]", str], str]
"""Given the records before the call, its arguments, where the policy says it, and the policy: why it is ruled out."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One sentence of a policy.

    :param name: how findings call it.
    :param domain: whose policy.
    :param says: finds it in the policy's text.
    :param text: what is decided, in our words.
    :param tools: the calls that it is about; none for every write.
    """

    name: str
    domain: str
    says: str
    text: str
    judge: Judge
    tools: tuple[str, ...] = ()


class Policy:
    """The clauses that a policy has, kept by the calls of one task after the other.

    :param text: of the policy.
    """

    def __init__(self, domain: str, text: str) -> None:
        found = ((clause, re.search(clause.says, text, re.I)) for clause in CLAUSES if clause.domain == domain)
        self._clauses = [(clause, match) for clause, match in found if match is not None]
        self._one_user = re.search(_ONE_USER, text, re.I) is not None
        self._text = text
        self._users: set[str] = set()

    def begin(self) -> None:
        """Begin another task."""
        self._users = set()

    def judge(self, records: Records, name: str, arguments: Arguments, *, writes: bool) -> Iterator[str]:
        """Say what is wrong with a call that is about to be made."""
        for clause, match in self._clauses:
            if name in clause.tools and (reason := clause.judge(records, arguments, match, self._text)):
                yield f"{clause.name}: {reason}"
        owner = records.owner(arguments) if writes and self._one_user else None
        if owner is not None:
            self._users.add(str(owner.get("user_id")))
            if len(self._users) > 1:
                yield "one-user: it changes what belongs to another user than earlier actions did"


_ONE_USER = r"only help one user per conversation"
ONE_USER = "All writes of a gold are about one user."


def _passengers(records: Records, arguments: Arguments, said: re.Match[str], policy: str) -> str:
    number = len(_list(arguments.get("passengers")))
    return f"{number} passengers, of at most 5" if number > 5 else ""


def _payment_mix(records: Records, arguments: Arguments, said: re.Match[str], policy: str) -> str:
    methods = (records.get("users", arguments.get("user_id")) or {}).get("payment_methods") or {}
    used = {str(p.get("payment_id")) for p in _list(arguments.get("payment_methods"))}
    kinds = Counter(str(_object(methods.get(name)).get("source")) for name in used)
    most = {"certificate": 1, "credit_card": 1, "gift_card": 3}
    wrong = [f"{kinds[kind]} of {kind.replace('_', ' ')}s" for kind, limit in most.items() if kinds[kind] > limit]
    return f"it is paid by {', '.join(wrong)}" if wrong else ""


_FREE = {"regular": 0, "silver": 1, "gold": 2}
_OF_CABIN = {"basic_economy": 0, "economy": 1, "business": 2}


def _allowance(records: Records, arguments: Arguments, said: re.Match[str], policy: str) -> str:
    booking = records.get("reservations", arguments.get("reservation_id")) or arguments
    user = records.get("users", booking.get("user_id")) or {}
    level, cabin = _FREE.get(str(user.get("membership"))), _OF_CABIN.get(str(booking.get("cabin")))
    total, paid = arguments.get("total_baggages"), arguments.get("nonfree_baggages")
    if level is None or cabin is None or not isinstance(total, int) or not isinstance(paid, int):
        return ""
    due = max(0, total - (level + cabin) * len(_list(booking.get("passengers"))))
    return f"{paid} of {total} bags are paid for, and {due} are not free" if paid != due else ""


def _basic_economy(records: Records, arguments: Arguments, said: re.Match[str], policy: str) -> str:
    booking = records.get("reservations", arguments.get("reservation_id")) or {}
    if booking.get("cabin") != "basic_economy" or _flights(booking) == _flights(arguments):
        return ""
    return "it changes the flights of a basic economy booking"


def _route(records: Records, arguments: Arguments, said: re.Match[str], policy: str) -> str:
    booking = records.get("reservations", arguments.get("reservation_id")) or {}
    legs = [records.get("flights", number) for number, _ in _flights(arguments)]
    if not booking or not legs or any(leg is None for leg in legs):
        return ""
    # The first flight leaves from the origin, some flight arrives at the destination, and a round trip comes back.
    first, last = legs[0] or {}, legs[-1] or {}
    is_round = booking.get("flight_type") == "round_trip"
    end = booking.get("origin") if is_round else booking.get("destination")
    reached = any(leg is not None and leg.get("destination") == booking.get("destination") for leg in legs)
    if first.get("origin") == booking.get("origin") and last.get("destination") == end and reached:
        return ""
    return "the new flights do not make the trip that was booked"


def _fewer_bags(records: Records, arguments: Arguments, said: re.Match[str], policy: str) -> str:
    booking = records.get("reservations", arguments.get("reservation_id")) or {}
    before, after = booking.get("total_baggages"), arguments.get("total_baggages")
    if isinstance(before, int) and isinstance(after, int) and after < before:
        return f"it leaves {after} of {before} checked bags"
    return ""


def _flown_cabin(records: Records, arguments: Arguments, said: re.Match[str], policy: str) -> str:
    booking = records.get("reservations", arguments.get("reservation_id")) or {}
    if not booking or booking.get("cabin") == arguments.get("cabin"):
        return ""
    return "it changes the cabin of a booking with a flight that was flown" if _flown(records, booking) else ""


def _cancellation(records: Records, arguments: Arguments, said: re.Match[str], policy: str) -> str:
    booking = records.get("reservations", arguments.get("reservation_id")) or {}
    if not booking:
        return ""
    if _flown(records, booking):
        return "a flight of the booking was flown"
    age = _age(str(booking.get("created_at")), policy)
    recent = age is None or age <= datetime.timedelta(hours=24)
    if recent or booking.get("cabin") == "business" or booking.get("insurance") == "yes":
        return ""
    if "cancelled" in _statuses(records, booking):
        return ""
    return "the booking is older than 24 hours, not in business, not insured, and no flight is cancelled"


def _compensation(records: Records, arguments: Arguments, said: re.Match[str], policy: str) -> str:
    user = records.get("users", arguments.get("user_id")) or {}
    bookings = [records.get("reservations", name) or {} for name in _list(user.get("reservations"))]
    entitled = any(b.get("insurance") == "yes" or b.get("cabin") == "business" for b in bookings)
    if user.get("membership") == "regular" and not entitled:
        return "the user is a regular member, and no booking is insured or in business"
    amount = arguments.get("amount")
    # 50 or 100 dollars for each passenger.
    return "the amount is no multiple of 50 dollars" if isinstance(amount, int) and amount % 50 else ""


def _refuel(records: Records, arguments: Arguments, said: re.Match[str], policy: str) -> str:
    amount, most = arguments.get("gb_amount"), float(said[1])
    return f"{amount:g} GB, of at most {most:g}" if isinstance(amount, int | float) and amount > most else ""


CLAUSES: tuple[Clause, ...] = (
    Clause(
        "passengers", "airline", r"at most five passengers", "A booking has at most five passengers.", _passengers,
        ("book_reservation",),
    ),
    Clause(
        "payment-mix", "airline",
        r"at most one travel certificate, at most one credit card, and at most three gift cards",
        "A booking is paid by at most one certificate, one credit card and three gift cards.", _payment_mix,
        ("book_reservation",),
    ),
    Clause(
        "allowance", "airline", r"0 free checked bags? for each basic economy passenger",
        "Bags beyond what membership and cabin allow for each passenger are paid for, and no others.", _allowance,
        ("book_reservation", "update_reservation_baggages"),
    ),
    Clause(
        "basic-economy", "airline", r"basic economy flights cannot be modified",
        "The flights of a booking in basic economy stay (its cabin may be changed first).", _basic_economy,
        ("update_reservation_flights",),
    ),
    Clause(
        "route", "airline", r"without changing the origin, destination, and trip type",
        "New flights make the trip that was booked: origin, destination and whether it comes back.", _route,
        ("update_reservation_flights",),
    ),
    Clause(
        "flown-cabin", "airline", r"cabin cannot be changed if any flight in the reservation has already been flown",
        "The cabin stays once a flight has landed or is in the air.", _flown_cabin, ("update_reservation_flights",),
    ),
    Clause(
        "bags-removed", "airline", r"can add but not remove checked bags", "Checked bags become no fewer.", _fewer_bags,
        ("update_reservation_baggages",),
    ),
    Clause(
        "cancellation", "airline", r"flight can be cancelled if any of the following is true",
        "A booking is cancelled only if it was made within 24 hours, is in business, is insured, or the airline "
        "cancelled a flight of it; and none was flown. (Whether an insurance covers the reason is not decided.)",
        _cancellation, ("cancel_reservation",),
    ),
    Clause(
        "compensation", "airline",
        r"only compensate if the user is a silver/gold member or has travel insurance or flies business",
        "A certificate goes to silver and gold members and to users with a booking that is insured or in business, and "
        "is a multiple of 50 dollars.", _compensation, ("send_certificate",),
    ),
    Clause(
        "refuel", "telecom", r"maximum amount of data that can be refueled is (\d+(?:\.\d+)?)\s*GB",
        "No more data are refueled than the policy's maximum.", _refuel, ("refuel_data",),
    ),
)  # fmt: skip
"""In the order of the documentation."""


def _age(created: str, policy: str) -> datetime.timedelta | None:
    """Return how long before the policy's present a booking was made; None where either is not known."""
    now = re.search(r"current time is (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", policy)
    try:
        made = datetime.datetime.fromisoformat(created)
        return datetime.datetime.fromisoformat(now[1]) - made if now else None
    except (ValueError, TypeError):
        return None


def _flights(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(str(f.get("flight_number")), str(f.get("date"))) for f in _list(value.get("flights"))]


def _statuses(records: Records, booking: Mapping[str, Any]) -> set[str]:
    days = ((records.get("flights", number) or {}).get("dates") or {} for number, _ in _flights(booking))
    found = zip(days, _flights(booking), strict=True)
    return {str(_object(dates.get(date)).get("status")) for dates, (_, date) in found}


def _flown(records: Records, booking: Mapping[str, Any]) -> bool:
    return bool(_statuses(records, booking) & {"landed", "flying"})


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        return []
    return [_object(v) if not isinstance(v, str) else v for v in value]


def _object(value: Any) -> Mapping[str, Any]:
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    return value if isinstance(value, Mapping) else {}
