"""What an answer claims: which of the values in it are asserted, and which denied, only quoted, or taken back.

A text is a row of clauses, and each value stands in one. A clause denies its values (``X is wrong``, ``anything but
X``), quotes them (``the last id seen was X``, ``is it X?``), or asserts them. Whatever is not asserted is blanked, and
only what is left is read for values (:mod:`.extract`). ``{"answer": [...]}`` needs no reading: the last one of a text
is what it says. Pure.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from pytest_a2a_bench.benchmarks.crmarena.score.extract import LIMIT, extract, find_mentions, says_nothing
from pytest_a2a_bench.benchmarks.crmarena.score.mentions import Mention, is_joined
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE, Category
from pytest_a2a_bench.translate.json_blocks import BROKEN, find_blocks

Stance = Literal["asserted", "denied", "quoted"]

# Where another clause begins: what is said there is said of something else.
_BREAK = re.compile(
    r"[.!?](?=\s|\Z|[\"'*`)])|[;\n\u2013\u2014]|:(?=\s)|\s-\s|\.\.\.|"
    r",?\s+\b(?:but|yet|so|hence|thus|therefore|however|though|although|because|since|which|who|whose|while|whereas|"
    r"instead|rather)\b|"
    r",\s*(?=(?:it|this|that|he|she|they|I|we|the answer|the right one|and (?:not|the)|not|nor|first|unlike)\b)|"
    r"\s+(?=and not\b)|[()]"
)
# Words that deny whatever follows them in their clause.
_DENIED_BEFORE = re.compile(
    r"\b(?:anything|anyone|anybody|everything|everyone|everybody|all|any|every \w+|any \w+) "
    r"(?:but|except|besides|save)\b|"
    r"\b(?:except(?: for)?|excluding|other than|apart from|aside from|unlike|ignor(?:e|ing)|disregard(?:ing)?|"
    r"discard(?:ing)?|doubt\w*|unlikely|no way|by no means|decoy|red herring|runners?-?up|second (?:place|best)|"
    r"least likely|less likely|(?:rul(?:e|ed|ing) out|reject|exclude|eliminate|dismiss))\b|"
    r"\b(?:cannot|can(?: no|no|['\u2019])t|could(?: not|n['\u2019]t)) (?:be|have been|possibly be)\b|"
    r"\b(?:do|does|did|would|should|could|can|will|must|may)(?: not|n['\u2019]t) (?:\w+ ){0,3}?"
    r"(?:think|believe|say|answer|assume|expect|pick|choose|consider|suppose|recommend|trust|name|submit|see how)\b|"
    r"\b(?:not|n['\u2019]t) (?:the case|true|so|correct|right|certain|sure|clear|convinced)\b|"
    r"\b(?:wrong|false|incorrect|misleading|a mistake|a lie) (?:to|that|it)\b",
    re.IGNORECASE,
)
# And words that may belong to the subject of a sentence, whose predicate is what is asserted.
_DENIED_NEAR = re.compile(
    r"\b(?:not|isn['\u2019]t|wasn['\u2019]t|aren['\u2019]t|never|neither|nor|wrong\w*|incorrect\w*|false\w*|mistak\w+|"
    r"reject\w*|exclud\w+|eliminat\w+|discarded|dismissed|ignored)\b(?! only\b)"
    r"(?!.*\b(?:is|was|are|were|has|had|should|changed|moved|set)\b)",
    re.IGNORECASE,
)
_ADVERB = r"(?:(?:\w+ly|just|also|still|quite|simply|in fact|of course|by far|only|thus|then|no doubt|merely|indeed) )*"
_BAD = (
    r"(?:not\b(?! only\b)|never\b|no longer\b|wrong|incorrect|false|untrue|invalid|mistaken|misleading|unlikely|"
    r"(?:an? |the |one )?(?:\w+ ){0,2}?(?:mistake|error|decoy|trap|red herring|distractor|wrong|lie|"
    r"false|incorrect|runner-?up|loser|second|least|worst guess)|"
    r"in (?:the )?(?:second|third|last) place|out of|excluded|ruled out|rejected|discarded|dismissed|eliminated|"
    r"disqualified|ineligible|irrelevant|beaten|outdone)"
)
_DENIED_AFTER = re.compile(
    r"[\s\"'`*_)\],]*(?:~~|"
    r"(?:is|was|are|were|be|would be|seems?|looks?|has been|had been|must be|can be|could be|may be|should be) "
    rf"{_ADVERB}{_BAD}|"
    r"(?:is|was|are|were|do|does|did|ca|can|could|would|wo|should|must|has|have|had)n['\u2019]t\b|"
    r"(?:can(?:not| not)|could not|may not|must not|would not|should not|does not|do not|did not|has not|will not)"
    r" (?:be|qualify|apply|count|match|fit|meet|have been|satisfy)\b|"
    r"(?:came|comes|finished|ended|ranked|ranks|was|is) (?:\w+ )?(?:second|third|last)\b|"
    rf"(?:it|this|that|he|she|they) (?:is|was|are) {_ADVERB}not\b|(?:would|could|might) have been\b|"
    r"had (?:\w+ ){0,3}been (?:considered and )?rejected)",
    re.IGNORECASE,
)
_QUOTED_BEFORE = re.compile(
    r"\b(?:last|previous) (?:\w+ ){0,3}?(?:seen|saw|read|returned|row|record|line|entry|query|shown|listed|id)\b|"
    r"\bfirst (?:row|record|line|entry|query)\b|"
    r"\bone (?:of the )?(?:\w+ ){0,2}(?:id|ids|records?|rows?|candidates?)\b|"
    r"\b(?:for example|for instance|e\.g\.|such as|examples? of|an example|you asked|asked about|asks about|told me|"
    r"tells me|told to|says? that|said that|claims? that|claimed|argues?|had said|i said|might expect|would expect|"
    r"first thought|at first|i thought|if it (?:is|was|were)|candidates|placeholder|like this)\b|"
    # Of what was done on the way only the object is quoted, and no sentence that goes on from there.
    r"\b(?:saw|have seen|came across|looked at|looking at|considered|noticed|checked|mention(?:s|ed|ing)?|beats?|"
    r"beating|outdoes|outdid)\b(?!.*\b(?:is|was|are|were|has|had)\b)",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"\b(?:runners?-?up|second(?: place| best)?|third|last|wrong|rejected|excluded|ruled out|ignored?|discarded|not|"
    r"candidates?|example|seen|considered)[\s\"'`*_]*:[\s\"'`*_]*\Z",
    re.IGNORECASE,
)
_QUOTED_AFTER = re.compile(
    r"[\s\"'`*_)\],]*(?:was|is|has been|were) (?:\w+ )?(?:considered|looked at|checked|mentioned|seen|shown|listed)\b|"
    r"[\s\"'`*_)\],]*(?:looked|seemed|appeared) ",
    re.IGNORECASE,
)
# Of a rule that was broken it is said that it was not followed, or what is not approved by it: that is the answer.
_BROKEN_RULE = re.compile(
    r"\b(?:not|n['\u2019]t|never|cannot|fail\w*)\s+(?:be )?(?:\w+ly )?(?:to )?(?:comply|complied|follow\w*|adhere\w*|"
    r"respect\w*|meet|met|observe\w*|conform\w*|satisf\w+|obey\w*|in line|in accordance|compliant|fulfil\w*|keep|kept|"
    r"allowed|permitted|approved|valid|accept\w*|possible|eligible)\b|"
    r"\b(?:is|was|are|were|be|been) (?:\w+ly )?(?:rejected|excluded|refused|wrong|incorrect|invalid|mistaken)\b",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"\b(?:no,? wait|wait,? no|scratch that|strike that|on second thoughts?|on reflection|i (?:mean|meant)|"
    r"i correct myself|i take (?:that|it) back|let me correct|correction|actually|"
    r"that (?:was|is) (?:a mistake|wrong|an error))\b",
    re.IGNORECASE,
)
_STATED = re.compile(r"\banswer\s*(?:is|:|=)[\s\"'`*_]*", re.IGNORECASE)
_FINAL_NONE = re.compile(
    r"(?:[.!?;:,\n)]|\A)\s*(?:so|hence|thus|therefore|and so|which means|overall)?,?\s*"
    r"(?:(?:the|my|final|correct)\s+)*(?:answer\s*(?:is|:|=)?|it is|there is|i say|result\s*(?:is|:))?\s*"
    r"[\"'`*]*none[\"'`*]*\s*[.!]?\s*\Z",
    re.IGNORECASE,
)
_MASK = "that"
_JOINING = re.compile(
    rf"\b(?:none|or|and|either|the|final|answer|is|it|maybe|perhaps|{_MASK})\b|^\s*\(?\d{{1,2}}[.):]",
    re.IGNORECASE | re.MULTILINE,
)
_REACH = 120
"""How far before and after a value the words of its clause are looked at."""


def read_claims(category: Category, answer: str) -> tuple[str, ...]:
    """Return the values that an answer asserts, last and alone; ``("None",)`` where it says that there is none.

    Never raises.
    """
    text = answer[:LIMIT]
    structured = read_structured(text)
    if structured is not None:
        read = [value for item in structured for value in extract(category, item) or (item,)]
        return tuple(dict.fromkeys(read)) or (NONE,)
    # Of BANT's factors the ones that are not met are asked for: to deny one is to assert it.
    if category.answer in ("bant", "text", "refusal"):
        return extract(category, text)
    text = _without_taken_back(category, text)
    mentions = find_mentions(category, text)
    stances = stances_of(category, text, mentions)
    cleaned = _mask(text, [m for m, stance in zip(mentions, stances, strict=True) if stance != "asserted"])
    if mentions and _FINAL_NONE.search(cleaned) and not _bare(text, mentions):
        return (NONE,)
    stated = _stated(category, cleaned)
    if len(stated) > 1:
        return stated
    if mentions and "asserted" not in stances and not says_nothing(cleaned):
        return ()
    return extract(category, cleaned)


def read_structured(text: str) -> list[str] | None:
    """Return the values of the last ``{"answer": ...}`` in a text; None where there is no such object."""
    if '"answer"' not in text:
        return None
    found: list[str] | None = None
    for block in find_blocks(text):
        if block.value is not BROKEN and isinstance(block.value, dict) and "answer" in block.value:
            found = _items(block.value["answer"])
    return found


def _items(value: Any) -> list[str]:
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    return [item if isinstance(item, str) else NONE if item is None else json.dumps(item) for item in items]


def stances_of(category: Category, text: str, mentions: Sequence[Mention]) -> list[Stance]:
    """Return how each value of a text is said, in order."""
    asked = [found.start() for found in re.finditer(r"\?", text)]
    breaks = _Breaks([found.span() for found in _BREAK.finditer(text)])
    stances: list[Stance] = []
    before: Mention | None = None
    for mention in mentions:
        if before is not None and stances[-1] != "asserted" and is_joined(text, before, mention):
            stances.append(stances[-1])
        elif _is_asked(text, mention, asked):
            stances.append("quoted")
        else:
            stances.append(_stance(category, text, mention, breaks))
        before = mention
    return stances


class _Breaks:
    """Where clauses begin and end; asked for in no more than the logarithm of their number."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def around(self, mention: Mention, whole: int) -> tuple[int, int]:
        """Return where the clause of a value begins and ends, in a text of so many characters."""
        first = bisect.bisect_right(self._ends, mention.start) - 1
        last = bisect.bisect_left(self._starts, mention.end)
        return self._ends[first] if first >= 0 else 0, self._starts[last] if last < len(self._starts) else whole


