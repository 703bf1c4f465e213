"""What an agent's text wants of the user: facts, a decision, patience, a farewell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

SLOTS: Mapping[str, str] = {
    "user id": r"\b(id|identifier)\b( of| for| on)? (your |the )?(user|customer|account|profile|member)|"
    r"\b(user|customer|account|profile|member)[ -]?(id|identifier|number|name)s?\b|\busername\b",
    "email": r"\be-?mail",
    "zip": r"\bzip|\bpostal code|\bpostcode",
    "name": r"\b(full|first|last|your|legal|sur)[ -]?name|\bname (on|and|as)\b|\bwho (am i|are you|is this|do i)\b"
    r"|\bwhom am i",
    "phone": r"\bphone (number|no)\b|\bmobile number|\bnumber of (your|the) (phone|line)|\bcontact number",
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
    "date": r"\b(date|day)s?\b(?! of birth)|\bwhen\b",
    "cabin": r"\bcabin|\btravel class|\bwhich class|\bclass of (service|travel)",
    "baggage": r"\b(bags?|baggage|suitcases?|luggage)\b",
    "insurance": r"\binsurance",
    "passengers": r"\bpassengers?|\bwho (is|will be|are) (fly|travel)",
    "cause": r"\breason|\bwhy\b",
    "address": r"\baddress(?!es in)",
    "trip": r"\b(one[- ]way|round[- ]trip)",
    "origin": r"\borigin|\b(fly|flying|depart|departing|leave|leaving|travel\w*) from|\bdeparture (city|airport)",
    "destination": r"\bdestination|\b(fly|flying|travel\w*) to\b|\barrival (city|airport)",
    "task": r"\btask ?(id|number)|\bwhich task",
    "title": r"\btitle|\btask be called|\bname (of|for) the task",
    "status": r"\b(what|which|new) status",
    "amount": r"\bhow (much|many gb|many gigabytes)|\b(what|which) amount|\bamount of data",
}
"""What agents ask for, and how."""

_EMAIL_ADDRESS = re.compile(r"e-?mail address", re.I)
_REQUEST = re.compile(
    r"\?|\b(please|kindly|provide|share|tell me|give me|send me|let me (know|have)|supply|state|specify|enter|"
    r"type|verify|confirm|i(['\u2019]ll| will|['\u2019]d)? (also |first |just )?(need|require|like|want)|"
    r"may i|can i|could i|"
    r"need (your|the|to know)|ask (you )?for|required?:?|missing|"
    r"could you|can you|would you|what|which|who|waiting for|looking for your|start with your|begin with your)\b",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(confirm\w*|proceed|go(ing)? ahead|go[- ]ahead|shall (i|we)|should (i|we)|may i|can i|could i|"
    r"do you (want|agree|"
    r"approve|consent|authori[sz]e|accept|wish)|would you like (me|us|to)|is (that|this|it|everything|"
    r"all of (this|that)) "
    r"(ok|okay|alright|all right|right|correct|fine|accurate|good|what you)|sounds? (good|right|ok)|yes or no|yes/no|"
    r"['\"\u201c]?\byes\b['\"\u201d]? (to|if|and|or)|(reply|say|answer|type|respond|"
    r"write)( me)?( with)?( a)?( simple)? "
    r"['\"\u201c]?yes|(your|the) (approval|consent|go-ahead|permission|ok|okay|word|authori[sz]ation)|"
    r"are you (sure|happy|ok|"
    r"okay|fine|certain|good|comfortable|in agreement)|agreed?|approve|ok(ay)?\?|right\?|correct\?|alright\?|good\?|"
    r"want me to|happy for me|fine (with|by|for) you|(ok|okay) (with|by|for) you|permission to|any objections?|"
    r"all right (with|for|by) you|want (that|this|it) done|do (that|this|it)( now)?\?|is that a yes|yes\?)",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"\b(any(thing|one)? (else|more|further)|something else|further (help|assistance|questions|requests)|"
    r"(what|who|something|anything|somewhere|nothing) else|other (things?|issues?|requests?|questions?|"
    r"matters?|concerns?)|good ?bye|have a (great|good|nice|lovely|wonderful)|"
    r"take care(?! of)|glad (i|to|that)|pleasure|thank you for (your patience|calling|contacting us|choosing)|"
    r"(all|everything)( of (it|that|this))? (is|are|has been) (now )?(settled|done|sorted|complete\w*|taken care)|"
    r"everything that can be done|"
    r"all set|next (issue|point|item on|request|matter)|will that be all|is that all|more i can|wrap(ped)? up)\b",
    re.IGNORECASE,
)
_TRANSFERRED = re.compile(
    r"\byou are being transferred|\byou(['\u2019]ve| have) been transferred|\bi(['\u2019]ve| have) transferred you|"
    r"\b(call|chat|case|you) (is|are|was|has been) (now )?(being )?(transferred|handed over|escalated) to",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"\b(i|we)( am|['\u2019]m| are|['\u2019]re)? ?(sorry|afraid|unable|not able|not allowed|not permitted|"
    r"cannot|can['\u2019]t|"
    r"can not|won['\u2019]t|will not be able)|\b(is|are|was) (not|n't) (possible|allowed|eligible|permitted|available)|"
    r"\bnot (possible|eligible|allowed|permitted)|\bunfortunately|\bpolicy does(n't| not)|"
    r"\bcannot be (cancel|chang|modif|"
    r"refund|return|exchang|done)|\bimpossible",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Heard:
    """What one text of the agent wants.

    :param slots: keys of :data:`SLOTS` that it asks for.
    :param decision: it wants a yes or a no.
    :param closing: it asks for anything else, or takes its leave.
    """

    slots: tuple[str, ...] = ()
    decision: bool = False
    question: bool = False
    closing: bool = False
    refused: bool = False
    transferred: bool = False


_WH = re.compile(
    r"^\W*((and|so|ok\w*|please|could you|can you|tell me|let me know|confirm|also|sure|great|thanks?|first|to start|"
    r"may i (ask|know)|would you)\b[\s,]*)*(which|what|who|whom|how|why|when|where)\b",
    re.IGNORECASE,
)


def read(text: str, *, offer: bool = False) -> Heard:
    """Read an agent's text.

    :param offer: it offers to do something: what its yes-or-no question names is offered and not asked for.
    """
    rest = _CLOSING.sub(" ", text)
    # A list belongs to the sentence that announces it.
    joined = re.sub(r":?\s*\n\s*(?:[-*\u2022]|\d[.)])\s*", ", ", rest)
    sentences = re.split(r"(?<=[.!?])\s+|\n+", joined)
    # Whatever its words, a question that names an offer wants a yes or a no.
    deciding = [s for s in sentences if not _WH.search(s) and (_DECISION.search(s) or (offer and s.endswith("?")))]
    asking = [s for s in sentences if (_REQUEST.search(s) or len(s.split()) < 6) and not (offer and s in deciding)]
    return Heard(
        slots=_slots(asking),
        decision=bool(deciding),
        question="?" in rest,
        closing=bool(_CLOSING.search(text)),
        refused=bool(_REFUSED.search(rest)),
        transferred=bool(_TRANSFERRED.search(text)),
    )


def _slots(sentences: list[str]) -> tuple[str, ...]:
    plain = [_EMAIL_ADDRESS.sub("email", sentence) for sentence in sentences]
    return tuple(slot for slot, pattern in SLOTS.items() if any(re.search(pattern, s, re.I) for s in plain))
