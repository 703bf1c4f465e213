"""Whether the user agrees to what the agent offers to do, judged against what the task's golds would do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.user.scenario import IDENTIFIERS, identifiers, leaves
from pytest_a2a_bench.benchmarks.tau2.user.understand import EMAIL_ADDRESS, NOT_POSSIBLE, PEOPLE, SPOKEN, UNABLE

_READING = re.compile(r"^(get|find|list|search|check|calculate|think|look|read|kb|log_)", re.I)
_GAP = r"(?:[^.?!]|\.\d)*"
_DIFFERENCE = re.compile(r"[^.?!\n]*\bdifference\b[^.?!\n]*", re.I)
_CHANGE = (
    r"(chang|updat|modif|switch|replac|correct|edit|adjust|rebook|mov|upgrad|downgrad|swap|set|put|add|amend|alter|"
    r"bring|shift|convert|revis|fix|us(?:e|ing)\b|becom|instead|turn|have|new\b|\bto\b|now\b)"
)
_KINDS: tuple[tuple[str, str, str], ...] = (
    ("cancel", r"cancel|\bcall\w* (?:it |that |\S+ )?off|annul|\bvoid|\bdrop\w*\b.*\b(?:order|reservation|booking)",
     "cancel anything like that"),
    ("book", r"\bbook(?!ing)|new (booking|reservation|flight)|mak(e|ing) (a|the|you a) (\w+ )?(booking|reservation)|"
     r"\breserve\b|\breserving|\bbooking for", "book that"),
    ("send_certificate", rf"(send|sent|issu|offer|giv|provid|grant|get|receiv|award|put){_GAP}(certificate|voucher)|"
     rf"(certificate|voucher)\w*{_GAP}(send|sent|issu|compensat|inconvenien|trouble|gesture|apolog|delay)|"
     r"compensat|good ?will|travel credit", "get that certificate"),
    ("exchange", r"exchang|swap|\btrad(e|ing)|replac", "exchange that"),
    ("return", r"\breturn(?!ed to you| flight)|\b(send|tak|giv|ship|bring)\w*( \S+){0,12} back\b|\brefund",
     "return that"),
    ("update_reservation_baggages", rf"({_CHANGE}\w*|check\w*|includ|pieces?){_GAP}(bag|luggage|suitcase)|"
     rf"(bag|luggage|suitcase)\w*{_GAP}{_CHANGE}", "change my bags"),
    ("update_reservation_passengers", rf"{_CHANGE}\w*{_GAP}(passenger|travell?er|name)|(passenger|travell?er)s?\b",
     "change the passengers"),
    ("update_reservation_flights", rf"{_CHANGE}\w*{_GAP}(flight|cabin|class|econom|business|reservation|booking|trip)|"
     r"new flights?|\brebook|\bcabin|\bupgrad|\bdowngrad", "change my flights that way"),
    ("modify_pending_order_address", rf"{_CHANGE}\w*{_GAP}address|\b(re-?rout|re-?direct|ship|send|deliver|go(?:es|"
     rf"ing)?\b)\w*{_GAP} to\b|(shipping|delivery) address|deliver(ed)? to", "change that address"),
    ("modify_user_address", rf"{_CHANGE}\w*{_GAP}address|\baddress (on|in) (your|file|the)|(default|home|profile|"
     r"account|new) address|\bstor\w*\b.*address|address on file", "change my own address"),
    ("modify_pending_order_payment", rf"{_CHANGE}\w*{_GAP}pa(y|id)|\b(charg|bill|pay|paid)\w*\b", "change the payment"),
    ("modify_pending_order_items", rf"({_CHANGE}|exchang)\w*{_GAP}(item|order|product|option)|\bnew items?\b|"
     rf"\bitems?\b{_GAP}\b{_CHANGE}|\b(swap|replac|exchang)", "change those items"),
    ("refuel", r"refuel|\btop\w*( you| your \w+| it)? ?-?up|\b(gb|gigs?|gigabytes?)\b|\b(extra|more|additional) data",
     "buy data"),
    ("enable_roaming", rf"(enabl|activat|turn|switch|allow|add|make|set|put)\w*{_GAP}roam|roam\w*{_GAP}(enabl|activ|"
     r"\bon\b|available|allow)", "have roaming enabled"),
    ("disable_roaming", rf"(disabl|deactivat|turn(ing)? off|switch(ing)? off)\w*{_GAP}roaming", "have roaming off"),
    ("resume_line", r"(resum|re-?activat|restor|unsuspend|lift|re-?instat|re-?start|re-?connect|re-?enabl|unblock|"
     rf"unlock|unfreez|get|bring|put|turn|switch|activat|back){_GAP}\b(line|service|suspension|number)|"
     r"\bline (resum|re-?activat|restor|re-?instat|re-?connect|unblock|unlock)|\bsuspension\b|"
     r"\bsuspended\W[\s\S]{0,25}\bactive\b",
     "have it resumed"),
    ("suspend_line", rf"\bsuspend(?!ed)\w*{_GAP}(line|service)", "have my line suspended"),
    ("send_payment_request", r"payment request|request for payment|(send|rais|issu|let you have|creat|"
     rf"generat)\w*{_GAP}(bill|payment|invoice)|pay\w*{_GAP}bill|request for (the |your )?(\w+ )?bill", "pay that"),
    ("change_plan", rf"(chang|switch|mov|upgrad|downgrad)\w*{_GAP} plan\b|different plan|another plan",
     "change my plan"),
    ("create_task", rf"(creat|add|mak|set(ting)? up|put|open|log|new|not)\w*{_GAP}(task|to-?do|list)",
     "have that task created"),
    ("update_task", rf"({_CHANGE}|mark|complet|clos|flag|tick|label|statu)\w*{_GAP}task|\b(mark|flag|tick)\w*|"
     r"\bstatus\b", "have that status"),
    ("delete", rf"delet|\bremov\w*{_GAP}\b(?:tasks?|to-?dos?|reservations?|bookings?|orders?|accounts?|lines?)\b",
     "have anything deleted"),
    ("transfer", rf"transfer|{PEOPLE}|escalat", "be transferred"),
)  # fmt: skip
"""How texts speak of kinds of tools: a tool's name begins with the first, a text has the second."""
_HEARD = tuple((tool, refusal, re.compile(pattern, re.I)) for tool, pattern, refusal in _KINDS)

