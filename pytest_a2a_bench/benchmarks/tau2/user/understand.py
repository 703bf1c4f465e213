"""What an agent's text says, clause by clause, and what it wants of the user: facts, a decision, patience, a farewell.

Agents word instructions without end, so none is listed here. What is recognised are the few forms that are *not* one (a
statement, the agent's own doing, a condition, a prohibition, a question); what remains is addressed to the user.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from pytest_a2a_bench.benchmarks.tau2.user.scenario import identifiers

LISTED = re.compile(r":?\s*\n\s*(?:[-*\u2022]|\d[.)])\s*")
"""What announces an entry of a list: the list belongs to the sentence before it."""
EMAIL_ADDRESS = re.compile(r"\b(?:e-?)?mail address", re.I)
"""An address that is no place."""

LOOKS = r"check|look|see|verify|confirm|review"
"""Verbs of looking at something."""
TELLS = rf"{LOOKS}|tell|know|inform|say|report|note|describe"
"""Verbs of looking and of telling what was seen."""
ASKS_FOR = r"provide|share|tell me|give me|send me|supply|state|specify|enter"
"""How somebody is asked for what he knows."""
ASKS_WHY_CALLED = (
    r"how (?:can|may|could) (?:i|we) (?:help|assist)|what (?:can|could) (?:i|we) do|what (?:would you like|"
    r"do you (?:want|need)|brings|is it about|are you calling|seems to be|is the (?:problem|issue|matter))"
)
"""How somebody is asked what he calls about."""
CHANGES = r"cancel|chang|modif|return|exchang"
"""Stems of the verbs of changing what was booked or bought."""
CHANGED = r"cancell?ed|booked|updated|changed|returned|exchanged|sent|created"
"""What is told of something that was done."""
SWITCHES = r"turn|switch|toggle|flip"
"""Verbs of what has two states."""
UNABLE = r"can ?not|can['\u2019]t|unable|not able|won['\u2019]t|afraid|sorry,? but"
"""How somebody says that he will not do it."""
NOT_POSSIBLE = r"possible|eligible|allowed|permitted"
"""What something is not that will not be done."""
PEOPLE = r"human|colleague|specialist|supervisor"
"""Whom a customer is handed over to."""

SPOKEN: Mapping[str, str] = {"basic_economy": "basic economy", "one_way": "one way", "round_trip": "round trip"}
"""Values of arguments as a customer says them, where that is not as they are written."""


def plain(text: str) -> str:
    """Return the words of a text in small letters, with single spaces: texts that differ in nothing else are equal."""
    return " ".join(re.findall(r"\w+", text.lower()))


_MARKUP = re.compile(r"[*_`~]{2,}|(?<!\w)[*_`](?=\S)|(?<=\S)[*_`](?!\w)|^[ \t]*#+ |^[ \t]*>+ ?", re.M)
_BULLET = re.compile(r"^[ \t]*(?:[-*\u2022\u25cf\u25aa\u2013]|\(?(?:\d+|[a-z])[.)]|step \d+[:.)])[ \t]*", re.M | re.I)
_LIST_NUMBER = re.compile(r"(?:(?<=[:;,.]\s)|(?<=^))\(?\d+[.)]\s+", re.M)
_SYMBOLS = re.compile("(?<!\\w)[:;]-?[()DP](?!\\w)|[\u2190-\u21ff\u2600-\u27bf\ufe0f\U0001f300-\U0001faff]")
_LONG = {
    "ur": "your", "u": "you", "r": "are", "ya": "you", "pls": "please", "plz": "please", "n": "and", "whats": "what's",
    "thx": "thanks", "thru": "through", "abt": "about", "w": "with", "k": "ok", "im": "I'm", "ill": "I'll",
}  # fmt: skip
_SHORTHAND = re.compile(rf"(?<![\w'\u2019/.-])(?:{'|'.join(_LONG)})(?![\w'\u2019/-])", re.I)
_EXAMPLE = re.compile(r"\s*\([^()]*\b(?:like|e\.g\.|eg|for example|for instance|such as|format|starts?|begins?|"
                      r"usually)\b[^()]*\)|,? (?:e\.g\.|for example|for instance),? \S+", re.I)  # fmt: skip
_PATH = re.compile(r"\s*(?:>|\u2192|\u203a|\u00bb|->|=>)\s*")
_VIA = r"(?:via|under|in|from|at|through|within|inside|using|on)"
_WHERE = re.compile(
    rf"(?!\W*(?:please )?(?:go|open|head|navigate|look|find|scroll|get|tap|jump)(?: \w+)?\s+{_VIA}\b)"
    rf"(.*\w+\W+\w.*?)\s+(?!on\b){_VIA}\s+(?:the |your )?\W*\w+\W*$",
    re.I,
)
_SENTENCE = re.compile(r"(?<=[.!?;])[\"')\u201d]*\s+|\n+")
_BREAK = re.compile(
    # What a comma or dash parts, and what a conjunction adds that is no further noun.
    r"\s*(?:[,:;](?=\s|$)|\s[-\u2013\u2014]+\s|\u2014|\(|\)|\s(?=(?:because|for (?=i\b|we\b)|since|which|whether|"
    r"whereas|unless|until|so that|so (?=i\b|we\b|you\b|it\b|that\b|the\b|your\b)|in order|while|when|once|if|after|"
    r"before|as soon as)\b))\s*|,?\s+(?:and then|and after(?:wards| that)|then|and|but|plus)\s+(?!(?:your|the|its?|"
    r"a|an|this|that|my|(?:then )?back|on|off|in|out|up|again|sms|storage|mobile|cellular|data|roaming|airplane|"
    r"flight|wi-?fi|vpn|apn|sim|internet|network|settings|zip|last|first|surname|family|phone|texts?|calls?)\b)",
    re.I,
)
_MARKERS = re.compile(
    r"^\W*(?:(?:ok(?:ay)?|k|alright|all right|right|great|perfect|good|fine|lovely|cool|sure|nice|brilliant|"
    r"excellent|awesome|wonderful|thanks?|thank you|hi|hello|hey|so|and|also|but|well|now|next|then|"
    r"first(?:ly)?(?! name)|second(?:ly)?|third(?:ly)?|finally|lastly|last(?! name)|again|once more|after that|"
    r"afterwards|in that case|if so|if not|otherwise|step \w+|the next (?:one|step)|just|(?!reply|apply|supply|rely|"
    r"kindly)\w{3,}ly|instead|for now|actually|maybe|perhaps|there|as a next step|if you don['\u2019]t mind|"
    r"if you would|if possible|if you can|when(?:ever)? you(?:['\u2019]re| are) ready|to (?:start|begin|do (?:so|"
    r"this|that))(?: with)?|in (?:order|the meantime)|(?:in|on|from|under|within) (?:your |"
    r"the )?[\w' &-]*?(?:settings|menu|phone|device|screen|app|end))\b[\s,.:!;-]*)+",
    re.I,
)
_YOU_DO = (
    r"(?:you|u|yourself)(?:(?:['\u2019]ll|['\u2019]d| will| would| might| may)? (?:should|must|need to|have to|"
    r"got to|can|could|may|might want to|might|want to|ought to|are to|gotta|will want to|had better)|['\u2019]ll|"
    r"['\u2019]d better| to| should)"
)
_ASKING = re.compile(
    # Whatever stands before these, what follows is for the user to do.
    r"\b(?:please(?: you)?|pls|plz|kindly|(?:could|can|would|will|won['\u2019]t|can['\u2019]t|might|"
    r"may i ask) (?:you|u|ya)(?: be (?:so )?(?:kind|good)(?: as| enough)?(?: to)?| mind)?(?: awfully| terribly)?|"
    rf"(?:do|would) you mind|mind|{_YOU_DO}|(?:(?:request|ask|suggest|recommend|advise|like|need|want|appreciate|"
    r"propose|prefer|urge|encourage|get|have|sure|helps?|help|essential|necessary|important|best|grateful|great|"
    r"good|lovely|check)(?: it)?(?: if| that| for|,)?) (?:you|u)(?: to| should| would| could| can)?|(?:i|we|"
    r"i['\u2019]d|i would)(?: also| strongly)? (?:suggest|recommend|advise|propose)|let['\u2019]?s|let us|lets|"
    r"we(?:['\u2019]ll| will)?(?: first| also| now| then)? (?:need|have|got|want|ought|are going) to|we (?:should|"
    r"must|can|could)|go ahead(?: and| then and)?|(?:would|will|could|might)(?: really)? help(?: me| us)?(?: to)?|"
    r"(?:i|we)(?:['\u2019]d| would|['\u2019]ll| will)?(?: also| just)? (?:need|like|want|love|have) to (?:know|see|"
    r"hear)|how about|why don['\u2019]t (?:you|we)|why not|make sure(?: to| that)?|be sure to|ensure(?: that)?|"
    r"see to it(?: that)?|try(?: to| and)?|remember to|don['\u2019]t forget to|feel free to|let (?:me|us) (?:know|"
    r"have)|(?:tell|give|show|send) (?:me|us)|here(?:['\u2019]s| is) (?:how|what)(?: you can| you)?(?: to)?|how to|"
    r"(?:it(?:['\u2019]s| is) )?time to|the (?:next|first|last|only|other|best) (?:thing|step|move|bit|option|"
    r"way)[^.]{0,30}? is (?:for you )?(?:to)?|what (?:you|i|we)\b['\u2019\w ]{0,20} is(?: for you)?(?: to)?|"
    r"all you[\w' ]* is(?: to)?|all that['\u2019]?s? (?:left|missing) is(?: to)?|(?:it['\u2019]?s|is|are|"
    r"be) (?:best |necessary |required |supposed )to|(?:needs?|has|have|had|ought|got|supposed|is|are) to be|"
    r"(?:should|must) (?:then |now )?be)\b",
    re.I,
)
_OWN = re.compile(
    r"\b(?:i|we)(?:['\u2019](?:ll|ve|d|m|re))?\b(?! see\?)|\b(?:let|allow|want|like|allows?|enables?) (?:me|us)\b|"
    r"\bfor me to\b|\bme to\b|\bmy\b|\b(?:on|from) (?:my|our) (?:side|end)\b|\bi(?:['\u2019]m|ma)\b|\bgonna\b",
    re.I,
)
_RELATIVE = re.compile(r"(?<=\w) (?:(?:that|which) )?(?:i|we)(?:['\u2019]ve| have| just| already)* (?:sent|gave|raised|"
r"issued|made|mentioned|hold|keep|have (?=on|for|in)|"
                       r"described|told|asked|said|listed|provided|shared)\b[^,.]*", re.I)  # fmt: skip
_SUBORDINATE = re.compile(
    r"^\W*(?:if|when(?!\s+you(?:['\u2019]re| are) ready)|once|while|because|since|as|after|before|until|till|unless|"
    r"though|although|which|who|whose|that|in case|so that|so (?=i\b|we\b|you\b|it\b|that\b|the\b|your\b)|in order|"
    r"even if|whereas|due to|given|given that)\b",
    re.I,
)
_NOT = re.compile(
    r"\b(?:do not|don['\u2019]?t(?! forget)|never|no need|needn['\u2019]t|without|not necessary|not need|"
    r"shouldn['\u2019]t|mustn['\u2019]t|should not|must not|not have to|rather than|instead of|avoid)\b",
    re.I,
)
_LATER = re.compile(r"\b(?:later(?: on)?|(?:at )?any ?time|some other time|next time|in (?:the )?future)\W*$", re.I)
_FINITE = re.compile(
    r"\b(?:is|are|was|were|am|isn['\u2019]t|aren['\u2019]t|has|have|had|hasn['\u2019]t|may|might|can|could|cannot|"
    r"can['\u2019]t|will|would|won['\u2019]t|does|do|did|doesn['\u2019]t|seems?|appears?|looks?|stays?|remains?|"
    r"shows?|says?|blocks?|prevents?|stops?|means|affects?|causes?|helps?|happens?|depends|needs?|requires?|works?|"
    r"allows?|lets?|gets?|keeps?|makes?|became|got|went|tends?|interferes?|limits?|slows?|uses?|controls?|lies|"
    r"comes?|takes?)\b|\w['\u2019](?:s|re|ve|d) (?=\w)|\bindicates?\b",
    re.I,
)
_SUBJECT = re.compile(
    r"^\W*(?:(?:the|your|this|that|these|those|it|there|here|you|u|he|she|they|everything|something|nothing|one|"
    r"some|all|any|a|an|another|looks like|it looks|sounds|seems)\b|\w+ing (?=is|may|can|will|might))",
    re.I,
)
_PREPOSITION = re.compile(r"^\W*(?:with|for|of|to|about|by|under|through|due|at|from|in|on|off|out)\b", re.I)
_INVERTED = re.compile(r"^\W*(?:is|are|was|were|am|has|have|does|do|did|isn['\u2019]t|aren['\u2019]t|any)\b", re.I)
_PAST_QUESTION = re.compile(r"^\W*(?:have|has|had|did|didn['\u2019]t|haven['\u2019]t|was|were)\b", re.I)
_WH = re.compile(
    r"^\W*(?:on |in |at |to |from |under )?(?:which|what|what['\u2019]?s|whats|who|whom|how(?! about)|why(?! don|"
    r"\snot)|when|where)\b",
    re.I,
)


_WONDERS = re.compile(rf"\b(?:{TELLS})\b(?: \w+)?\W*$", re.I)
_INDIRECT = re.compile(r"^\W*(?:which|whether|what|how|if|where|when)\b", re.I)


_TELL_US = re.compile(r"\b(?:know|see|hear|(?:tell|give|show|send) (?:me|us))$", re.I)
_SHARED = re.compile(r"(?:go ahead|make sure|ensure|see to it|try|be sure|(?:needs?|has|have|had|ought|got|supposed|"
r"is|are) to be|should|must)\b", re.I)  # fmt: skip
"""Those of them that an agent says of itself as well."""
_CHECKS = re.compile(rf"\b(?:{LOOKS})\w*\b", re.I)
_THANKED = re.compile(
    r"^\W*(?:(?:thank|appreciate)\w*(?: you)?(?: so much| very much| again)? for|(?:sorry|apologi[sz]es|apologies)"
    r"(?= (?:about|for|that|if)\b|\W*$))\b",
    re.I,
)
_PAST = re.compile(
    # With what it was done to; "registered e-mail" only names one.
    r"^\W*(?!need|proceed|speed|feed|embed)\w{3,}ed\b(?=\W*$|\W+(?:the|your|my|our|its?|a|an|this|that|to|for|on|off|in|"
    r"with|by|from|at|up|out|all|and|successfully)\b)",
    re.I,
)
_NO_COMMAND = re.compile(
    # A quotation, a number, a past, a third person, and a gerund that is the subject.
    r"^\W*[\"\u201c]|^\W*\d|^\W*(?!need|proceed|speed|feed|embed)\w{3,}ed\b|^\W*(?!press|access|pass|dismiss|"
    r"address|bypass|discuss|always|settings)\w{3,}s\b(?! (?:your|the|it)\b)|^\W*\w{2,}ing\b.*\b(?:is|are|can|could|"
    r"may|might|should|will|would|helps?|means|affects?|requires?)\b|^\W*(?:like|such as|than|including|e\.g\.|"
    r"i\.e\.)\W",
    re.I,
)


class Mood(Enum):
    """What a clause is to the user."""

    TOLD = "told"
    ASKED = "asked"
    STATED = "stated"
    NAMED = "named"
    """No verb: "Mobile data on.", a heading, a menu."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a text.

    :param body: its words after whatever politeness begins it.
    :param menus: for a menu path, the entries before the last one, which ``body`` is.
    :param addressed: whether words say that the user is to do it.
    :param begins: whether it is the first of its sentence.
    """

    mood: Mood
    body: str
    question: bool = False
    menus: tuple[str, ...] = ()
    addressed: bool = False
    begins: bool = False


def cleaned(text: str, *, bullets: bool = False) -> str:
    """Return a text without Markdown, pictures and, unless they are wanted, signs and numbers of lists."""
    # A picture may be all that stands between two sentences.
    text = re.sub(rf"(?:{_SYMBOLS.pattern})\s+(?=[A-Z])", ". ", _MARKUP.sub("", text))
    text = _SYMBOLS.sub(" ", text)
    text = _SHORTHAND.sub(lambda m: _LONG[m[0].lower()], text)
    return text if bullets else _LIST_NUMBER.sub("", _BULLET.sub("", text))


def without_examples(text: str) -> str:
    """Return a text without what it only gives as an example: "(it looks like AB12CD)"."""
    return _EXAMPLE.sub("", text)


def clauses(text: str) -> Iterator[Clause]:
    """Yield the clauses of a text in its order."""
    for sentence in _SENTENCE.split(cleaned(text)):
        asked = sentence.rstrip(" \"')").endswith("?")
        parts = [p for p in (part or "" for part in _BREAK.split(sentence)) if p.strip(" .,:;!?-")]
        last: Clause | None = None
        for part in parts:
            before = last
            told = before is not None and before.mood is Mood.TOLD and _WONDERS.search(before.body)
            last = _read_clause(part, question=asked)
            joined = before is not None and re.search(rf"\band (?:then )?{re.escape(part.strip())}", sentence)
            if told and _INDIRECT.match(part):
                last = Clause(Mood.ASKED, last.body, question=True)
            if before is not None and joined and last.mood is not Mood.ASKED:
                if before.mood is Mood.TOLD and last.mood is Mood.NAMED:
                    # "Read out the icons and the indicators": one thing to do with both.
                    last = Clause(Mood.TOLD, f"{before.body} and {last.body}")
                elif before.mood is Mood.STATED and _OWN.match(before.body) and not last.addressed:
                    # "I have turned it off and reset the other": one subject for both.
                    last = replace(last, mood=Mood.STATED)
                last = replace(last, addressed=last.addressed or before.addressed)
            yield replace(last, begins=before is None)


def _read_clause(part: str, *, question: bool = False) -> Clause:
    """Read one clause."""
    *menus, body = _PATH.split(part) if _PATH.search(part) else [part]
    if menus and (deed := _WHERE.match(menus[0])):
        # "Switch roaming on under Settings > Network": the deed stands before the way to it.
        found = _read_clause(deed[1], question=question)
        return replace(found, menus=(*menus[1:], body))
    if menus:
        named = Clause(Mood.NAMED, body, question, tuple(menus))
        first = _read_clause(menus[0])
        return Clause(first.mood, body, question, tuple(menus)) if first.mood is Mood.TOLD else named
    mood, words, addressed = _mood(part, question)
    return Clause(mood, words, question, addressed=addressed)


def _mood(part: str, question: bool) -> tuple[Mood, str, bool]:
    start = _MARKERS.match(part)
    body = part[start.end() :] if start else part
    if not body.strip(" .,:;!?-"):
        return Mood.NAMED, "", False
    if question and (_WH.match(body) or _PAST_QUESTION.match(body)):
        return Mood.ASKED, body, False
    if _SUBORDINATE.match(body) or _NOT.search(body) or _LATER.search(body):
        return Mood.STATED, body, False
    told, tells = _told(body)
    if told:
        # "Tell me ..." asks, whatever its form.
        return Mood.ASKED if tells else Mood.TOLD, told, True
    if _THANKED.match(part):
        return Mood.STATED, body, False
    if _WH.match(body) or (question and _INVERTED.match(body)):
        return Mood.ASKED, body, False
    if _OWN.search(_RELATIVE.sub(" ", body)):
        return Mood.STATED, body, False
    if _SUBJECT.match(body) or _PREPOSITION.match(body):
        return (Mood.STATED if _FINITE.search(body) else Mood.NAMED), body, False
    if _NO_COMMAND.match(body):
        return (Mood.STATED if _FINITE.search(body) or _PAST.match(body) else Mood.NAMED), body, False
    return Mood.TOLD, body, False


def _told(body: str) -> tuple[str, bool]:
    """Return what a clause says that the user is to do, or an empty text, and whether it is to tell something."""
    asking = _ASKING.search(body)
    if asking is None:
        return "", False
    before = body[: asking.start()]
    shared = _SHARED.match(asking[0])
    if shared and _OWN.search(before):
        return "", False
    rest = body[asking.end() :].lstrip(" ,")
    tells = _TELL_US.search(asking[0]) is not None
    while further := _ASKING.match(rest):
        rest = rest[further.end() :].lstrip(" ,")
        tells = tells or _TELL_US.search(further[0]) is not None
    rest = _RELATIVE.sub(" ", rest).strip(" ,.:;!?")
    if _OWN.search(rest):
        return "", False
    if shared and _CHECKS.search(before):
        # What is looked at "to ensure that it is on" is looked at.
        return body, tells
    # "Airplane mode has to be off": what is to be so stands before.
    return body if not rest or asking[0].lower().endswith("be") else rest, tells


SLOTS: Mapping[str, str] = {
    "user id": r"\b(id|identifier)\b( of| for| on)? (your |the )?(user|customer|account|profile|member)|"
    r"\b(user|customer|account|profile|member)[ _-]?(id|identifier|number|name)s?\b|\busername\b",
    "email": r"\be-?mail|\bmail address",
    "zip": r"\bzip|\bpostal code|\bpostcode",
    "name": r"\b(full|first|last|your|legal|sur|family)[ -]?name|(?<!user )\bname\b(?! (of|for) the)|\bcalled\b|"
    r"\bwho (am i|are you|is this|do i)\b|\bwhom am i",
    "phone": r"\b(tele)?(phone|mobile|cell|contact|line)(['\u2019]s)? ?(number|no\b)|\b(what|which|your) number\b|"
    r"\bthe number (that|which|you|it)\b|\bnumber (of|for|on|under) (your|the|that) (\w+ )?(tele)?(phone|line|"
    r"mobile|account|service)|\bcalling (from|about)",
    "birthday": r"\bbirth|\bdob\b",
    "order": r"\b(id|number|reference) (of|for|on) (your|the|that|this) (order|purchase)|\border(s|"
    r"['\u2019]s)? ?(id|number|no\b|#|reference)|\b(which|what) orders?\b",
    "reservation": r"\b(id|number|code) (of|for|on) (your|the|that|this) (reservation|booking|trip)|\b(reservation|"
    r"booking|confirmation)s?(['\u2019]s)? ?(id|number|code|reference)|\b(which|what) (reservation|booking)",
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
    rf"\?|\b(please|kindly|{ASKS_FOR}|let me (know|have)|type|verify|confirm|i(['\u2019]ll| will|"
    r"['\u2019]d)? (also |first |just )?(need|require|like|want)|may i|can i|could i|need (your|the|to know)|"
    r"ask (you )?for|required?:?|missing|could you|can you|would you|what|which|who|waiting for|looking for your|"
    r"start with your|begin with your)\b",
    re.IGNORECASE,
)
_NEEDS = re.compile(
    r"\b(?:need|needs|needed|requires?|required|missing|lack|must have|shall have|want|wants|would like|"
    r"['\u2019]d like|ask|asks|asking|looking for|waiting for|wait for|depends? on|start with|starts with|"
    r"begin with|begins with|tell|give me|have (?:you|u)|(?:may|can|could|might|shall) (?:i|we)|"
    r"don['\u2019]?t (?:have|know|see)|without|verify|have to know|must know|wonder\w*)\b",
    re.I,
)
_WISHED_OF_US = re.compile(r"\b(?:like|love|want|need|ask(?:ed|ing)?|prefer|wish|for) (?:me|us) to\b", re.I)
_DECISION = re.compile(
    r"\b(confirm(?!\w* (?:when|once (?:it|that|this|you|done)|after|as soon|back|completion|that you(?: have|"
    r"['\u2019]ve)))\w*|(?<!please )proceed|go(ing)? ahead(?! and\b| then and\b)|go-ahead|shall (i|we)|should (i|"
    r"we)|may i|can i|could i|do you (want|agree|approve|consent|authori[sz]e|accept|wish)|would you like (me|us|"
    r"to)|is (that|this|it|everything|all of (this|that)) (ok|okay|alright|all right|right|correct|fine|accurate|"
    r"good|what you)|sounds? (good|right|ok)|(?<=\w)\W{1,4}yes\b|yes or no|yes/no|(your|the) (approval|consent|"
    r"go-ahead|permission|ok|okay|word|authori[sz]ation)|are you (sure|happy|ok|okay|fine|certain|good|comfortable|"
    r"in agreement)|agreed?|approve|ok(ay)?\?|right\?|correct\?|alright\?|good\?|\by/n\b|want me to|happy for me|"
    r"fine (with|by|for) you|(ok|okay) (with|by|for) you|\b(i|we)\b[^.?!]{0,30}\bpermission to|any objections?|"
    r"all right (with|for|by) you|want (that|this|it) done|do (that|this|it)( now)?\?)",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"\b(any(thing|one)? (else|more|further)|something else|further (help|assistance|questions|requests)|"
    r"what else (can|may|could|should) (i|we) (do|help|assist)( you)?( with| for you)*|(what|who|something|anything|"
    r"somewhere|nothing) else|other (things?|issues?|requests?|questions?|matters?|concerns?)|good ?bye|"
    r"have a (great|good|nice|lovely|wonderful)|take care(?! of)|glad (i|to|that)|pleasure|"
    r"thank you for (your patience|calling|contacting us|choosing)|(all|everything)( of (it|that|this))? (is|are|"
    r"has been) (now )?(settled|done|sorted|complete\w*|taken care)|everything that can be done|all set|next (issue|"
    r"point|item on|request|matter)|will that be all|(that['\u2019]?s|that (is|was)) (all|it|everything)(?=(?! (?:i|"
    r"we) need)(?: |\W*$))|more i can|wrap(ped)? up|(bye|farewell|cheerio|cheers|see (you|ya)|so long)(?=\W|$)|"
    r"covered everything|another thing|still (need )?(something|anything)|(other|further) (matter|thing)|wish you|"
    r"enjoy (your|the)|(matter|case|issue) (is )?(now )?(closed|concluded|settled|resolved)|all (done|sorted|good)|"
    r"n e thing else|still missing)\b|^\W*(done|resolved|cya|ta-?ta)\W*$|(^|[.!?:]\s+)(it|this|that|all|everything|"
    r"everything['\u2019]s|we|we['\u2019]re|the \w+)( is| are)?( now| all)* (finished|concluded|complete|settled|"
    r"done|taken care of)\b",
    re.IGNORECASE,
)
_HANDED_OVER = re.compile(
    r"(?:^|[.!?;,]\s+|\n|\b(?:so|i|we|and|now|been|being|is|am|are|have|has)\b[^.!?,;]{0,30}?)\b(?:transfer|"
    r"transferr?ed|transferring|pass(?:ed|ing)|put(?:ting)?|hand(?:ed|ing)|connect(?:ed|ing)|referred|escalated|"
    rf"forward(?:ed|ing)|connecting)\b[^.!?]{{0,40}}\b(?:to|over to|through to|with)\b[^.!?]{{0,25}}\b(?:{PEOPLE}|"
    r"humans|colleagues|representative|person|live agent)\b",
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


_WH_QUESTION = re.compile(
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
    deciding = [s for s in sentences if not _WH_QUESTION.search(s) and (_DECISION.search(s) or (offer and _asks(s)))]
    slots = _slots(rest, but=deciding if offer else (), offer=offer)
    return Heard(
        slots=slots,
        decision=bool(deciding),
        doubt=not slots and any(_asks(s) and not _WH_QUESTION.search(s) for s in sentences),
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
