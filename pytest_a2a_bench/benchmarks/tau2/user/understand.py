"""Read an agent's message: its sentences and clauses, and their purpose (a fact, a decision, a step, a farewell).

Instructions are worded without end, so none is listed. Listed are the few forms that are *not* an instruction: a
statement, the agent's own action, a condition, a prohibition, a question. What remains is addressed to the user.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from pytest_a2a_bench.benchmarks.tau2.user.scenario import identifiers


def _any(*words: str, start: str = r"\b", end: str = r"\b") -> re.Pattern[str]:
    """Compile alternatives, each a group of words of one sense."""
    return re.compile(rf"{start}(?:{'|'.join(words)}){end}", re.I)


LOOKS = r"check|look|see|verify|confirm|review"
TELLS = rf"{LOOKS}|tell|know|inform|say|report|note|describe"
SWITCHES = r"turn|switch|toggle|flip"
CHANGED = r"cancell?ed|booked|updated|changed|returned|exchanged|sent|created"
UNABLE = r"can not|unable|not able|will not be able|afraid|sorry,? but"
NOT_POSSIBLE = r"possible|eligible|allowed|permitted"
PEOPLE = r"human|colleague|specialist|supervisor"
EMAIL_ADDRESS = re.compile(r"\b(?:e-?)?mail address", re.I)
"""An address that is no place."""

# --- the text: one spelling of what can be written in several ways ---

_MARKUP = re.compile(r"[*_`~]{2,}|(?<!\w)[*_`](?=\S)|(?<=\S)[*_`](?!\w)|^[ \t]*#+ |^[ \t]*>+ ?", re.M)
_SYMBOLS = "(?<!\\w)[:;]-?[()DP](?!\\w)|[\u2190-\u2191\u2193-\u21ff\u2600-\u27bf\ufe0f\U0001f300-\U0001faff]"
_EXAMPLE_WORDS = r"like|e\.g\.|eg|for example|for instance|such as|format|starts?|begins?|usually"
_EXAMPLE = rf"(?<!\s)\s*\([^()]*\b(?:{_EXAMPLE_WORDS})\b[^()]*\)|,? (?:e\.g\.|for example|for instance),? \S+"
_SPELLINGS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile("\u2019"), "'"),
    (_MARKUP, ""),
    # A picture may be all that stands between two sentences.
    (re.compile(rf"(?:{_SYMBOLS})\s+(?=[A-Z])"), ". "),
    (re.compile(_SYMBOLS), " "),
    (re.compile(_EXAMPLE, re.I), ""),
    (re.compile(r"\bcan't\b|\bcannot\b", re.I), "can not"),
    (re.compile(r"\bwon't\b", re.I), "will not"),
    (re.compile(r"n't\b", re.I), " not"),
    (re.compile(r"\blet'?s\b", re.I), "let us"),
    (re.compile(r"(?<=\w)'ll\b", re.I), " will"),
    (re.compile(r"(?<=\w)'ve\b", re.I), " have"),
    (re.compile(r"(?<=\w)'d\b", re.I), " would"),
    (re.compile(r"(?<=\w)'re\b", re.I), " are"),
    (re.compile(r"\bi'?m\b", re.I), "I am"),
    (re.compile(r"\b(what|it|that|there|here|where|who|how|everything)(?:'s|(?<=what)s)\b", re.I), r"\1 is"),
)
_LONG = {
    "u": "you",
    "ur": "your",
    "r": "are",
    "pls": "please",
    "plz": "please",
    "n": "and",
    "w": "with",
    "thx": "thanks",
}
_SHORTHAND = re.compile(rf"(?<![\w'/.-])(?:{'|'.join(_LONG)})(?![\w'/-])", re.I)
_LIST_ENTRY = re.compile(r":?\s*\n\s*(?:[-*\u2022]|\d[.)])\s*")
"""The beginning of a list's entry: the list belongs to the sentence before it."""
_BULLET = re.compile(r"^[ \t]*(?:[-*\u2022\u25cf\u25aa\u2013]|\(?(?:\d+|[a-z])[.)]|step \d+[:.)])[ \t]*", re.M | re.I)
_GIVEN = re.compile(r"^[ \t]*[-*\u2022\u2013] ?[^:?\n]{1,40}:[ \t]+[^:?\n]+$", re.M)
"""An entry with a value: "- New status: active"."""
_LIST_NUMBER = re.compile(r"(?:(?<=[:;,.]\s)|(?<=^))\(?\d+[.)]\s+", re.M)
_READ = 8_000
_SENTENCE = re.compile(r"(?<=[.!?;])[\"')\u201d]*\s+|\n+")