_STRONG = ("cancel", "book", "send_certificate", "return", "create_task", "delete", "transfer", "suspend", "disable")
"""Kinds whose words mean nothing else: who wants another thing of the same order does not want these."""

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
_SPOKEN = {"item": "item", "payment": "payment method", "user id": "user id", "zip": "zip code"}
# An old value may be named beside the new one: wrong only where none of those named is right.
_ANY_RIGHT = frozenset({"date", "flight", "payment", "cabin", "reason", "status", "flight_type", "zip", "user id",
                        "email", "phone", "customer", "bill", "line"})  # fmt: skip
_MAIN = frozenset({"reservation", "order", "task", "bill"})
"""Kinds that say which of several wishes is meant."""
_ITSELF = ("bill", "task")
"""Those of them that are named for their own sake alone."""
_AMOUNTS = {"amount": r"\$ ?(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?) ?(?:dollars|usd)", "gb_amount": r"(\d+(?:\.\d+)?) "
r"?(?:extra |more )?(?:gb\b|gigs?\b|gigabytes?)",
            "total_baggages": r"\b(\d+)(?: \w+){0,2} (?:bags?|baggages?|suitcases?)"}  # fmt: skip


_CONTEXT = re.compile(rf"\b(?:{UNABLE}|not (?:be )?(?:{NOT_POSSIBLE})|(?:stay|remain)s?|unchanged|untouched)\b", re.I)
_ELSEWHERE = re.compile(r"\b(?:found|see|used|listed|taken|same as|from)\b[^.?!\n#]{0,40}#W\d{7}", re.I)
"""Where an address was found."""
_ASKS = re.compile(r"\?|\b(?:confirm|proceed|go ahead|agree)", re.I)


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
    # A certificate that pays for something is not one to be sent, and an e-mail address is no place.
    plain = re.sub(EMAIL_ADDRESS, "email", re.sub(IDENTIFIERS["payment"], " ", text))
    # What becomes of a difference in price follows from a change and is no offer of its own.
    plain = re.sub(_DIFFERENCE, lambda sentence: re.sub(r"\brefund\w*", " ", sentence[0], flags=re.I), plain)
    return tuple((tool, refusal) for tool, refusal, heard in _HEARD if heard.search(plain))


