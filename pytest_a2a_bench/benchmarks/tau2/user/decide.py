"""Decide whether the user agrees to an offer of the agent, by the effects of the task's golds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.user.scenario import IDENTIFIERS, identifiers, leaves
from pytest_a2a_bench.benchmarks.tau2.user.understand import EMAIL_ADDRESS, NOT_POSSIBLE, PEOPLE, UNABLE

SPOKEN: Mapping[str, str] = {"basic_economy": "basic economy", "one_way": "one way", "round_trip": "round trip"}
"""Values of arguments as a customer says them, where that is not as they are written."""

_READING = re.compile(r"^(get|find|list|search|check|calculate|think|look|read|kb|log_)", re.I)
_CHANGE = r"chang|updat|modif|switch|replac|correct|edit|adjust|rebook|mov|upgrad|downgrad|swap|set|put|add|amend"
_CHANGE += r"|alter|bring|shift|convert|revis|fix|us(?:e|ing)\b|becom|instead|turn|have|new\b|to\b|now\b"
_GIVE = r"sen[dt]|issu|offer|giv|provid|grant|get|receiv|award|put|trouble|gesture|apolog|inconvenien|delay"
_RESUME = (
    r"re-?(?:activat|instat|start|connect|enabl)|un(?:suspend|block|lock|freez)|resum|restor|lift|get|bring|put|turn"
)
_RESUME += "|switch|activat|back"


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of tools.

    :param tool: how the names of the tools begin.
    :param refusal: how the user refuses it.
    :param words: words that speak of it alone, or an empty text.
    :param verbs: words that speak of it in one sentence with one of ``nouns``, or an empty text.
    """

    tool: str
    refusal: str
    words: str
    verbs: str = ""
    nouns: str = ""

    def is_in(self, text: str) -> bool:
        """Return whether a text speaks of it."""
        if self.words and re.search(rf"\b(?:{self.words})", text, re.I):
            return True
        verb, noun = re.compile(rf"\b(?:{self.verbs})", re.I), re.compile(rf"\b(?:{self.nouns})", re.I)
        return bool(self.verbs) and any(verb.search(s) and noun.search(s) for s in re.split(r"[.?!](?!\d)", text))


