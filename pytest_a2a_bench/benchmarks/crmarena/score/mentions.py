"""Values that an answer mentions, and which of them it gives as its result."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE


class Mention(NamedTuple):
    """A value, and where the answer says it."""

    value: str
    start: int
    end: int


class BareLine(NamedTuple):
    """A line of nothing but values and what joins or announces them.

    :param mentions: its values.
    :param none: whether it says None, too or only.
    :param stated: whether it calls itself the answer.
    """

    mentions: tuple[Mention, ...]
    none: bool
    stated: bool


_LINE = re.compile(r"\S[^\n]*")
_NONE = re.compile(r"\b(?:none|n/a|null|nil)\b(?!\s+of\b)", re.IGNORECASE)
_STATED = re.compile(r"\banswers?\b", re.IGNORECASE)
_JOINING = re.compile(
    r"\b(?:and|or|either|alternatively|also|else|otherwise|if not|maybe|perhaps|possibly|then|but|"
    r"my|the|a|final|correct|answers?|results?|is|are|it|it['\u2019]s|could|may|might|be|would|should)\b",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"\A\s*\(?\d{1,2}[.):]\s")


def bare_lines(text: str, mentions: Sequence[Mention]) -> list[BareLine | None]:
    """Return one entry for each line that is not blank: None for a line of other words."""
    starts = [m.start for m in mentions]
    lines: list[BareLine | None] = []
    for line in _LINE.finditer(text):
        inside = mentions[bisect.bisect_left(starts, line.start()) : bisect.bisect_left(starts, line.end())]
        lines.append(_read_line(text, line, tuple(m for m in inside if m.end <= line.end())))
    return lines


def _read_line(text: str, line: re.Match[str], inside: tuple[Mention, ...]) -> BareLine | None:
    parts: list[str] = []
    at = line.start()
    for mention in inside:
        parts.append(text[at : mention.start])
        at = max(at, mention.end)
    rest = " ".join([*parts, text[at : line.end()]])
    none = bool(_NONE.search(rest))
    words = _JOINING.sub("", _NONE.sub("", _NUMBERED.sub("", rest)))
    if not (inside or none) or re.search(r"\w", words):
        return None
    return BareLine(inside, none, bool(_STATED.search(rest)))


# An answer that says everything must not be right whatever the gold is.
def read_both(text: str, mentions: Sequence[Mention]) -> tuple[str, ...]:
    """Return what an answer gives that says None and gives values beside it, in lines of nothing else.

    That is all of it, which no gold is; but a last line that calls itself the answer has the last word. Nothing is
    returned for other answers.
    """
    bare = [line for line in bare_lines(text, mentions) if line]
    values = tuple(dict.fromkeys(m.value for line in bare for m in line.mentions))
    if not values or not any(line.none for line in bare):
        return ()
    last = bare[-1]
    if last.stated and not (last.none and last.mentions):
        return tuple(dict.fromkeys(m.value for m in last.mentions)) or (NONE,)
    return (*values, NONE)


_FILLERS = (
    r"(?:the|an?|agents?|users?|rep|representative|ids?|with|of|products?|articles?|knowledge|issues?|cases?|states?|"
    r"months?|stages?|tasks?|is|was|be|in|for|owner|employee|by|from|to|number|named|called|who|whose|label|name)"
)
_BEFORE_REJECTED = re.compile(
    r"(?:\b(?:not|isn['\u2019]t|wasn['\u2019]t|aren['\u2019]t|never|rather than|instead of|unlike|excluding|"
    r"except(?: for)?|other than|as opposed to|compared (?:to|with)|versus|vs\.?|than|followed by|"
    r"ahead of|over|behind|besides|apart from|aside from|ruled out|rejected|excluded|discarded|eliminated|"
    r"disregard(?:ing|ed)?|ignor(?:ing|ed)|"
    r"wrong(?:ly)?|incorrect(?:ly)?))"
    rf"(?:[\s\"'`*_:(\[]|\b{_FILLERS}\b)*\Z",
    re.IGNORECASE,
)
_AFTER_REJECTED = re.compile(
    # Possessive, or a long row of spaces would be shared out in all ways.
    r"[\"'`*_)\]]*+\s*+(?:\([^()]{0,80}\)\s*+)?+,?+\s*+(?:~~|"
    r"(?:is|was|are|were|would be|should be)?+\s*+(?:therefore |thus |clearly )?+"
    r"(?:n['\u2019]t|not|no longer)\s+(?:therefore )?(?:the\s+)?(?:(?:correct|right|best|final|valid)\s+)?"
    r"(?:answer|one|agent|product|article|match|eligible|correct|right|relevant|applicable|violated|breached|it)\b|"
    r"(?:is|was|are|were)\s+(?:therefore |thus |clearly )?(?:excluded|ruled out|rejected|incorrect|wrong|ineligible|"
    r"irrelevant|discarded|eliminated|disqualified|out of scope|satisfied|followed|respected|met)\b|"
    r"(?:does|do|did)(?: not|n['\u2019]t) (?:qualify|apply|count|match|fit)\b)",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"(?:\b(?:according to|based on|per|as stated in|as described in|in line with|consistent with|compliant with|"
    r"complies with|complied with|complying with|adheres? to|adhered to|adhering to|follows|followed|following|"
    r"conforms? to|satisfies|satisfied|meets|respects|reviewed|checked|considered))"
    rf"(?:[\s\"'`*_:(\[]|\b{_FILLERS}\b)*\Z",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:not|fail\w*|never)\W+(?:\w+\W+){0,2}\Z|n['\u2019]t\W+(?:\w+\W+){0,2}\Z", re.IGNORECASE)
_JOINED = re.compile(r"[\"'`*_)\]]*\s*(?:,\s*(?:(?:or|nor|and)\s+)?|(?:or|nor|and)\s+)[\"'`*_(\[]*\Z", re.IGNORECASE)
_CUE = re.compile(
    r"\b(?:(?:final |correct |right )?answer(?:\s+(?:is|would be|should be))?\s*(?:[:=]|->|\bis\b)|"
    r"(?:therefore|thus|hence|in conclusion|to conclude|in summary|so the|overall)\b)",
    re.IGNORECASE,
)
_BOLD = re.compile(r"\*\*[^*\n]{1,200}\*\*")
_WINDOW = 90


def given(text: str, mentions: Sequence[Mention], *, single: bool = True) -> tuple[str, ...]:
    """Return the values that the answer gives as its result, each once, in order.

    Left out are values that it rejects (``not X``, ``rather than X``, ``X is not the answer``). Then, where there is
    such a part, only that part counts: a first or last line of nothing but values, what follows "the answer is" or
    "therefore", what is set in bold.

    :param single: whether one value is asked for; only then does a line of its own, or bold, tell it from others.
    """
    accepted = _without_rejected(text, mentions, after=single)
    # With all rejected ones gone nothing may be left, and then what is referred to counts.
    kept = _unreferenced(text, accepted) or accepted
    for narrow in (_bare_line, _after_cue, _in_bold) if single else (_after_cue,):
        # One value left: nothing to narrow.
        if len({m.value for m in kept}) < 2:
            break
        kept = narrow(text, kept) or kept
    return tuple(dict.fromkeys(m.value for m in kept))


def only_references(text: str, mentions: Sequence[Mention]) -> bool:
    """Tell whether every value is only referred to (``complies with X``) or rejected."""
    return not _unreferenced(text, _without_rejected(text, mentions, after=True))


def _without_rejected(text: str, mentions: Sequence[Mention], *, after: bool) -> list[Mention]:
    """Leave out what is rejected.

    :param after: whether words after a value may reject it: of several tasks, "X does not match" may be the answer.
    """

    def is_rejected(mention: Mention) -> bool:
        before = text[max(0, mention.start - _WINDOW) : mention.start]
        return bool(_BEFORE_REJECTED.search(before) or (after and _AFTER_REJECTED.match(text, mention.end)))

    return _leave_out(text, mentions, is_rejected)


def _unreferenced(text: str, mentions: Sequence[Mention]) -> list[Mention]:
    return _leave_out(text, mentions, lambda mention: _is_reference(text, mention))


def is_joined(text: str, before: Mention, after: Mention) -> bool:
    """Tell whether nothing but a comma, "and", "or" or "nor" stands between two values."""
    return _JOINED.fullmatch(text, before.end, after.start) is not None


def _leave_out(text: str, mentions: Sequence[Mention], is_out: Callable[[Mention], bool]) -> list[Mention]:
    """Leave out mentions, and those that are joined to one by "and", "or" or a comma."""
    kept: list[Mention] = []
    last_out: Mention | None = None
    for mention in mentions:
        if (last_out is not None and is_joined(text, last_out, mention)) or is_out(mention):
            last_out = mention
        else:
            kept.append(mention)
    return kept


def _is_reference(text: str, mention: Mention) -> bool:
    before = text[max(0, mention.start - _WINDOW) : mention.start]
    found = _REFERENCE.search(before)
    return found is not None and not _DENIED.search(before[: found.start()])


def _bare_line(text: str, mentions: Sequence[Mention]) -> list[Mention]:
    """Return the values of the first, else the last line, if it holds nothing else."""
    lines = bare_lines(text, mentions)
    # A single line is the whole answer, of which no part is set apart.
    if len(lines) < 2:
        return []
    chosen = next((list(line.mentions) for line in (lines[0], lines[-1]) if line), [])
    listed = {m.value for line in lines if line for m in line.mentions}
    # Several lines of nothing but values are a list, of which none is set apart.
    return chosen if listed == {m.value for m in chosen} else []


def _after_cue(text: str, mentions: Sequence[Mention]) -> list[Mention]:
    # The last cue: earlier ones announce what is taken back.
    for cue in reversed(list(_CUE.finditer(text))):
        after = [m for m in mentions if m.start >= cue.end()]
        if after:
            return after
    return []


def _in_bold(text: str, mentions: Sequence[Mention]) -> list[Mention]:
    bold = [(b.start(), b.end()) for b in _BOLD.finditer(text)]
    return [m for m in mentions if any(start <= m.start and m.end <= end for start, end in bold)]
