"""Whether the user agrees to what the agent offers to do, judged against what the task's golds would do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.user.facts import identifiers, leaves

_READING = re.compile(r"^(get|find|list|search|check|calculate|think|look|read|kb|log_)", re.I)
_GAP = r"(?:[^.?!]|\.\d)*"
_CHANGE = (
    r"(chang|updat|modif|switch|replac|correct|edit|adjust|rebook|mov|upgrad|downgrad|swap|set|put|add|amend|alter)"
)
_KINDS: tuple[tuple[str, str, str], ...] = (
    ("cancel", r"cancel", "cancel anything like that"),
    ("book", r"\bbook(?!ing)|new (booking|reservation)|make (a|the) (booking|reservation)", "book that"),
    ("send_certificate", rf"certificate of|(send|issu|offer|giv|grant)\w*{_GAP}(certificate|voucher|compensation)",
     "get that certificate"),
    ("exchange", r"exchang|swap", "exchange that"),
    ("return", r"\breturn(?!ed to you| flight)", "return that"),
    ("update_reservation_baggages", rf"({_CHANGE}\w*|check\w*){_GAP}(bag|luggage|suitcase)", "change my bags"),
    ("update_reservation_passengers", rf"{_CHANGE}\w*{_GAP}passenger", "change the passengers"),
    ("update_reservation_flights", rf"{_CHANGE}\w*{_GAP}(flight|cabin|class|econom|business|reservation)",
     "change my flights that way"),
    ("modify_pending_order_address", rf"{_CHANGE}\w*{_GAP}address|(ship|send|deliver)\w*{_GAP} to\b",
     "change that address"),
    ("modify_user_address", rf"{_CHANGE}\w*{_GAP}address", "change my own address"),
    ("modify_pending_order_payment", rf"{_CHANGE}\w*{_GAP}payment", "change the payment"),
    ("modify_pending_order_items", rf"{_CHANGE}\w*{_GAP}(item|order|product|option)", "change those items"),
    ("refuel", rf"refuel|top[- ]?up|(add|more|extra){_GAP}(gb|gigabyte|data)", "buy data"),
    ("enable_roaming", rf"(enabl|activat|turn(ing)? on|switch(ing)? on)\w*{_GAP}roaming", "have roaming enabled"),
    ("disable_roaming", rf"(disabl|deactivat|turn(ing)? off|switch(ing)? off)\w*{_GAP}roaming", "have roaming off"),
    ("resume_line", rf"(resum|reactivat|restor|unsuspend|lift)\w*{_GAP}(line|service|suspension)", "have it resumed"),
    ("suspend_line", rf"\bsuspend\w*{_GAP}(line|service)", "have my line suspended"),
    ("send_payment_request", rf"payment request|(send|rais)\w*{_GAP}(bill|payment)|pay\w*{_GAP}bill", "pay that"),
    ("change_plan", rf"{_CHANGE}\w*{_GAP} plan\b|different plan|another plan", "change my plan"),
    ("create_task", rf"(creat|add|mak|set(ting)? up)\w*{_GAP}task", "have that task created"),
    ("update_task", rf"({_CHANGE}|mark|complet|clos)\w*{_GAP}task|mark\w*", "have that status"),
    ("delete", r"delet|remov", "have anything deleted"),
    ("transfer", r"transfer|human|supervisor|colleague|specialist|escalat", "be transferred"),
)  # fmt: skip
"""How texts speak of kinds of tools: a tool's name begins with the first, a text has the second."""

_CHOICES: Mapping[str, Mapping[str, str]] = {
    "cabin": {
        "basic_economy": r"basic[ _]economy",
        "economy": r"(?<!basic )(?<!basic_)economy",
        "business": "business",
    },
    "reason": {"no longer needed": "no longer need", "ordered by mistake": "mistake"},
    "status": {"completed": r"complete|finished|\bdone\b", "pending": "pending|reopen"},
    "flight_type": {"round_trip": r"round[ _-]?trip", "one_way": r"one[ _-]?way"},
}
_SPOKEN = {"item": "item", "payment": "payment method", "user id": "user id", "zip": "zip code"}
# An old value may be named beside the new one: wrong only where none of those named is right.
_ANY_RIGHT = frozenset({"date", "flight", "payment", "cabin", "reason", "status", "flight_type", "zip", "user id",
                        "email", "phone", "customer", "bill", "line"})  # fmt: skip
