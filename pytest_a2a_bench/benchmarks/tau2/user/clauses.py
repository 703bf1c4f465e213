"""What an agent's text tells somebody to do, asks, or merely states: clause by clause, whatever its words.

Agents word instructions without end, so none is listed here. What is recognised are the few forms that are *not* one (a
statement, the agent's own doing, a condition, a prohibition, a question); what remains is addressed to the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from pytest_a2a_bench.benchmarks.tau2.user.words import LOOKS, TELLS

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
    r"whereas|unless|until|"
    r"so that|so (?=i\b|we\b|you\b|it\b|that\b|the\b|your\b)|in order|while|when|once|if|after|before|"
    r"as soon as)\b))\s*"
    r"|,?\s+(?:and then|and after(?:wards| that)|then|and|but|plus)\s+"
    r"(?!(?:your|the|its?|a|an|this|that|my|(?:then )?back|on|off|in|out|up|again|sms|storage|mobile|cellular|data|"
    r"roaming|"
    r"airplane|flight|wi-?fi|vpn|apn|sim|internet|network|settings|zip|last|first|surname|family|phone|texts?|"
    r"calls?)\b)",
    re.I,
)
_MARKERS = re.compile(
    r"^\W*(?:(?:ok(?:ay)?|k|alright|all right|right|great|perfect|good|fine|lovely|cool|sure|nice|brilliant|excellent|"
    r"awesome|wonderful|thanks?|thank you|hi|hello|hey|so|and|also|but|well|now|next|then|first(?:ly)?(?! name)|"
    r"second(?:ly)?|"
    r"third(?:ly)?|finally|lastly|last(?! name)|again|once more|after that|afterwards|in that case|if so|if not|"
    r"otherwise|"
    r"step \w+|the next (?:one|step)|just|(?!reply|apply|supply|rely|kindly)\w{3,}ly|instead|for now|actually|maybe|"
    r"perhaps|there|as a next step|"
    r"if you don['\u2019]t mind|if you would|if possible|if you can|when(?:ever)? you(?:['\u2019]re| are) ready|"
    r"to (?:start|begin|do (?:so|this|that))(?: with)?|in (?:order|the meantime)|"
    r"(?:in|on|from|under|within) (?:your |the )?[\w' &-]*?(?:settings|menu|phone|device|screen|app|"
    r"end))\b[\s,.:!;-]*)+",
    re.I,
)
_YOU_DO = (
    r"(?:you|u|yourself)"
    r"(?:(?:['\u2019]ll|['\u2019]d| will| would| might| may)? (?:should|must|need to|have to|got to|can|could|may|"
    r"might want to|might|want to|ought to|are to|gotta|will want to|had better)|['\u2019]ll|['\u2019]d better| to|"
    r" should)"
)
_ASKING = re.compile(
    # Whatever stands before these, what follows is for the user to do.
    r"\b(?:please(?: you)?|pls|plz|kindly|(?:could|can|would|will|won['\u2019]t|can['\u2019]t|might|"
    r"may i ask) (?:you|u|ya)"
    r"(?: be (?:so )?(?:kind|good)(?: as| enough)?(?: to)?| mind)?(?: awfully| terribly)?"
    rf"|(?:do|would) you mind|mind|{_YOU_DO}"
    r"|(?:(?:request|ask|suggest|recommend|advise|like|need|want|appreciate|propose|prefer|urge|encourage|get|have|"
    r"sure|helps?|help|essential|necessary|important|best|grateful|great|good|lovely|check)(?: it)?(?: if| that|"
    r" for|,)?) "
    r"(?:you|u)(?: to| should| would| could| can)?"
    r"|(?:i|we|i['\u2019]d|i would)(?: also| strongly)? (?:suggest|recommend|advise|propose)"
    r"|let['\u2019]?s|let us|lets|we(?:['\u2019]ll| will)?(?: first| also| now| then)? (?:need|have|got|want|ought|"
    r"are going) to"
    r"|we (?:should|must|can|could)|go ahead(?: and| then and)?|(?:would|will|could|might)(?: really)? help(?: me|"
    r" us)?(?: to)?|"
    r"(?:i|we)(?:['\u2019]d| would|['\u2019]ll| will)?(?: also| just)? (?:need|like|want|love|have) to (?:know|see|"
    r"hear)"
    r"|how about|why don['\u2019]t (?:you|we)|why not"
    r"|make sure(?: to| that)?|be sure to|ensure(?: that)?|see to it(?: that)?|try(?: to| and)?|remember to|"
    r"don['\u2019]t forget to|feel free to|let (?:me|us) (?:know|have)|(?:tell|give|show|send) (?:me|us)|"
    r"here(?:['\u2019]s| is) (?:how|what)(?: you can| you)?(?: to)?|how to|"
    r"(?:it(?:['\u2019]s| is) )?time to|the (?:next|first|last|only|other|best) (?:thing|step|move|bit|option|"
    r"way)[^.]{0,30}? "
    r"is (?:for you )?(?:to)?|what (?:you|i|we)\b['\u2019\w ]{0,20} is(?: for you)?(?: to)?|all you[\w' ]* is(?: to)?|"
    r"all that['\u2019]?s? (?:left|missing) is(?: to)?|(?:it['\u2019]?s|is|are|be) (?:best |necessary |required |"
    r"supposed )to"
    r"|(?:needs?|has|have|had|ought|got|supposed|is|are) to be|(?:should|must) (?:then |now )?be)\b",
    re.I,
)
_OWN = re.compile(
    r"\b(?:i|we)(?:['\u2019](?:ll|ve|d|m|re))?\b(?! see\?)|\b(?:let|allow|want|like|allows?|enables?) (?:me|us)\b|"
    r"\bfor me to\b|\bme to\b|\bmy\b|"
    r"\b(?:on|from) (?:my|our) (?:side|end)\b|\bi(?:['\u2019]m|ma)\b|\bgonna\b",
    re.I,
)
_RELATIVE = re.compile(r"(?<=\w) (?:(?:that|which) )?(?:i|we)(?:['\u2019]ve| have| just| already)* (?:sent|gave|raised|"
r"issued|made|mentioned|hold|keep|have (?=on|for|in)|"
                       r"described|told|asked|said|listed|provided|shared)\b[^,.]*", re.I)  # fmt: skip
_SUBORDINATE = re.compile(
    r"^\W*(?:if|when(?!\s+you(?:['\u2019]re| are) ready)|once|while|because|since|as|after|before|until|till|"
    r"unless|"
    r"though|although|which|who|whose|that|in case|so that|so (?=i\b|we\b|you\b|it\b|that\b|the\b|your\b)|"
    r"in order|even if|whereas|due to|given|given that)\b",
    re.I,
)
_NOT = re.compile(
    r"\b(?:do not|don['\u2019]?t(?! forget)|never|no need|needn['\u2019]t|without|not necessary|not need|"
    r"shouldn['\u2019]t|"
    r"mustn['\u2019]t|should not|must not|not have to|rather than|instead of|avoid)\b",
    re.I,
)
_LATER = re.compile(r"\b(?:later(?: on)?|(?:at )?any ?time|some other time|next time|in (?:the )?future)\W*$", re.I)
_FINITE = re.compile(
    r"\b(?:is|are|was|were|am|isn['\u2019]t|aren['\u2019]t|has|have|had|hasn['\u2019]t|may|might|can|could|cannot|"
    r"can['\u2019]t|will|would|won['\u2019]t|does|do|did|doesn['\u2019]t|seems?|appears?|looks?|stays?|remains?|"
    r"shows?|says?|"
    r"blocks?|prevents?|stops?|means|affects?|causes?|helps?|happens?|depends|needs?|requires?|works?|allows?|"
    r"lets?|gets?|"
    r"keeps?|makes?|became|got|went|tends?|interferes?|limits?|slows?|uses?|controls?|lies|comes?|takes?)\b"
    r"|\w['\u2019](?:s|re|ve|d) (?=\w)|\bindicates?\b",
    re.I,
)
_SUBJECT = re.compile(
    r"^\W*(?:(?:the|your|this|that|these|those|it|there|here|you|u|he|she|they|everything|something|nothing|one|"
    r"some|all|"
    r"any|a|an|another|looks like|it looks|sounds|seems)\b|\w+ing (?=is|may|can|will|might))",
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
_SHARED = re.compile(r"(?:go ahead|make sure|ensure|see to it|try|be sure|(?:needs?|has|have|had|ought|got|"
r"supposed|is|are) to be|"
                     r"should|must)\b", re.I)  # fmt: skip
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
    r"^\W*[\"\u201c]|^\W*\d|^\W*(?!need|proceed|speed|feed|embed)\w{3,}ed\b|^\W*(?!press|access|pass|dismiss|address|"
    r"bypass|discuss|"
    r"always|settings)\w{3,}s\b(?! (?:your|the|it)\b)|^\W*\w{2,}ing\b.*\b(?:is|are|can|could|may|might|should|will|"
    r"would|helps?|means|"
    r"affects?|requires?)\b|^\W*(?:like|such as|than|including|e\.g\.|i\.e\.)\W",
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
            last = read(part, question=asked)
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


def read(part: str, *, question: bool = False) -> Clause:
    """Read one clause."""
    *menus, body = _PATH.split(part) if _PATH.search(part) else [part]
    if menus and (deed := _WHERE.match(menus[0])):
        # "Switch roaming on under Settings > Network": the deed stands before the way to it.
        found = read(deed[1], question=question)
        return replace(found, menus=(*menus[1:], body))
    if menus:
        named = Clause(Mood.NAMED, body, question, tuple(menus))
        first = read(menus[0])
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