_ADDRESSES = r"re-?(rout|direct)|(shipping|delivery) address|(ship|send|deliver|go)\w*\b[^.?!]* to\b"
_OWN_ADDRESS = "address (on|in) (your|file|the)|(default|home|profile|account|new) address"
_BACK = r"return(?!ed to you| flight)|refund|(send|tak|giv|ship|bring)\w*( \S+){0,12} back\b"
_DATA = r"refuel|top\w*( you| your \w+| it)? ?-?up\b|gb\b|gigs?\b|gigabyte|(extra|more) data"
_OBJECTS = r"(task|to-?do|reservation|booking|order|account|line)s?\b"
_KINDS = (
    _Kind("cancel", "cancel anything like that", r"cancel|call\w*( \S+){0,5} off\b", "drop", "order|reserv|booking"),
    _Kind("book", "book that", r"book(?!ing)|reserv(e|ing)\b|booking for", r"mak(e|ing)|new\b", "booking|reservation"),
    _Kind("send_certificate", "get that certificate", "compensat|good ?will|travel cred", _GIVE, "certificate|voucher"),
    _Kind("exchange", "exchange that", r"exchang|swap|trad(e|ing)\b|replac"),
    _Kind("return", "return that", _BACK),
    _Kind("update_reservation_baggages", "change my bags", "", rf"{_CHANGE}|check|includ|piece", "bag|luggage|suitcas"),
    _Kind("update_reservation_passengers", "change the passengers", "passenger|travell?er", _CHANGE, "name"),
    _Kind("update_reservation_flights", "change my flights that way", "new flights?|cabin|rebook|upgrad|downgrad",
          _CHANGE, "flight|class|econom|business|reservation|booking|trip"),
    _Kind("modify_pending_order_address", "change that address", _ADDRESSES, _CHANGE, "address"),
    _Kind("modify_user_address", "change my own address", _OWN_ADDRESS, rf"{_CHANGE}|stor", "address"),
    _Kind("modify_pending_order_payment", "change the payment", r"charg|bill|pay|paid"),
    _Kind("modify_pending_order_items", "change those items", r"new items?\b|swap|replac|exchang",
          _CHANGE, "item|order|product|option"),
    _Kind("refuel", "buy data", _DATA),
    _Kind("enable_roaming", "have roaming enabled", "", r"enabl|activ|turn|switch|allow|add|make|set|put|on\b", "roam"),
    _Kind("disable_roaming", "have roaming off", "", r"disabl|deactivat|(?:turn|switch)\w* off", "roam"),
    _Kind("resume_line", "have it resumed", "suspension", _RESUME, r"line\b|service\b|number\b|suspen|active"),
    _Kind("suspend_line", "have my line suspended", "", "suspend(?!ed)", "line|service"),
    _Kind("send_payment_request", "pay that", r"payment request|request for (\w+ ){0,2}(payment|bill)",
          "sen[dt]|rais|issu|let you have|creat|generat|pay", "bill|payment|invoice"),
    _Kind("change_plan", "change my plan", "(different|another) plan", "chang|switch|mov|upgrad|downgrad", r"plan\b"),
    _Kind("create_task", "have that task created", "", r"creat|add|mak|set(ting)? up|put|new|not", "task|to-?do|list"),
    _Kind("update_task", "have that status", r"mark|flag|tick|status\b", rf"{_CHANGE}|complet|clos|label", "task"),
    _Kind("delete", "have anything deleted", "delet", "remov", _OBJECTS),
    _Kind("transfer", "be transferred", rf"transfer|{PEOPLE}|escalat"),
)  # fmt: skip
_STRONG = ("cancel", "book", "send_certificate", "return", "create_task", "delete", "transfer", "suspend", "disable")
"""Kinds whose words mean nothing else: an offer of another action on the same order does not use these."""

_CHOICES: Mapping[str, Mapping[str, str]] = {
    "cabin": {
        "basic_economy": r"basic[ _]economy",
        "economy": r"(?<!basic )(?<!basic_)economy",
        "business": r"business(?! days?\b)",
    },
    "reason": {"no longer needed": "no longer need", "ordered by mistake": "mistake"},
    "status": {"completed": r"\bcompleted?\b|finished|\bdone\b", "pending": "pending|reopen"},
    "flight_type": {"round_trip": r"round[ _-]?trip", "one_way": r"one[ _-]?way"},
}
_NAMES = {"item": "item", "payment": "payment method", "user id": "user id", "zip": "zip code"}
# An old value may be named beside the new one: wrong only where none of those named is right.
_ANY_RIGHT = frozenset({"date", "flight", "payment", "cabin", "reason", "status", "flight_type", "zip", "user id",
                        "email", "phone", "customer", "bill", "line"})  # fmt: skip
_MAIN = frozenset({"reservation", "order", "task", "bill"})
"""Kinds of identifiers that say which of several wishes is meant."""
_ITSELF = ("bill", "task")
"""Those of them that are named for their own sake alone."""
_AMOUNTS = {
    "amount": r"\$ ?(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?) ?(?:dollars|usd)",
    "gb_amount": r"(\d+(?:\.\d+)?) ?(?:extra |more )?(?:gb\b|gigs?\b|gigabytes?)",
    "total_baggages": r"\b(\d+)(?: \w+){0,2} (?:bags?|baggages?|suitcases?)",
}
_OWN_RECORD = re.compile(r"\b(?:address (?:on|in) your|(?:home|own) address|default|profile|account|on file)\b", re.I)
"""The owners of an address, beside an order."""
_ITEMS = re.compile(rf"\b(?:item|product|option)|{IDENTIFIERS['item']}", re.I)
_NOT_OFFERED = re.compile(
    rf"\b(?:{UNABLE}|not (?:be )?(?:{NOT_POSSIBLE})|(?:stay|remain)s?|unchanged|untouched)\b", re.I
)
_SENTENCE = re.compile(r"[^.?!\n]+")
_DIFFERENCE = re.compile(r"\bdifference\b", re.I)
_REFUND = re.compile(r"\brefund\w*", re.I)
_ASKS = re.compile(r"\?|\b(?:confirm|proceed|go ahead|agree)", re.I)
_PARTS = re.compile(r"(?<=[.!?;])\s+")