_AMOUNTS = {"amount": r"\$ ?(\d+(?:\.\d+)?)", "gb_amount": r"(\d+(?:\.\d+)?) ?(?:gb|gigabytes?)",
            "total_baggages": r"\b(\d+)(?: \w+){0,2} (?:bags?|baggages?|suitcases?)"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wish:
    """Something that the user wants done: a writing action of the golds."""

    tool: str
    arguments: Mapping[str, Any]

    def values(self) -> dict[str, list[str]]:
        """Return its identifying arguments by kind, with choices such as the cabin."""
        pairs = list(leaves(self.arguments))
        found = identifiers(" \n ".join(str(v) for name, v in pairs if name not in ("title", "summary")))
        for name, value in pairs:
            if name in _CHOICES and isinstance(value, str):
                found[name] = [value]
        return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """The user's decision on an offer.

    :param wish: what it agreed to, or what it corrects towards.
    :param wrong: what is wrong with the offer; empty for an agreement.
    """

    wish: Wish | None
    wrong: str = ""

    @property
    def agreed(self) -> bool:
        """Whether the user says yes."""
        return self.wish is not None and not self.wrong


def wishes(actions: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[Wish, ...]:
    """Return the golds that change something, which is what the user wants to have happened."""
    return tuple(Wish(name, arguments) for name, arguments in actions if not _READING.match(name))


def mentioned(text: str) -> dict[str, list[str]]:
    """Return what identifies something in a text, and the choices that it names."""
    found = identifiers(text)
    for name, words in _CHOICES.items():
        named = [value for value, pattern in words.items() if re.search(pattern, text, re.I)]
        if named:
            found[name] = named
    return found


def kinds(text: str) -> tuple[tuple[str, str], ...]:
    """Return the kinds of tools that a text speaks of, with how one refuses them."""
    return tuple((tool, refusal) for tool, pattern, refusal in _KINDS if re.search(pattern, text, re.I))


def judge(text: str, wanted: Sequence[Wish]) -> Verdict | None:
    """Decide about the offer in a text; None where it offers nothing that one could decide about."""
    spoken = kinds(text)
    named = mentioned(text)
    same = [w for w in wanted if any(w.tool.startswith(tool) for tool, _ in spoken) or _named_alike(w, text)]
    if same:
        return min((_compare(text, named, w) for w in same), key=lambda found: found[0])[1]
    if not spoken:
        pointed = [w for w in wanted if any(set(v) & set(named.get(k, ())) for k, v in w.values().items())]
        return min((_compare(text, named, w) for w in pointed), key=lambda f: f[0])[1] if pointed else None
    return Verdict(None, f"I don't want to {spoken[0][1]}")


def fulfilled(sentence: str, wanted: Sequence[Wish]) -> list[Wish]:
    """Return the wishes that a sentence says are done: it names them, and nothing that is not theirs."""
    spoken, named = kinds(sentence), mentioned(sentence)
    alike = [w for w in wanted if any(w.tool.startswith(tool) for tool, _ in spoken) or _named_alike(w, sentence)]
    fitting = [(_compare(sentence, named, w), w) for w in alike]
    exact = [w for ((faulty, shared, *_), _), w in fitting if not faulty and shared < 0]
    # Without a name it can only be meant where there is no choice.
    return exact or (alike if len(alike) == 1 and not fitting[0][0][0][0] else [])


def _named_alike(wish: Wish, text: str) -> bool:
    """Tools of benchmarks that nobody listed here are recognised by the words of their names."""
    if any(wish.tool.startswith(tool) for tool, _, _ in _KINDS):
        return False
    words = [w for w in wish.tool.split("_") if len(w) > 2]
    return bool(words) and sum(w[:5] in text.lower() for w in words) * 2 >= len(words)


def _compare(text: str, named: Mapping[str, list[str]], wish: Wish) -> tuple[tuple[bool, int, float, int], Verdict]:
    """Return how well an offer fits a wish (faults first, then what they share), and the verdict if it is this one."""
    right = wish.values()
    faults = [f for kind in named if kind in right for f in _faults(kind, named[kind], right[kind])]
    faults += _amount_faults(text, wish)
    shared = sum(len(set(named.get(kind, ())) & set(values)) for kind, values in right.items())
    if "order" in named and "order" not in right:
        faults.append("that is not about an order")
        shared -= len(right) + 1
    # Of several that are meant badly, the one that is meant is the most alike.
    alike = sum(_likeness(v, right[kind]) for kind in named if kind in right for v in named[kind])
    return (bool(faults), -shared, -alike, len(faults)), Verdict(wish, "; ".join(faults))


def _faults(kind: str, said: Sequence[str], right: Sequence[str]) -> list[str]:
    name = _SPOKEN.get(kind, kind.replace("_", " "))
    strangers = [v for v in said if v not in right]
    if kind in _ANY_RIGHT:
        if any(v in right for v in said):
            return []
        return [f"the {name} should be {_plain(right[0])}, not {_plain(said[0])}"]
    missing = [v for v in right if v not in said]
    if strangers:
        instead = f" should be {_plain(_closest(strangers[0], missing))}, not" if missing else " is not"
        return [f"the {name}{instead} {_plain(strangers[0])}"]
    # Orders are changed once: half of the items would be the end of it. New items are the agent's to name.
    return []


def _likeness(said: str, right: Sequence[str]) -> float:
    return max((SequenceMatcher(None, said, value).ratio() for value in right), default=0.0)


def _closest(said: str, right: Sequence[str]) -> str:
    return max(right, key=lambda value: SequenceMatcher(None, said, value).ratio())


def _amount_faults(text: str, wish: Wish) -> list[str]:
    faults = []
    for name, value in leaves(wish.arguments):
        pattern = _AMOUNTS.get(name) if name != "amount" or wish.tool == "send_certificate" else None
        said = [float(v) for v in re.findall(pattern, text, re.I)] if pattern else []
        if said and float(value) not in said:
            faults.append(f"it should be {value:g}, not {said[0]:g}")
    return faults


def _plain(value: str) -> str:
    return (
        value.replace("basic_economy", "basic economy")
        .replace("one_way", "one way")
        .replace("round_trip", "round trip")
    )