def normal(text: str) -> str:
    """Return a text without Markdown, pictures and examples, with contractions and shorthand written out."""
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    return _SHORTHAND.sub(lambda m: _LONG[m[0].lower()], text)


def plain(text: str) -> str:
    """Return the words of a text in small letters, with single spaces: texts that differ in nothing else are equal."""
    return " ".join(re.findall(r"\w+", text.lower()))


def sentences(text: str) -> list[str]:
    """Split into sentences and lines."""
    return [s.strip() for s in _SENTENCE.split(text) if s.strip(" .;")]


def bounded(text: str) -> str:
    """Return a text of at most 8,000 characters: an agent's question stands at the beginning or at the end.

    Spaces and empty lines beyond the first are left out: a model that writes nothing else would be read for hours.
    """
    text = re.sub(r"\n\s*\n", "\n\n", re.sub(r"[^\S\n]+", " ", text))
    return text if len(text) <= _READ else f"{text[: _READ // 2]}\n{text[-_READ // 2 :]}"


def joined(text: str) -> str:
    """Return a text with the entries of lists joined to the sentences before them."""
    return _LIST_ENTRY.sub(", ", text)


def asks(sentence: str) -> bool:
    """Return whether a sentence ends with a question mark."""
    return sentence.rstrip(" \"')").endswith("?")


# --- clauses ---

