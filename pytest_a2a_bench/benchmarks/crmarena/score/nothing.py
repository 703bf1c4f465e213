"""Whether an answer says that there is nothing to name."""

from __future__ import annotations

import re

_WORDS = r"(?:none|n/?a|null|nil|nothing|nobody|no one|no answer|not found|\[\s*\]|not applicable)"
_WHOLE = re.compile(rf"(?:(?:the )?(?:final )?answer(?: is|:)?[^\w\n]{{0,8}})?{_WORDS}", re.IGNORECASE)
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
    ends = [line.strip(_AROUND) for line in (lines[0], lines[-1]) if len(line) <= _LONGEST]
    return any(_WHOLE.fullmatch(line) for line in ends) or bool(_STATED.search(text))


def says_nothing(text: str) -> bool:
    """Tell whether the answer says in words that there is none, or that all is as it should be.

    Who could not look, because a query or a tool failed, has not said so.
    """
    if _TROUBLE.search(text):
        return False
    return bool(_SAID.search(text)) or bool(_ALL_WELL.search(text))
