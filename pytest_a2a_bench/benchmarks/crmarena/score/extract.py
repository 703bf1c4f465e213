"""Read the values out of an answer by rules, for want of a model: ids, months, states, BANT factors, stages."""

from __future__ import annotations

import re

from pytest_a2a_bench.benchmarks.crmarena.score import bant
from pytest_a2a_bench.benchmarks.crmarena.score.mentions import Mention, given, only_references, read_both
from pytest_a2a_bench.benchmarks.crmarena.tasks import MONTHS, NONE, STAGES, Category

_NAMES = """\
AL Alabama|AK Alaska|AZ Arizona|AR Arkansas|CA California|CO Colorado|CT Connecticut|DE Delaware|FL Florida|GA Georgia|\
HI Hawaii|ID Idaho|IL Illinois|IN Indiana|IA Iowa|KS Kansas|KY Kentucky|LA Louisiana|ME Maine|MD Maryland|\
MA Massachusetts|MI Michigan|MN Minnesota|MS Mississippi|MO Missouri|MT Montana|NE Nebraska|NV Nevada|NH New Hampshire|\
NJ New Jersey|NM New Mexico|NY New York|NC North Carolina|ND North Dakota|OH Ohio|OK Oklahoma|OR Oregon|\
PA Pennsylvania|RI Rhode Island|SC South Carolina|SD South Dakota|TN Tennessee|TX Texas|UT Utah|VT Vermont|\
VA Virginia|WA Washington|WV West Virginia|WI Wisconsin|WY Wyoming|DC District of Columbia|DC Washington,? D\\.?C\\.?|\
PR Puerto Rico"""
US_STATES = tuple((entry[:2], entry[3:]) for entry in _NAMES.split("|"))
"""Abbreviation and name of each; a name is a regular expression, and the capital's district has two."""
CODES = frozenset(code for code, _ in US_STATES)
# Longer names first: West Virginia holds Virginia.
_BY_LENGTH = sorted(US_STATES, key=lambda entry: -len(entry[1]))
_NAME = re.compile(
    # New York City is no state.
    "|".join(rf"(?P<g{i}>(?<!\w){name}(?!\w)(?!\s+City))" for i, (_, name) in enumerate(_BY_LENGTH)),
    re.IGNORECASE,
)
_CODE = re.compile(r"(?<![\w.-])(?:" + "|".join(sorted(CODES)) + r")(?![\w-])")
# Words that are written in capitals for other reasons.
_CAPITAL_WORDS = frozenset({"OK", "ID", "HI", "OR", "IN", "ME", "OH"})


def find_states(text: str) -> list[Mention]:
    """Find the states that a text names, in order. ``OK`` and its like count only where no other state is named."""
    bare = text.strip().strip("\"'`*.").upper()
    # The whole answer is a code: nothing around it could mean anything else.
    if bare in CODES:
        return [Mention(bare, 0, len(text))]
    codes = [Mention(m[0], *m.span()) for m in _CODE.finditer(text)]
    names = [Mention(_BY_LENGTH[int((m.lastgroup or "g0")[1:])][0], *m.span()) for m in _NAME.finditer(text)]
    found = sorted([*codes, *names], key=lambda m: m.start)
    # Codes that are words count only where they are marked as codes.
    sure = [m for m in found if m.value not in _CAPITAL_WORDS or m.end - m.start > 2 or _is_marked(text, m)]
    return sure or found


def _is_marked(text: str, mention: Mention) -> bool:
    """Tell whether an ambiguous code is set apart: quoted, bracketed, after a colon or "is", or among codes."""
    before = text[max(0, mention.start - 12) : mention.start]
    after = text[mention.end : mention.end + 8]
    set_apart = re.search(r"(?:[\"'`(*]|[:=]\s*|\bis\s+|\bstate(?: of)?\s+|\b[A-Z]{2}(?:[,;/]| and| or)\s*)\Z", before)
    lines = text[: mention.start].rpartition("\n")[2] + text[mention.end :].partition("\n")[0]
    if not re.search(r"\w", re.sub(r"\A\s*\d+[.)]", "", lines)):
        return True
    if after.startswith(":"):
        return False
    return bool(set_apart) or bool(re.match(r"(?:,| and)\s+[A-Z]{2}\b", after) and before.strip() == "")