def _is_asked(text: str, mention: Mention, asked: Sequence[int]) -> bool:
    """Tell whether a value stands in a sentence that ends with a question mark."""
    at = bisect.bisect_left(asked, mention.end)
    if at == len(asked) or asked[at] - mention.end > 2 * _REACH:
        return False
    return not re.search(r"[.!\n]", text[mention.end : asked[at]])


def _stance(category: Category, text: str, mention: Mention, breaks: _Breaks) -> Stance:
    start, end = breaks.around(mention, len(text))
    before = text[max(start, mention.start - _REACH) : mention.start]
    after = text[mention.end : min(end, mention.end + _REACH)]
    # "Anything but" is one expression, although "but" begins a clause elsewhere.
    joined = text[max(0, mention.start - 40) : mention.start]
    if re.search(r"\b(?:any|every|all)\w*(?: \w+)? but\b[^.;:\n]*\Z", joined, re.IGNORECASE):
        return "denied"
    if category.key_prefix == "ka0":
        before = _BROKEN_RULE.sub("", before)
    # "is not it" of several tasks is what is wrong with each of them.
    if category.answer != "ids" and _DENIED_AFTER.match(text[mention.end : mention.end + _REACH]):
        return "denied"
    if _DENIED_BEFORE.search(before) or _DENIED_NEAR.search(before) or _LABEL.search(joined):
        return "denied"
    if _QUOTED_BEFORE.search(before) or _QUOTED_AFTER.match(after):
        return "quoted"
    return "asserted"


def _stated(category: Category, text: str) -> tuple[str, ...]:
    """Return the different values that stand right behind "the answer is": more than one is no answer."""
    starts = {found.end() for found in _STATED.finditer(text)}
    return tuple(dict.fromkeys(m.value for m in find_mentions(category, text) if m.start in starts))


def _without_taken_back(category: Category, text: str) -> str:
    """Return what stands after the last words that take something back, if a value or None stands there."""
    for found in reversed(list(_TAKEN_BACK.finditer(text))):
        rest = text[found.end() :].lstrip(" ,:.!;-\n")
        if find_mentions(category, rest):
            return rest if find_mentions(category, text[: found.start()]) else text
    return text


def _mask(text: str, mentions: Sequence[Mention]) -> str:
    for mention in reversed(mentions):
        text = text[: mention.start] + _MASK + text[mention.end :]
    return text


def _bare(text: str, mentions: Sequence[Mention]) -> bool:
    """Tell whether nothing but values, None and what joins them is said: ``A or None`` gives neither."""
    return not re.search(r"\w", _JOINING.sub("", _mask(text, mentions)))