@dataclass(frozen=True, slots=True)
class Wish:
    """Something that the user wants done: a writing action of the golds."""

    tool: str
    arguments: Mapping[str, Any]

    def values(self) -> dict[str, list[str]]:
        """Return its identifying arguments by kind, with choices such as the cabin."""
        pairs = list(leaves(self.arguments))
        found = identifiers(" \n ".join(str(v) for name, v in pairs if name not in ("title", "summary")))
        return found | {name: [value] for name, value in pairs if name in _CHOICES and isinstance(value, str)}

    @property
    def has_main(self) -> bool:
        """Return whether it has an identifier that no other wish has."""
        return any(kind in _MAIN for kind in self.values())


@dataclass(frozen=True, slots=True)
class Verdict:
    """The user's decision on an offer.

    :param wish: the wish that it agreed to, or corrects towards.
    :param wrong: the offer's errors; empty for an agreement.
    :param beside: further wishes that the same offer is about.
    """

    wish: Wish | None
    wrong: str = ""
    beside: tuple[Wish, ...] = ()

    @property
    def wishes(self) -> tuple[Wish, ...]:
        """Return all that it is about."""
        return (*((self.wish,) if self.wish else ()), *self.beside)

    @property
    def agreed(self) -> bool:
        """Return whether the user says yes."""
        return self.wish is not None and not self.wrong