_NONE_WORDS = r"(?:none|n/?a|null|nil|nothing|nobody|no one|no answer|not found|\[\s*\]|not applicable)"
# Words that stand for None only when they are all that there is.
_WHOLE = re.compile(rf"(?:(?:the )?(?:final )?answer(?: is|:)?[^\w\n]{{0,8}})?{_NONE_WORDS}", re.IGNORECASE)
_AROUND = " \t\r\"'`*_.,:;!()<>#~|-\u2018\u2019\u201c\u201d"
_LONGEST = 200
_STATED = re.compile(r"\banswer(?: is|:)[\s\"'`*]*none\b", re.IGNORECASE)
_THINGS = (
    r"(?:records?|results?|agents?|users?|violations?|polic(?:y|ies)|articles?|issues?|products?|cases?|orders?|leads?|"
    r"opportunit\w+|states?|regions?|factors?|breach\w*|conflicts?|tasks?|such|data|changes?|match\w*|one|transfers?|"
    r"quotes?|contracts?|purchases?|transactions?|months?|mismatch\w*|correction\w*|rectification\w*|rules?)"
)
_SAID = re.compile(
    r"\bnone\b(?!\s+of\s+the\s+(?:other|remaining|rest))|\bn/a\b|\bnull\b"
    rf"|\b(?:there (?:is|was|are|were) )?no (?:\w+ ){{0,4}}?{_THINGS}\b"
    r"|\b(?:could|can|did|do|does|was|were|is|are)(?:n['\u2019]t| ?not) (?:\w+ ){0,3}?"
    r"(?:find|found|identif\w+|locat\w+|any|match|violat\w*|breach\w*|exist|determin\w+|available)\b"
    r"|\bnot (?:found|applicable|available)\b|\bunable to (?:find|identify|determine|locate)\b"
    r"|\bnothing\b|\bnobody\b|\bno one\b|\bwithout (?:any )?(?:violation|breach)",
    re.IGNORECASE,
)
_ALL_WELL = re.compile(
    r"(?<!not )(?<!n't )\b(?:complies|compliant|complied|adheres|adhered|conforms|"
    r"(?:is|are|was) (?:all )?(?:met|in order))\b"
    r"|\b(?:is|was|are) (?:already )?(?:accurate|correct|appropriate|accurately|correctly|appropriately|aligned|"
    r"consistent)\b"
    r"|\b(?:is|be|as) (?:fully )?qualified\b|\bmeets all\b|\ball (?:four |the )*(?:bant )?(?:factors|criteria)\b",
    re.IGNORECASE,
)

_TROUBLE = re.compile(
    r"\b(?:return\w*|raise[ds]?|gave|got|threw|hit|encounter\w*|ran into|due to|because of|with)\s+"
    r"(?:an?\s+|the\s+|this\s+|some\s+)?(?:\w+\s+){0,2}?(?:errors?|exceptions?|time-?outs?)\b"
    r"|\b(?:tools?|quer(?:y|ies)|connections?|systems?|databases?|requests?|org|access)\b[^.\n]{0,30}"
    r"\b(?:fail(?:ed|s|ing)?\b(?! to find)|(?:is|was|are|were) (?:refused|denied|down|unavailable|unreachable)\b|"
    r"timed out\b|(?:did|do|does)(?: not|n['\u2019]t) work\b)",
    re.IGNORECASE,
)