def _offered(text: str) -> str:
    """Return a text without what it says of other things: what cannot be done, and what stays as it is."""
    kept, listing = [], False
    for line in text.split("\n"):
        # A list belongs to the line that announces it.
        listing = listing and bool(line.strip())
        left = [s for s in re.split(r"(?<=[.!?;])\s+", line) if "?" in s or not _CONTEXT.search(s)]
        kept += [] if listing else [" ".join(left)]
        listing = listing or (line.rstrip().endswith(":") and not left)
    rest = "\n".join(kept)
    return _ELSEWHERE.sub(" ", rest) if "address" in text else rest


def judge(text: str, wanted: Sequence[Wish]) -> Verdict | None:
    """Decide about the offer in a text; None where it offers nothing that one could decide about."""
    rest = _offered(text)
    text = rest if kinds(rest) else text
    spoken = kinds(text)
    named = mentioned(text)
    asking = mentioned(" ".join(s for s in re.split(r"(?<=[.!?;])\s+|\n", text) if _ASKS.search(s)))
    # Where what is asked about is named, others of its kind are spoken of only.
    named |= {kind: values for kind, values in asking.items() if kind in _MAIN}
    alike = [w for w in wanted if any(w.tool.startswith(tool) for tool, _ in spoken) or _named_alike(w, text)]
    if not any(tool.startswith(_STRONG) for tool, _ in spoken):
        # Who only speaks of changing something may mean any change of what it names.
        strong = [w for w in wanted if w.tool.startswith(_STRONG)]
        pointed = [w for w in wanted if w not in alike and _points(named, w)]
        alike += [w for w in pointed if w not in strong or not spoken or _is_all(text, named, w)]
    for kind in _ITSELF:
        # Who names a bill speaks of what is done with it.
        alike = [w for w in alike if kind in named and kind in w.values()] or alike
    if alike:
        _, verdict = min((_compare(text, named, w) for w in alike), key=lambda found: found[0])
        several = _judge_together(text, named, alike) if verdict.wrong else None
        return several if several is not None and len(several.wrong) < len(verdict.wrong) else verdict
    return Verdict(None, f"I don't want to {spoken[0][1]}") if spoken else None


def in_passing(text: str) -> bool:
    """Whether a text speaks of things that may belong to any offer ("Your card will be charged.") and names none."""
    return not identifiers(text) and not any(tool.startswith(_STRONG) for tool, _ in kinds(text))


def _is_all(text: str, named: Mapping[str, list[str]], wish: Wish) -> bool:
    """Whether a text has so much of what has no number of its own (a booking) that it can only mean this."""
    (faulty, shared, *_), _ = _compare(text, named, wish)
    return not _has_main(wish) and not faulty and shared <= -2


def _points(named: Mapping[str, list[str]], wish: Wish) -> bool:
    return any(set(values) & set(named.get(kind, ())) for kind, values in wish.values().items())


def _judge_together(text: str, named: Mapping[str, list[str]], alike: Sequence[Wish]) -> Verdict | None:
    """Judge a text that offers to fulfil several wishes at once; None where it names one only."""
    offered = [w for w in alike if _points({k: v for k, v in named.items() if k in _MAIN}, w) or not _has_main(w)]
    if len(offered) < 2:
        return None
    right: dict[str, list[str]] = {}
    for wish in offered:
        for kind, values in wish.values().items():
            right.setdefault(kind, []).extend(values)
    if any(kind not in right for kind in named if kind in _MAIN):
        return None
    faults = [f for kind in named if kind in right for f in _faults(kind, named[kind], right[kind])]
    faults += [f for wish in offered for f in _amount_faults(text, wish)]
    return Verdict(offered[0], "; ".join(faults), tuple(offered[1:]))


def _has_main(wish: Wish) -> bool:
    return any(kind in _MAIN for kind in wish.values())


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
        return [f"the {name} should be {_spoken(right[0])}, not {_spoken(said[0])}"]
    # Which items there are is for the agent to find out: they are refused and not named.
    missing = [v for v in right if v not in said] if kind != "item" else []
    if strangers:
        instead = f" should be {_spoken(_closest(strangers[0], missing))}, not" if missing else " is not"
        return [f"the {name}{instead} {_spoken(strangers[0])}"]
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
        said = [float(next(filter(None, m.groups()))) for m in re.finditer(pattern, text, re.I)] if pattern else []
        if said and float(value) not in said:
            faults.append(f"it should be {value:g}, not {said[0]:g}")
    return faults


def _spoken(value: str) -> str:
    return SPOKEN.get(value, value)