_PATH = re.compile(r"\s*(?:>|\u2192|\u203a|\u00bb|->|=>)\s*")
_SO = r"so (?=(?:i|we|you|it|that|the|your)\b)"
_CONJUNCTIONS = rf"because|for (?=(?:i|we)\b)|since|which|whether|whereas|unless|until|so that|{_SO}|in order|while"
_TIMES = r"when|once|if|after|before|as soon"
_NO_CLAUSE = r"your|the|its?|an?|this|that|my|(?:then )?back|on|off|in|out|up|again|last|first|surname|zip|texts?"
_THING = r"sms|storage|mobile|cellular|data|roaming|airplane|wi-?fi|vpn|apn|sim|internet|network|settings|phone|calls?"
_AND = rf",?\s+(?:and then|and after(?:wards| that)|then|and|but|plus)\s+(?!(?:{_NO_CLAUSE}|{_THING}|\d\w*)\b)"
_BREAK = re.compile(
    rf"\s*(?:[,:;](?=\s|$)|\s[-\u2013\u2014]+\s|\u2014|\(|\)|\s(?=(?:{_CONJUNCTIONS}|{_TIMES})\b))\s*|{_AND}", re.I
)
_INTERJECTIONS = r"ok(?:ay)?|alright|all right|right|great|perfect|good|fine|sure|nice|thanks?|thank you|hi|hello|hey"
_ORDER = (
    r"so|and|also|but|well|now|next|then|first(?! name)|second|third|last(?! name)|again|step \w+|instead|otherwise"
)
_ADVERBS = (
    r"just|maybe|perhaps|there|for now|after that|if (?:so|not|possible|you can)|(?!kindly|reply|apply|supply)\w{3,}ly"
)
_PURPOSE = r"to (?:start|begin|do (?:so|this|that))(?: with)?|in the meantime|when you are ready"
_PLACE = r"(?:in|on|from|under|within) (?:your |the )?[\w' &-]*?(?:settings|menu|phone|device|screen|app|end)"
_MARKERS = re.compile(rf"^\W*(?:(?:{_INTERJECTIONS}|{_ORDER}|{_ADVERBS}|{_PURPOSE}|{_PLACE})\b[\s,.:!;-]*)+", re.I)
_KINDLY = r"(?: be (?:(?:so )?kind(?: as| enough)?|able)(?: to)?)?"
_REQUEST = rf"please(?: you)?|kindly|(?:could|can|would|will|might)(?: not)? you{_KINDLY}"
_MIND = r"(?:(?:do|would) you )?mind|(?:would|will) help(?: me| us)?|how about|go ahead(?: and| then and)?"
_MUST = r"you(?: (?:will|would|might|may))? (?:should|must|need to|have to|can|could|may|might|ought to|are to|to|will)"
_WISH = r"(?:ask|request|have|get|suggest|recommend|advise|like|need|want|good|great)(?: it)?(?: if| that| for)?"
_WE = (
    r"let us|(?:i|we)(?: would| also)? (?:suggest|recommend)|we(?: will)? (?:need|have|want) to|we (?:should|must|can)"
)
_CARE = r"make sure(?: to| that)?|be sure to|ensure(?: that)?|see to it that|try(?: to| and)?|remember to|feel free to"
_TELL_ME = r"let me (?:know|have)|(?:tell|give|show|send) (?:me|us)|(?:i|we)(?: just)? (?:need|want) to (?:know|see)"
_NEXT = r"(?:time|how|best) to|(?:step|thing|move|way|left|missing|need)[^.]{0,25}? is(?: for you)?(?: to)?"
_TO_BE = r"(?:needs?|has|have|had|ought|got|supposed|is|are) to be|(?:should|must) (?:then |now )?be"
_ADDRESSED = _any(
    _REQUEST, _MIND, _MUST, rf"{_WISH} you(?: to| should| would| could)?", _WE, _CARE, _TELL_ME, _NEXT, _TO_BE
)
"""Words after one of these are for the user to do, whatever stands before."""
_SHARED = _any("go ahead", _CARE, _TO_BE, end="")
"""Those of them that an agent says of itself as well."""
_TELL_US = re.compile(r"\b(?:know|see|hear|(?:tell|give|show|send) (?:me|us))$", re.I)
_OWN = _any("i|we", r"(?:let|allow|want|like|allows|enables) (?:me|us)", "(?:for )?me to|my|from our (?:side|end)")
_SENT = r"sent|gave|hold|keep|raised|issued|made|mentioned|described|told|asked|said|listed|shared|have (?:on|for|in)"
_RELATIVE = re.compile(rf"(?<=\w) (?:(?:that|which) )?(?:i|we)(?: have| just| already)* (?:{_SENT})\b[^,.]*", re.I)
_SUBORDINATING = r"if|when(?! you are ready)|once|while|because|since|as|after|before|until|till|unless|although|though"
_SUBORDINATE = _any(
    _SUBORDINATING, r"which|who|whose|that|in case|in order|whereas|due to|given|so that", _SO, start=r"^\W*"
)
_AFTER_OWN_STEP = re.compile(rf"^\W*(?!before)(?:{_TIMES}) (?:as )?(?:i|we)\b", re.I)
_NOT_NEEDED = r"no need|without|not (?:necessary|need|have to)|rather than|instead of|avoid"
_NOT = _any(r"(?:do|does|need|should|must)(?: \w+)? not(?! forget)", "never", _NOT_NEEDED)
_AUXILIARIES = r"is|are|was|were|am|has|have|had|may|might|can|could|will|would|does|do|did"
_VERBS = r"seems?|appears?|looks?|stays?|remains?|shows?|blocks?|prevents?|stops?|means|affects?|causes?|helps?|needs?"
_MORE_VERBS = r"requires?|works?|allows?|lets?|gets?|keeps?|makes?|got|went|slows?|uses?|controls?|comes?|takes?"
_FINITE = _any(_AUXILIARIES, _VERBS, _MORE_VERBS, r"\w+'s(?= \w)")
_PRONOUNS = (
    r"the|your|this|that|these|those|it|there|here|you|he|she|they|everything|something|nothing|one|some|all|any|an?"
)
_SUBJECT = _any(_PRONOUNS, "another|looks like|sounds|seems", r"\w+ing (?=is|may|can|will|might)", start=r"^\W*")
_PREPOSITION = _any(r"with|for|of|to|about|by|under|through|due|at|from|in|on|off|out", start=r"^\W*")
_INVERTED = _any(r"is|are|was|were|am|has|have|does|do|did|any", start=r"^\W*")
_PAST_QUESTION = _any(r"have|has|had|did|was|were", start=r"^\W*")
_WH = _any(r"which|what|who|whom|how(?! about)|why|when|where", start=r"^\W*(?:(?:on|in|at|to|from|under) )?")
_WONDERS = re.compile(rf"\b(?:{TELLS})\b(?: \w+)?\W*$", re.I)
_INDIRECT = _any(r"which|whether|what|how|if|where|when", start=r"^\W*")
_THANKS = re.compile(
    r"^\W*(?:(?:thank|appreciate)\w*(?: you)?(?: so much| very much| again)? for|sorry|apolog\w+)\b", re.I
)
_PARTICIPLE = r"^\W*(?!need|proceed|speed|feed|embed)\w{3,}ed\b"
_PAST = re.compile(rf"{_PARTICIPLE}(?=\W*$|\W+(?:the|your|my|our|an?|this|that|to|for|on|off|in|with|by|and)\b)", re.I)
_THIRD_PERSON = r"^\W*(?!press|access|pass|dismiss|address|bypass|always|settings)\w{3,}s\b(?! (?:your|the|it)\b)"
_GERUND = r"^\W*\w{2,}ing\b.*\b(?:is|are|can|could|may|might|should|will|would|helps?|means|affects?|requires?)\b"
_NO_COMMAND = re.compile(
    rf"^\W*[\"\u201c]|^\W*\d|{_PARTICIPLE}|{_THIRD_PERSON}|{_GERUND}|^\W*(?:like|such as|than)\W", re.I
)


