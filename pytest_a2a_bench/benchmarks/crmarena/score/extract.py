"""Read the values out of an answer by rules, for want of a model: ids, months, states, BANT factors, stages."""

from __future__ import annotations

import re

from pytest_a2a_bench.benchmarks.crmarena.categories import Category
from pytest_a2a_bench.benchmarks.crmarena.score import bant, places
from pytest_a2a_bench.benchmarks.crmarena.score.lines import Mention, read_both
from pytest_a2a_bench.benchmarks.crmarena.score.mentions import given, only_references
from pytest_a2a_bench.benchmarks.crmarena.score.nothing import is_nothing, says_nothing
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE

LIMIT = 20_000
"""Characters of an answer that are read."""

STAGES = ("Qualification", "Discovery", "Quote", "Negotiation", "Closed")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MONTH = re.compile(
    r"\b(?:(?P<full>" + "|".join(f"{m}|{m.upper()}" for m in MONTHS) + r")|"
    r"(?P<short>Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|JAN|FEB|MAR|APR|JUN|JUL|AUG|SEPT?|OCT|NOV|DEC)\b\.?)"
    r"(?![\w'\u2019])"
)
_NUMBERED_MONTH = re.compile(r"(?<![\d-])(?:19|20)\d\d-(0[1-9]|1[0-2])(?![\d-])")
_MODAL = re.compile(r"\s+(?:I|we|you|be|have|not|the)\b")
_DAY = re.compile(r"\.?[ \t]+\d{1,2}(?:st|nd|rd|th)?\b(?!\d)(?!\s*(?:cases|\())")
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
    text = answer[:LIMIT]
    match category.answer:
        case "id" | "ids":
            return _ids(category, text)
        case "month":
            return _words(text, _months(text))
        case "state":
            return _words(text, places.find_states(text))
        case "stage":
            return _words(text, _stages(text))
        case "bant":
            return read_both(text, bant.find_named(text)) or bant.find_unmet(text) or _none_or_nothing(text)
        case "text" | "refusal":
            return (answer,)


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
        name = next(m for m in MONTHS if m.startswith(word[:3]))
        modal = name == "May" and _MODAL.match(text, match.end())
        if not modal and not _DAY.match(text, match.end()):
            found.append(Mention(name, match.start(), match.end()))
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