def wishes(actions: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[Wish, ...]:
    """Return the golds that change something: the user's wishes."""
    return tuple(Wish(name, arguments) for name, arguments in actions if not _READING.match(name))


def mentioned(text: str) -> dict[str, list[str]]:
    """Return the identifiers in a text, and the choices that it names."""
    found = identifiers(text)
    for name, words in _CHOICES.items():
        if named := [value for value, pattern in words.items() if re.search(pattern, text, re.I)]:
            found[name] = named
    return found


def kinds(text: str) -> tuple[tuple[str, str], ...]:
    """Return the kinds of tools that a text speaks of, with the user's refusals of them."""
    # A certificate that pays for something is not one to be sent, and an e-mail address is no place.
    text = re.sub(EMAIL_ADDRESS, "email", re.sub(IDENTIFIERS["payment"], " ", text))
    # What becomes of a difference in price follows from a change and is no offer of its own.
    text = _SENTENCE.sub(lambda s: _REFUND.sub(" ", s[0]) if _DIFFERENCE.search(s[0]) else s[0], text)
    found = [(kind.tool, kind.refusal) for kind in _KINDS if kind.is_in(text)]
    if any("address" in tool for tool, _ in found) and not _ITEMS.search(text):
        # What is changed of the order is its address.
        found = [kind for kind in found if kind[0] != "modify_pending_order_items"]
    return tuple(found)


def _offered(text: str) -> str:
    """Return a text without its words on other things: impossible ones, and ones that stay as they are."""
    kept, listing = [], False
    for line in text.split("\n"):
        # A list belongs to the line that announces it.
        listing = listing and bool(line.strip())
        left = [s for s in _PARTS.split(line) if "?" in s or not _NOT_OFFERED.search(s)]
        kept += [] if listing else [" ".join(left)]
        listing = listing or (line.rstrip().endswith(":") and not left)
    return "\n".join(kept)


def judge(text: str, wanted: Sequence[Wish]) -> Verdict | None:
    """Decide about the offer in a text; None where it offers nothing that one could decide about."""
    rest = _offered(text)
    text = rest if kinds(rest) else text
    spoken = kinds(text)
    named = mentioned(text)
    question = " ".join(s for line in text.split("\n") for s in _PARTS.split(line) if _ASKS.search(s))
    # Where what is asked about is named, others of its kind are spoken of only.
    asked_about = {kind: values for kind, values in mentioned(question).items() if kind in _MAIN}
    named |= asked_about
    asked = kinds(question)
    one = sum(map(len, asked_about.values())) == 1
    if one and asked and all(tool.startswith(_STRONG) for tool, _ in asked):
        # "... Shall I cancel order #W1?" proposes just that, whatever was said before. What is sent back may be a part
        # of an exchange.
        spoken = asked
    alike = _alike(question if spoken is asked else text, spoken, wanted)
    if not alike and not any(tool.startswith(_STRONG) for tool, _ in spoken):
        # An offer that only speaks of changing something may mean any change of what it names.
        pointed = [w for w in wanted if w not in alike and _points(named, w)]
        alike += [w for w in pointed if not w.tool.startswith(_STRONG) or not spoken or _is_all(text, named, w)]
    for kind in _ITSELF:
        # Who names a bill speaks of what is done with it.
        alike = [w for w in alike if kind in named and kind in w.values()] or alike
    if alike:
        _, verdict = min((_compare(text, named, w) for w in alike), key=lambda found: found[0])
        several = _judge_together(text, named, alike) if verdict.wrong else None
        return several if several is not None and len(several.wrong) < len(verdict.wrong) else verdict
    return Verdict(None, f"I don't want to {spoken[0][1]}") if spoken else None


def in_passing(text: str) -> bool:
    """Return whether a text speaks only of matters of any offer ("Your card will be charged.") and names none."""
    return not identifiers(text) and not any(tool.startswith(_STRONG) for tool, _ in kinds(text))


def _alike(text: str, spoken: Sequence[tuple[str, str]], wanted: Sequence[Wish]) -> list[Wish]:
    def is_meant(wish: Wish) -> bool:
        return any(wish.tool.startswith(tool) for tool, _ in spoken) or _named_alike(wish, text) or _quotes(text, wish)

    return [wish for wish in wanted if is_meant(wish)]


def _quotes(text: str, wish: Wish) -> bool:
    """Return whether a text has a wish's own words, such as the title of a task: then it speaks of that wish."""
    own = [v for k, v in wish.arguments.items() if k not in _CHOICES and isinstance(v, str) and " " in v]
    return any(value.lower() in text.lower() for value in own)


def _is_all(text: str, named: Mapping[str, list[str]], wish: Wish) -> bool:
    """Return whether a text has so many details of a thing without a number (a booking) that it can only mean this."""
    (faulty, shared, *_), _ = _compare(text, named, wish)
    return not wish.has_main and not faulty and shared <= -2


def _points(named: Mapping[str, list[str]], wish: Wish) -> bool:
    return any(set(values) & set(named.get(kind, ())) for kind, values in wish.values().items())


def _judge_together(text: str, named: Mapping[str, list[str]], alike: Sequence[Wish]) -> Verdict | None:
    """Judge a text that offers to fulfil several wishes at once; None where it names one only."""
    offered = [w for w in alike if _points({k: v for k, v in named.items() if k in _MAIN}, w) or not w.has_main]
    right: dict[str, list[str]] = {}
    for wish in offered:
        for kind, values in wish.values().items():
            right.setdefault(kind, []).extend(values)
    if len(offered) < 2 or any(kind not in right for kind in named if kind in _MAIN):
        return None
    faults = [f for kind in named if kind in right for f in _faults(kind, named[kind], right[kind])]
    faults += [f for wish in offered for f in _amount_faults(text, wish)]
    return Verdict(offered[0], "; ".join(faults), tuple(offered[1:]))


def fulfilled(sentence: str, wanted: Sequence[Wish]) -> list[Wish]:
    """Return the wishes that a sentence says are done: it names them, and nothing that is not theirs."""
    named, alike = mentioned(sentence), _alike(sentence, kinds(sentence), wanted)
    fitting = [(_compare(sentence, named, w), w) for w in alike]
    exact = [w for ((faulty, shared, *_), _), w in fitting if not faulty and shared < 0]
    # Without a name it can only be meant where there is no choice.
    return exact or (alike if len(alike) == 1 and not fitting[0][0][0][0] else [])


def _named_alike(wish: Wish, text: str) -> bool:
    """Return whether a text has the words of a tool's name, for tools that no kind is listed for."""
    words = [w for w in wish.tool.split("_") if len(w) > 2]
    listed = any(wish.tool.startswith(kind.tool) for kind in _KINDS)
    return not listed and bool(words) and sum(w[:5] in text.lower() for w in words) * 2 >= len(words)


def _compare(text: str, named: Mapping[str, list[str]], wish: Wish) -> tuple[tuple[bool, int, float, int], Verdict]:
    """Return how well an offer fits a wish (faults first, then shared details), and the verdict if it is this one."""
    right = wish.values()
    named = _acted_on(text, named, wish)
    faults = [f for kind in named if kind in right for f in _faults(kind, named[kind], right[kind])]
    faults += _amount_faults(text, wish)
    shared = sum(len(set(named.get(kind, ())) & set(values)) for kind, values in right.items())
    if "order" in named and "order" not in right:
        faults.append("that is not about an order")
        shared -= len(right) + 1
    # Among several wrong offers, the most similar one is meant.
    alike = sum(max(_likeness(v, r) for r in right[kind]) for kind in named if kind in right for v in named[kind])
    return (bool(faults), -shared, -alike, len(faults)), Verdict(wish, "; ".join(faults))


def _acted_on(text: str, named: Mapping[str, list[str]], wish: Wish) -> Mapping[str, list[str]]:
    """Return an offer's identifiers, without orders that are only mentioned (an address's source, remaining ones)."""
    mine, moves = wish.values(), "address1" in wish.arguments
    if "order" not in named or not (moves or set(mine.get("item", ())) & set(named.get("item", ()))):
        return named
    own = [v for v in named["order"] if v in mine.get("order", ())]
    if own:
        return {**named, "order": own}
    of_record = moves and "order" not in mine and _OWN_RECORD.search(text)
    return {kind: values for kind, values in named.items() if kind != "order"} if of_record else named


def _faults(kind: str, said: Sequence[str], right: Sequence[str]) -> list[str]:
    name = _NAMES.get(kind, kind.replace("_", " "))
    strangers = [v for v in said if v not in right]
    if kind in _ANY_RIGHT:
        if any(v in right for v in said):
            return []
        return [f"the {name} should be {_spoken(right[0])}, not {_spoken(said[0])}"]
    # Orders are changed once: half of the items would be the end of it. New items are the agent's to name.
    if not strangers:
        return []
    # Which items there are is for the agent to find out: they are refused and not named.
    missing = [v for v in right if v not in said] if kind != "item" else []
    closest = max(missing, key=lambda value: _likeness(strangers[0], value), default="")
    instead = f" should be {_spoken(closest)}, not" if closest else " is not"
    return [f"the {name}{instead} {_spoken(strangers[0])}"]


def _likeness(said: str, value: str) -> float:
    return SequenceMatcher(None, said, value).ratio()


def _amount_faults(text: str, wish: Wish) -> list[str]:
    faults = []
    for name, value in leaves(wish.arguments):
        pattern = _AMOUNTS.get(name) if name != "amount" or wish.tool == "send_certificate" else None
        said = [float(next(filter(None, m.groups()))) for m in re.finditer(pattern, text, re.I)] if pattern else []
        if said and float(value) not in said:
            faults.append(f"it should be {value:g}, not {said[0]:g}")
    return faults


def _spoken(value: str) -> str:
    return SPOKEN.get(value, value)