def is_nothing(text: str) -> bool:
    """Tell whether the answer's first or last line is the word None (or its like), or it says "the answer is None"."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return False
    # A long first or last line is prose, in which such a word means something else.
    ends = [line.strip(_AROUND) for line in (lines[0], lines[-1]) if len(line) <= _LONGEST]
    return any(_WHOLE.fullmatch(line) for line in ends) or bool(_STATED.search(text))


def says_nothing(text: str) -> bool:
    """Tell whether the answer says in words that there is none, or that all is as it should be.

    Who could not look, because a query or a tool failed, has not said so.
    """
    if _TROUBLE.search(text):
        return False
    return bool(_SAID.search(text)) or bool(_ALL_WELL.search(text))


LIMIT = 20_000
"""Characters of an answer that are read."""

_MONTH = re.compile(
    # Full names in both cases, but not in small letters: may and march are words.
    r"\b(?:(?P<full>" + "|".join(f"{m}|{m.upper()}" for m in MONTHS) + r")|"
    r"(?P<short>Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|JAN|FEB|MAR|APR|JUN|JUL|AUG|SEPT?|OCT|NOV|DEC)\b\.?)"
    r"(?![\w'\u2019])"
)
_NUMBERED_MONTH = re.compile(r"(?<![\d-])(?:19|20)\d\d-(0[1-9]|1[0-2])(?![\d-])")
# "May I", "May we": no month.
_MODAL = re.compile(r"\s+(?:I|we|you|be|have|not|the)\b")
# A month with a day is a date and not the answer.
_DAY = re.compile(r"\.?[ \t]+\d{1,2}(?:st|nd|rd|th)?\b(?!\d)(?!\s*(?:cases|\())")
# Months that only bound the period that was asked about.
_RANGE = re.compile(
    r"\b(?i:from|between|since|until|through|as of|today is|period|window)\s+[^.;\n]{0,30}?\b(?P<a>[A-Z][a-z]{2,8})\.?"
    r"(?:\s+\d{4})?(?:\s+(?:to|and|through|until)\s+(?P<b>[A-Z][a-z]{2,8})\.?(?:\s+\d{4})?)?",
)
_STAGE = re.compile(r"\b(Qualification|Discovery|Quote|Negotiation|Closed)\b(?!\s*(?:Id|ID|cases?|line)\b)")
_STAGE_CUE = re.compile(
    r"\b(?:should (?:instead |actually |really |rather )?(?:be|have been|read)|ought to be|must be|"
    r"(?:correct|right|appropriate|proper|actual|accurate|matching|true) (?:stage(?: ?name| label)?|label|one)"
    r"(?: \w+){0,3}? (?:is|would be|should be)|"
    r"(?:changed?|updated?|corrected?|rectif\w+|aligned?|moved?|set|revised?|adjusted?)\b[^.;\n]{0,60}? (?:to|as))\b",
    re.IGNORECASE,
)
_STAGE_FROM = re.compile(
    r"(?:\bfrom|\bcurrent(?:ly)?(?: stage| marked| set| listed)*(?: ?name)?(?: is| as| to| of)?|"
    r"\b(?:listed|recorded|marked|labell?ed|given|shown) as)"
    r"[\s\"'`*:]*(?:the )?\Z",
    re.IGNORECASE,
)
_ID = re.compile(r"(?<![\w-])(?=[A-Za-z]*\d)[0-9A-Za-z]{15}(?:[0-9A-Za-z]{3})?(?![\w-])", re.ASCII)


def extract(category: Category, answer: str) -> tuple[str, ...]:
    """Return the values that an answer gives; ``("None",)`` where it says there is none; nothing if it says neither.

    Never raises; the time is bounded by :data:`LIMIT`.
    """
    # Bounded before any expression looks at it.
    text = answer[:LIMIT]
    match category.answer:
        case "id" | "ids":
            return _ids(category, text)
        case "month":
            return _words(text, _months(text))
        case "state":
            return _words(text, find_states(text))
        case "stage":
            return _words(text, _stages(text))
        case "bant":
            return read_both(text, bant.find_named(text)) or bant.find_unmet(text) or _none_or_nothing(text)
        case "text" | "refusal":
            return (answer,)


def find_mentions(category: Category, text: str) -> list[Mention]:
    """Return where a text names values of the kind that is asked for; nothing for factors and free texts."""
    match category.answer:
        case "id" | "ids":
            return _find_wanted(category.key_prefix, text)
        case "month":
            return _months(text)
        case "state":
            return find_states(text)
        case "stage":
            return [Mention(m[1], *m.span()) for m in _STAGE.finditer(text)]
        case "bant" | "text" | "refusal":
            return []


def _none_or_nothing(text: str) -> tuple[str, ...]:
    return (NONE,) if is_nothing(text) or says_nothing(text) else ()


def _words(text: str, mentions: list[Mention]) -> tuple[str, ...]:
    if both := read_both(text, mentions):
        return both
    if is_nothing(text):
        return (NONE,)
    return given(text, mentions) or _none_or_nothing(text)


def _ids(category: Category, text: str) -> tuple[str, ...]:
    wanted = _find_wanted(category.key_prefix, text)
    # Both None and a value: that is neither, and must not pass for one.
    if both := read_both(text, wanted):
        return both
    if is_nothing(text):
        return (NONE,)
    if wanted and not (says_nothing(text) and only_references(text, wanted)):
        found = given(text, wanted, single=category.answer == "id")
        if found:
            return found
    if says_nothing(text):
        return (NONE,)
    # An id of another kind is an answer too, if a wrong one.
    return tuple(dict.fromkeys(m[0] for m in _ID.finditer(text)))


def _find_wanted(prefix: str, text: str) -> list[Mention]:
    """Find ids by their prefix; mistyped ones too, so that they are not passed over."""
    pattern = re.compile(rf"(?<![\w-]){re.escape(prefix)}[0-9A-Za-z]{{7,20}}(?![\w-])", re.ASCII)
    return [Mention(m[0], m.start(), m.end()) for m in pattern.finditer(text)]


def _months(text: str) -> list[Mention]:
    ranges = [r.span() for r in _RANGE.finditer(text)]
    found = []
    for match in _MONTH.finditer(text):
        word = (match["full"] or match["short"]).capitalize()
        # Three letters tell every month.
        name = next(m for m in MONTHS if m.startswith(word[:3]))
        modal = name == "May" and _MODAL.match(text, match.end())
        if not modal and not _DAY.match(text, match.end()):
            found.append(Mention(name, match.start(), match.end()))
    # Unless there are no others.
    outside = [m for m in found if not any(a <= m.start < b for a, b in ranges)] or found
    if not outside:
        outside = [Mention(MONTHS[int(m[1]) - 1], *m.span()) for m in _NUMBERED_MONTH.finditer(text)]
    if not outside and text.strip().strip("\"'`*.").capitalize() in MONTHS:
        outside = [Mention(text.strip().strip("\"'`*.").capitalize(), 0, len(text))]
    return outside


def _stages(text: str) -> list[Mention]:
    bare = text.strip().strip("\"'`*.").capitalize()
    if bare in STAGES:
        return [Mention(bare, 0, len(text))]
    mentions = [Mention(m[1], *m.span()) for m in _STAGE.finditer(text)]
    # The last cue wins: answers often end with a correction.
    for cue in reversed(list(_STAGE_CUE.finditer(text))):
        after = [m for m in mentions if m.start >= cue.end()]
        if after:
            return after[:1]
    current = [m for m in mentions if _STAGE_FROM.search(text[max(0, m.start - 60) : m.start])]
    kept = [m for m in mentions if m not in current]
    if kept or not mentions:
        return kept
    # Only the present stage is named: the answer is that it is right, or it says no more than that.
    return [] if says_nothing(text) else mentions