class Mood(Enum):
    """The purpose of a clause for the user."""

    INSTRUCTS = "instructs"
    ASKS = "asks"
    STATES = "states"
    NAMES = "names"
    """No verb: "Mobile data on.", a heading, a menu."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a sentence.

    :param body: its words after any politeness that begins it.
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


def clauses(text: str) -> Iterator[Clause]:
    """Yield the clauses of a normal text in its order."""
    for sentence in _SENTENCE.split(_LIST_NUMBER.sub("", _BULLET.sub("", text))):
        parts = [p for p in (part or "" for part in _BREAK.split(sentence)) if p.strip(" .,:;!?-")]
        last: Clause | None = None
        for part, after in zip(parts, (*parts, "")[1:], strict=True):
            before, last = last, _clause(part, question=asks(sentence))
            if before is not None:
                last = _continued(before, last, part, joined=_joined(part, sentence))
            if last.mood is Mood.INSTRUCTS and _AFTER_OWN_STEP.match(after) and not _WONDERS.search(last.body):
                # "Restart it once I have done my part": not yet.
                last = replace(last, mood=Mood.STATES)
            yield replace(last, begins=before is None)


def _joined(part: str, sentence: str) -> bool:
    return re.search(rf"\band (?:then )?{re.escape(part.strip())}", sentence) is not None


def _continued(before: Clause, clause: Clause, part: str, *, joined: bool) -> Clause:
    """Return a clause as it reads after the one before it."""
    if before.mood is Mood.INSTRUCTS and _WONDERS.search(before.body) and _INDIRECT.match(part):
        clause = Clause(Mood.ASKS, clause.body, question=True)
    elif clause.mood is Mood.INSTRUCTS and _AFTER_OWN_STEP.match(before.body):
        # "Once I have done my part, I will ask you to restart it": not yet.
        return replace(clause, mood=Mood.STATES)
    if not joined or clause.mood is Mood.ASKS:
        return clause
    if before.question and before.mood is Mood.ASKS and _PAST_QUESTION.match(before.body) and not clause.addressed:
        # "Have you taken it out and put it back in?": one question.
        return replace(clause, mood=Mood.ASKS)
    if before.mood is Mood.INSTRUCTS and clause.mood is Mood.NAMES:
        # "Read out the icons and the indicators": one thing to do with both.
        clause = Clause(Mood.INSTRUCTS, f"{before.body} and {clause.body}")
    elif before.mood is Mood.STATES and _OWN.match(before.body) and not clause.addressed:
        # "I have turned it off and reset the other": one subject for both.
        clause = replace(clause, mood=Mood.STATES)
    return replace(clause, addressed=clause.addressed or before.addressed)


def _clause(part: str, *, question: bool) -> Clause:
    *menus, body = _PATH.split(part)
    if menus:
        instructs = _clause(menus[0], question=False).mood is Mood.INSTRUCTS
        return Clause(Mood.INSTRUCTS if instructs else Mood.NAMES, body, question, tuple(menus))
    mood, words, addressed = _mood(part, question)
    return Clause(mood, words, question, addressed=addressed)


def _mood(part: str, question: bool) -> tuple[Mood, str, bool]:
    start = _MARKERS.match(part)
    body = part[start.end() :] if start else part
    if not body.strip(" .,:;!?-"):
        return Mood.NAMES, "", False
    if question and (_WH.match(body) or _PAST_QUESTION.match(body)):
        return Mood.ASKS, body, False
    if _SUBORDINATE.match(body) or _NOT.search(body):
        return Mood.STATES, body, False
    wanted, tells = _addressed(body)
    if wanted:
        # "Tell me ..." asks, whatever its form.
        return Mood.ASKS if tells else Mood.INSTRUCTS, wanted, True
    if _THANKS.match(part):
        return Mood.STATES, body, False
    if _WH.match(body) or (question and _INVERTED.match(body)):
        return Mood.ASKS, body, False
    if _OWN.search(_RELATIVE.sub(" ", body)):
        return Mood.STATES, body, False
    states = Mood.STATES if _FINITE.search(body) else Mood.NAMES
    if _SUBJECT.match(body) or _PREPOSITION.match(body):
        return states, body, False
    if _NO_COMMAND.match(body):
        return Mood.STATES if _PAST.match(body) else states, body, False
    return Mood.INSTRUCTS, body, False


def _addressed(body: str) -> tuple[str, bool]:
    """Return a clause's request to the user by explicit words, or an empty text; and whether a fact is asked for."""
    found = _ADDRESSED.search(body)
    if found is None:
        return "", False
    if _SHARED.match(found[0]) and _OWN.search(body[: found.start()]):
        return "", False
    rest, tells = body[found.end() :].lstrip(" ,"), bool(_TELL_US.search(found[0]))
    while further := _ADDRESSED.match(rest):
        rest = rest[further.end() :].lstrip(" ,")
        tells = tells or bool(_TELL_US.search(further[0]))
    rest = _RELATIVE.sub(" ", rest).strip(" ,.:;!?")
    if _OWN.search(rest):
        return "", False
    # "Airplane mode has to be off": what is to be so stands before.
    return body if not rest or found[0].lower().endswith("be") else rest, tells


