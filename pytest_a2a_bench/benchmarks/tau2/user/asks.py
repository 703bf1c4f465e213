"""What an agent's text wants of the user: facts, a decision, patience, a farewell."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pytest_a2a_bench.benchmarks.tau2.user.clauses import Mood, clauses, cleaned
from pytest_a2a_bench.benchmarks.tau2.user.facts import identifiers
from pytest_a2a_bench.benchmarks.tau2.user.words import (
    ASKS_FOR,
    CHANGES,
    EMAIL_ADDRESS,
    LISTED,
    NOT_POSSIBLE,
    PEOPLE,
    UNABLE,
    plain,
)

SLOTS: Mapping[str, str] = {
    "user id": r"\b(id|identifier)\b( of| for| on)? (your |the )?(user|customer|account|profile|member)|"
    r"\b(user|customer|account|profile|member)[ _-]?(id|identifier|number|name)s?\b|\busername\b",
    "email": r"\be-?mail|\bmail address",
    "zip": r"\bzip|\bpostal code|\bpostcode",
    "name": r"\b(full|first|last|your|legal|sur|family)[ -]?name|(?<!user )\bname\b(?! (of|for) the)|\bcalled\b|"
    r"\bwho (am i|are you|is this|do i)\b"
    r"|\bwhom am i",
    "phone": r"\b(tele)?(phone|mobile|cell|contact|line)(['\u2019]s)? ?(number|no\b)|\b(what|which|your) number\b|"
    r"\bthe number (that|which|you|it)\b|"
    r"\bnumber (of|for|on|under) (your|the|that) (\w+ )?(tele)?(phone|line|mobile|account|service)|\bcalling (from|"
    r"about)",
    "birthday": r"\bbirth|\bdob\b",
    "order": r"\b(id|number|reference) (of|for|on) (your|the|that|this) (order|purchase)|\border(s|"
    r"['\u2019]s)? ?(id|number|no\b|#|reference)|\b(which|what) orders?\b",
    "reservation": r"\b(id|number|code) (of|for|on) (your|the|that|this) (reservation|booking|trip)|"
    r"\b(reservation|booking|confirmation)s?(['\u2019]s)? ?(id|number|code|reference)"
    r"|\b(which|what) (reservation|booking)",
    "item": r"\bitem ?(id|number)|\b(which|what) items?\b",
    "payment": r"\bpay(ment)? ?(method|option|source|type)|\bpay (with|by|using|for)\b|\b(which|what) (card|account)\b"
    r"|\bhow (would|do|will|should|did) (you|i)\b[^?.]*\b(pay|paid|refund)|\brefunded? to\b",
    "flight": r"\bflight (number|no\b)",
    "date": r"\bdates?\b(?! of birth)|\b(which|what) day|\bwhen (do|does|did|will|would|should|is|are|was)\b",
    "cabin": r"\bcabin|\btravel class|\bwhich class|\bclass of (service|travel)",
    "baggage": r"\b(bags?|baggage|suitcases?|luggage)\b",
    "insurance": r"\binsurance",
    "passengers": r"\bpassengers?|\bwho (is|will be|are) (fly|travel)",
    "cause": r"\breason|\bwhy\b",
    "address": r"\baddress(?!es in)",
    "trip": r"\b(one[- ]way|round[- ]trip)",
    "origin": r"\borigin\b|\b(fly|flying|depart|departing|leave|leaving|travel\w*) from|\bdeparture (city|airport)",
    "destination": r"\bdestination|\b(fly|flying|travel\w*) to\b|\barrival (city|airport)",
    "task": r"\btask ?(id|number)|\bwhich task",
    "title": r"\btitle|\btask be called|\bname (of|for) the task",
    "status": r"\b(what|which|new) status",
    "amount": r"\bhow (much|many gb|many gigabytes)|\b(what|which) amount|\bamount of data",
}
"""What agents ask for, and how."""
_SLOTS = tuple((slot, re.compile(pattern, re.I)) for slot, pattern in SLOTS.items())

_REQUEST = re.compile(
    rf"\?|\b(please|kindly|{ASKS_FOR}|let me (know|have)|"
    r"type|verify|confirm|i(['\u2019]ll| will|['\u2019]d)? (also |first |just )?(need|require|like|want)|"
    r"may i|can i|could i|"
    r"need (your|the|to know)|ask (you )?for|required?:?|missing|"
    r"could you|can you|would you|what|which|who|waiting for|looking for your|start with your|begin with your)\b",
    re.IGNORECASE,
)
_NEEDS = re.compile(
    r"\b(?:need|needs|needed|requires?|required|missing|lack|must have|shall have|want|wants|would like|"
    r"['\u2019]d like|"
    r"ask|asks|asking|looking for|waiting for|wait for|depends? on|start with|starts with|begin with|begins with|tell|"
    r"give me|have (?:you|u)|(?:may|can|could|might|shall) (?:i|we)|don['\u2019]?t (?:have|know|see)|without|verify|"
    r"have to know|must know|wonder\w*)\b",
    re.I,
)
_WISHED_OF_US = re.compile(r"\b(?:like|love|want|need|ask(?:ed|ing)?|prefer|wish|for) (?:me|us) to\b", re.I)
_PREPOSITION = re.compile(r"^\W*(?:for|about|regarding|with|of|on|in|by|from|under|at)\b", re.I)
_DECISION = re.compile(
    r"\b(confirm(?!\w* (?:when|once (?:it|that|this|you|done)|after|as soon|back|completion|"
    r"that you(?: have|['\u2019]ve)))\w*|"
    r"(?<!please )proceed|"
    r"go(ing)? ahead(?! and\b| then and\b)|go-ahead|shall (i|we)|should (i|we)|may i|can i|"
    r"could i|"
    r"do you (want|agree|"
    r"approve|consent|authori[sz]e|accept|wish)|would you like (me|us|to)|is (that|this|it|everything|"
    r"all of (this|that)) "
    r"(ok|okay|alright|all right|right|correct|fine|accurate|good|what you)|sounds? (good|right|ok)|"
    r"(?<=\w)\W{1,4}yes\b|yes or no|yes/no|"
    r"(your|the) (approval|consent|go-ahead|permission|ok|okay|word|authori[sz]ation)|"
    r"are you (sure|happy|ok|"
    r"okay|fine|certain|good|comfortable|in agreement)|agreed?|approve|ok(ay)?\?|right\?|correct\?|alright\?|good\?|"
    r"\by/n\b|want me to|happy for me|fine (with|by|for) you|(ok|okay) (with|by|for) you|"
    r"\b(i|we)\b[^.?!]{0,30}\bpermission to|any objections?|"
    r"all right (with|for|by) you|want (that|this|it) done|do (that|this|it)( now)?\?)",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"\b(any(thing|one)? (else|more|further)|something else|further (help|assistance|questions|requests)|"
    r"what else (can|may|could|should) (i|we) (do|help|assist)( you)?( with| for you)*|"
    r"(what|who|something|anything|somewhere|nothing) else|other (things?|issues?|requests?|questions?|"
    r"matters?|concerns?)|good ?bye|have a (great|good|nice|lovely|wonderful)|"
    r"take care(?! of)|glad (i|to|that)|pleasure|thank you for (your patience|calling|contacting us|choosing)|"
    r"(all|everything)( of (it|that|this))? (is|are|has been) (now )?(settled|done|sorted|complete\w*|taken care)|"
    r"everything that can be done|"
    r"all set|next (issue|point|item on|request|matter)|will that be all|(that['\u2019]?s|that (is|was)) (all|it|"
    r"everything)(?=(?! (?:i|we) need)(?: |\W*$))|"
    r"more i can|wrap(ped)? up|(bye|farewell|cheerio|cheers|see (you|ya)|so long)(?=\W|$)|covered everything|"
    r"another thing|"
    r"still (need )?(something|anything)|(other|further) (matter|thing)|wish you|enjoy (your|the)|(matter|case|"
    r"issue) (is )?(now )?"
    r"(closed|concluded|settled|resolved)|all (done|sorted|good)|n e thing else|still missing)\b"
    r"|^\W*(done|resolved|cya|ta-?ta)\W*$|(^|[.!?:]\s+)(it|this|that|all|everything|everything['\u2019]s|we|"
    r"we['\u2019]re|the \w+)( is| are)?"
    r"( now| all)* (finished|concluded|complete|settled|done|taken care of)\b",
    re.IGNORECASE,
)
_HANDED_OVER = re.compile(
    r"(?:^|[.!?;,]\s+|\n|\b(?:so|i|we|and|now|been|being|is|am|are|have|has)\b[^.!?,;]{0,30}?)"
    r"\b(?:transfer|transferr?ed|transferring|pass(?:ed|ing)|put(?:ting)?|hand(?:ed|ing)|connect(?:ed|ing)|referred|"
    r"escalated|forward(?:ed|ing)|connecting)\b"
    rf"[^.!?]{{0,40}}\b(?:to|over to|through to|with)\b[^.!?]{{0,25}}\b(?:{PEOPLE}|humans|colleagues|"
    r"representative|person|live agent)\b",
    re.IGNORECASE,
)
_MAY = re.compile(
    r"\?|\b(?:can|could|shall|should|would|may|might|if|want|like|unless|happy to|able to|option)\b", re.I
)
_TRANSFERRED = re.compile(
    r"\byou are being (transferred|connected)|\byou(['\u2019]ve| have) been transferred|"
    r"\bi(['\u2019]ve| have) transferred you|"
    r"\b(call|chat|case|you) (is|are|was|has been) (now )?(being )?(transferred|handed over|escalated) to",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    rf"\b(i|we)( am|['\u2019]m| are|['\u2019]re)? ?({UNABLE}|not allowed|not permitted|will not be able)|"
    rf"\b(is|are|was) (not|n't) ({NOT_POSSIBLE}|available)|\bnot ({NOT_POSSIBLE})|\bunfortunately|"
    rf"\bpolicy does(n't| not)|\bcannot be ({CHANGES}|refund|done)|\bimpossible",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Heard:
    """What one text of the agent wants.

    :param slots: keys of :data:`SLOTS` that it asks for.
    :param decision: it wants a yes or a no.
    :param doubt: it asks something that is no fact, as who wants to be sure of what was said before: "You're sure?"
    :param closing: it asks for anything else, or takes its leave.
    """

    slots: tuple[str, ...] = ()
    decision: bool = False
    doubt: bool = False
    question: bool = False
    closing: bool = False
    refused: bool = False
    transferred: bool = False


_WH = re.compile(
    r"^\W*((and|so|ok\w*|please|could you|can you|tell me|let me know|confirm|also|sure|great|thanks?|first|to start|"
    r"may i (ask|know)|would you)\b[\s,]*)*(which|what|who|whom|how|why|when|where)\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(r"^\W*(what|which)( \w+)? (is|are|was|were|does|do) (it|that|this|they|those)\b", re.I)
_LABEL = re.compile(r"^\W*([\w' -]{2,40})[*_\s]*:[*_\s]*(?=[^\s*_/])(.*)$", re.M)


def read(text: str, *, offer: bool = False) -> Heard:
    """Read an agent's text.

    :param offer: it offers to do something: what its yes-or-no question names is offered and not asked for.
    """
    rest = _CLOSING.sub(" ", text)
    joined = LISTED.sub(", ", cleaned(rest, bullets=True))
    sentences = [s for s in re.split(r"(?<=[.!?])\s+|\n+", joined) if s.strip()]
    # Whatever its words, a question that names an offer wants a yes or a no.
    deciding = [s for s in sentences if not _WH.search(s) and (_DECISION.search(s) or (offer and _asks(s)))]
    slots = _slots(rest, but=deciding if offer else (), offer=offer)
    return Heard(
        slots=slots,
        decision=bool(deciding),
        doubt=not slots and any(_asks(s) and not _WH.search(s) for s in sentences),
        question="?" in rest,
        closing=bool(_CLOSING.search(text)),
        refused=bool(_REFUSED.search(rest)),
        transferred=bool(_TRANSFERRED.search(text)) or _handed_over(text),
    )


def wants(text: str, slots: Collection[str]) -> bool:
    """Whether a text may want any of some facts, however it is worded: it names one, or needs something."""
    needs = any(c.mood is Mood.STATED and _NEEDS.search(c.body) for c in clauses(text))
    return needs or any(re.search(SLOTS[slot], text, re.I) for slot in slots)


def _handed_over(text: str) -> bool:
    """Whether a text says that somebody else goes on: as a fact, and neither asked nor offered."""
    for sentence in re.split(r"(?<=[.!?])\s+|\n+", cleaned(text)):
        found = _HANDED_OVER.search(sentence)
        if found is None or _asks(sentence) or re.search(r"\b(?:if|unless|whether)\b", sentence, re.I):
            continue
        if not _MAY.search(sentence[: found.end()].rpartition(",")[2]):
            return True
    return False


def _asks(sentence: str) -> bool:
    return sentence.rstrip(" \"')*_").endswith("?")


def _slots(text: str, but: Collection[str], *, offer: bool) -> tuple[str, ...]:
    """Return what clauses ask for: those that tell or ask the user something, that need something, or only name it.

    :param but: sentences that are no such question.
    :param offer: what is only named belongs to the offer.
    """
    left = _LABEL.sub(lambda m: m[0] if not _labelled(m[1], m[2]) else "", cleaned(text))
    offered = [plain(sentence) for sentence in but]
    asking: list[str] = []
    last = ""
    for clause in clauses(left):
        body = EMAIL_ADDRESS.sub("email", clause.body)
        if clause.mood is Mood.ASKED and _POINTS_BACK.search(body):
            # "You have a number there. What is it?"
            body = f"{body} {last}"
        last = body
        if offered and any(plain(clause.body) in sentence for sentence in offered):
            continue
        if clause.mood is Mood.NAMED and (
            offer or _PREPOSITION.match(body) or len(body.split()) > 8 + 8 * clause.question
        ):
            continue
        if not _WISHED_OF_US.search(body) and (clause.mood is not Mood.STATED or _NEEDS.search(body)):
            asking.append(body)
    return tuple(
        slot
        for slot, pattern in _SLOTS
        if any(pattern.search(body) and not identifiers(body).get(slot) for body in asking)
    )


def _labelled(label: str, value: str) -> bool:
    """Whether a line gives something ("Order: #W1") and asks for nothing ("Please send: your e-mail")."""
    short = len(label.split()) <= 4 and not _REQUEST.search(label)
    return short and not any(re.search(pattern, value, re.I) for pattern in SLOTS.values())