# --- what a message wants ---

SLOTS: Mapping[str, str] = {
    "user id": r"\b(user|customer|account|profile|member)[ _-]?(id|identifier|number|name)s?\b|\b(id|identifier)\b",
    "email": r"\be-?mail|\bmail address",
    "zip": r"\bzip|\bpostal code|\bpostcode",
    "name": r"\b(full|first|last|your|legal|sur|family)[ -]?name|(?<!user )\bname\b(?! (of|for) the)|\bcalled\b",
    "phone": r"\b(phone|mobile|cell|contact|line|what|which|your)('s)? ?(number|no\b)|\btele|\bnumber (of|for|on)\b",
    "birthday": r"\bbirth|\bdob\b",
    "order": r"\border(s|'s)? ?(id|number|no\b|#|reference)|\bid of your order|\b(which|what) orders?\b",
    "reservation": r"\b(reservation|booking|confirmation) ?(id|number|code)|\b(which|what) (reservation|booking)",
    "item": r"\bitem ?(id|number)|\b(which|what) items?\b",
    "payment": r"\bpay(ment)? ?(method|option|source|type)|\bpay (with|by|using)\b|\b(which|what) (card|account)\b",
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
"""The facts that agents ask for, and the words for them."""
_SLOTS = {slot: re.compile(pattern, re.I) for slot, pattern in SLOTS.items()}

_NEED = r"needs?|needed|requires?|required|missing|lack|must have|wants?|would like|asks?|asking|looking for|without"
_NEED_FIRST = (
    r"wait(?:ing)? for|depends? on|starts? with|begins? with|tell|give me|(?:may|can|could) (?:i|we)|know|verify"
)
_NEEDS = _any(_NEED, _NEED_FIRST)
_LATER_REPORT = r"confirm(?!\w* (?:when|once (?:it|that|this|you|done|the)|after|back|that you have))\w*"
_GO_AHEAD = (
    r"(?<!please )(?<!let us )(?<!we shall )(?<!we will )proceed|go(?:ing)? ahead(?! and\b| then and\b)|go-ahead"
)
_MAY_I = r"(?:shall|should|may|can|could) (?:i|we)(?! (?:have|get|ask|know|take|see))"
_AGREE = r"do you (?:want|agree|approve|consent|authori[sz]e|accept|wish)|are you (?:sure|happy|ok|okay|fine|certain)"
_RIGHT = (
    r"is (?:that|this|it|everything|all of (?:this|that)) (?:ok|okay|right|correct|fine|accurate)|agreed?|approv\w+"
)
_YES = r"(?<=\w )[\"'(]?yes|yes or no|yes/no|y/n|(?:your|the) (?:approval|consent|permission|ok|okay|word)"
_DECISION = _any(
    _LATER_REPORT, _GO_AHEAD, _MAY_I, _AGREE, _RIGHT, _YES, "would you like (?:me|us|to)|want me to", start=r"(?<!\w)"
)
_ELSE = r"any(?:thing|one)? (?:else|more|further)|(?:what|who|something|nothing) else|(?:other|further) (?:\w+)"
_LEAVE = (
    r"good ?bye|bye|farewell|have a (?:great|good|nice|lovely|wonderful)|take care(?! of)|glad (?:i|to|that)|pleasure"
)
_THANK = (
    r"thank you for (?:your patience|calling|contacting us|choosing)|wish you|enjoy (?:your|the)|(?:more|all) i can"
)
_FINISHED = (
    r"(?:all|everything|request|issue)\b[^.?!]{0,30}? (?:is|has been)(?: now)? (?:settled|done|complete|resolved)"
)
_ALL = r"all set|that is (?:all|it|everything)(?! (?:i|we) need)"
_HELP = r"(?:how|where) (?:can|may|could) (?:i|we) (?:help|assist|be of)|how (?:i|we) (?:can|could|may) (?:help|assist)"
_WHY = r"what (?:would you like|do you (?:want|need)|brings|seems to be|are you calling|is the (?:problem|issue))"
_MORE = r"what exactly|tell me (?:more|what)|describe|(?:reason for|purpose of) your|more (?:detail|information|about)"
WHY_CALLED = _any(_HELP, _WHY, "what (?:can|could) (?:i|we) (?:do|help)", _MORE, "in detail", end="")
"""How an agent asks for the reason of the call."""
_CLOSING = _any(_ELSE, _LEAVE, _THANK, _ALL, _FINISHED, r"^\W*(?:done|resolved)\W*$")
_GREETING = re.compile(rf"\b(?:{_THANK})\b(?=.*\?)", re.I | re.S)
"""Thanks before a question are no farewell."""
_HAND = r"transfer\w*|pass(?:ed|ing)|hand(?:ed|ing)|connect(?:ed|ing)|putting|escalated|forward(?:ed|ing)"
_HANDED_OVER = re.compile(
    rf"\b(?:{_HAND})\b[^.!?]{{0,40}}\b(?:{PEOPLE}|humans|colleagues|representative|person|agent)\b", re.I
)
_OFFERS = re.compile(
    r"\b(?:can|could|shall|should|would|may|might|if|unless|whether|want|like|happy to|able to)\b", re.I
)
_CAN_NOT_BE = r"can not be (?:cancel|chang|modif|return|exchang|refund|done)\w*"
_REFUSED = _any(rf"(?:i|we)(?: am| are)? (?:{UNABLE})|not (?:{NOT_POSSIBLE})", "unfortunately|impossible", _CAN_NOT_BE)
_POLITE_WH = r"(?:and|so|ok\w*|please|could you|can you|tell me|let me know|confirm|also|sure|great|thanks?)\b[\s,]*"
_WH_QUESTION = re.compile(rf"^\W*(?:{_POLITE_WH})*(?:which|what|who|whom|how|why|when|where)\b", re.I)
_WANTED = re.compile(
    r"\b(?:please|provide|share|tell|give|send|state|enter|need|required?|missing|what|which|who)\b", re.I
)


class Reading:
    """The statements and requests of one message of the agent.

    :param offer: whether it offers to do something: things in its yes-or-no question are then offered, not asked for.
    """

    def __init__(self, text: str, *, offer: bool = False) -> None:
        self.text = text = normal(text)
        self.closing = bool(_CLOSING.search(_GREETING.sub(" ", text)))
        """It asks for anything else, or takes its leave."""
        self._offer = offer
        self._rest = _CLOSING.sub(" ", text)
        # Whatever its words, a question beside an offer wants a yes or a no. So does a request for no fact, unless the
        # user is to do something itself: then it is one for a report.
        wants_answer = offer and not any(c.mood is Mood.INSTRUCTS for c in clauses(text))
        each = [s for s in sentences(joined(self._rest)) if not _WH_QUESTION.search(s)]
        # "Do you have anything else on your mind?" beside what was done wants no yes.
        last = {_CLOSING.sub(" ", s).strip() for s in sentences(joined(text)) if _CLOSING.search(s)}
        self._deciding = [
            s
            for s in each
            if _DECISION.search(s) or (offer and asks(s) and s not in last) or (wants_answer and _requests_no_fact(s))
        ]
        self._open_question = any(map(asks, each))
        self.question = "?" in self._rest
        self.refused = bool(_REFUSED.search(self._rest))

    @property
    def decision(self) -> bool:
        """It wants a yes or a no."""
        return bool(self._deciding)

    @property
    def doubt(self) -> bool:
        """It asks for no fact, but for a confirmation of earlier words: "You're sure?"."""
        return not self.facts and self._open_question

    @cached_property
    def transferred(self) -> bool:
        """It states, neither as a question nor as an offer, that another agent continues."""
        for sentence in sentences(self.text):
            found = _HANDED_OVER.search(sentence)
            if found and not asks(sentence) and not _OFFERS.search(sentence[: found.end()].rpartition(",")[2]):
                return True
        return False

    @cached_property
    def facts(self) -> tuple[str, ...]:
        """Keys of :data:`SLOTS` that it asks for: in clauses that ask, instruct or need something, or only name it."""
        offered = [plain(sentence) for sentence in self._deciding] if self._offer else []
        asking: list[str] = []
        # Beside a yes-or-no question, entries with values ("- How much: 2 GB") are given.
        given = self.decision or self._open_question
        for clause in clauses(_GIVEN.sub("", self._rest) if given else self._rest):
            body = EMAIL_ADDRESS.sub("email", clause.body)
            if not any(plain(clause.body) in sentence for sentence in offered) and self._wants(clause, body):
                asking.append(body)
        return tuple(
            slot
            for slot, words in _SLOTS.items()
            if any(words.search(body) and not identifiers(body).get(slot) for body in asking)
        )

    def _wants(self, clause: Clause, body: str) -> bool:
        if clause.mood is Mood.NAMES:
            return not self._offer and not _PREPOSITION.match(body) and len(body.split()) <= 8 + 8 * clause.question
        if clause.mood is Mood.INSTRUCTS and self._offer and not clause.addressed:
            # "Three bookings, one way, no bags": what an offer lists without a verb is given.
            return bool(_WANTED.search(body))
        return clause.mood is not Mood.STATES or bool(_NEEDS.search(body))

    def may_want(self, slots: Collection[str]) -> bool:
        """Return whether it may want any of some facts, however it is worded: it names one, or needs something."""
        needs = any(c.mood is Mood.STATES and _NEEDS.search(c.body) for c in clauses(self.text))
        return needs or any(_SLOTS[slot].search(self.text) for slot in slots)


def _requests_no_fact(sentence: str) -> bool:
    """Return whether a sentence has a request ("give me a thumbs up") and names no fact."""
    asking = any(clause.mood is Mood.ASKS for clause in clauses(sentence))
    return asking and not any(words.search(sentence) for words in _SLOTS.values())
