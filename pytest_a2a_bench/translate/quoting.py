"""Whether a call in a text is one, or only spoken of: never is something done that an agent merely considered. Pure.

A call is carried out unless it stands in the agent's thinking, is quoted, or stands beside words that ask the user
something or wait for him. What is certainly a quotation is left in the words to the user; where nobody can tell, the
agent is reminded of the format (once, see ``benchmarks/conversation``). ``docs/explanations/calls.md`` has the table.

What is asked by position (stretches of a text, and where an agent thinks aloud) stands here as well.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeVar


class Placed(Protocol):
    """Whatever has a place in a text."""

    @property
    def start(self) -> int:
        """Where it begins."""
        ...

    @property
    def end(self) -> int:
        """Where it is over."""
        ...


T = TypeVar("T", bound=Placed)


class Span(NamedTuple):
    """A stretch of a text."""

    start: int
    end: int


def around(position: int, spans: Sequence[T]) -> T | None:
    """Return the one of some sorted, disjoint stretches that a position is in."""
    index = bisect.bisect_right(spans, position, key=lambda s: s.start) - 1
    return spans[index] if index >= 0 and position < spans[index].end else None


def starting_at(position: int, spans: Sequence[T]) -> T | None:
    """Return the one of some sorted, disjoint stretches that starts at a position."""
    found = around(position, spans)
    return found if found is not None and found.start == position else None


def leave(position: int, spans: Sequence[Placed]) -> int:
    """Return the end of the stretch that a position is in, or the position itself if it is in none."""
    found = around(position, spans)
    return position if found is None else found.end


def outermost(spans: Sequence[tuple[int, int]]) -> list[Span]:
    """Return stretches, sorted, without those that lie inside others."""
    kept: list[Span] = []
    for start, end in sorted(set(spans), key=lambda s: (s[0], -s[1])):
        if not kept or end > kept[-1].end:
            kept.append(Span(start, end))
    return kept


def without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return what is left of a text, a line for each piece."""
    pieces: list[str] = []
    position = 0
    for start, end in sorted(spans):
        pieces.append(text[position : max(position, start)].strip())
        position = max(position, end)
    pieces.append(text[position:].strip())
    return "\n".join(p for p in pieces if p.strip(" \t\n,"))


_NAMES = r"think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis"
_MARK = re.compile(
    rf"""
      (?P<open> <(?:\w{{1,20}}:)?(?:{_NAMES})(?:\s[^<>]{{0,100}})?> | \[THINK\] | ◁think▷ )
    | (?P<close> </(?:\w{{1,20}}:)?(?:{_NAMES})\s{{0,9}}> | \[/THINK\] | ◁/think▷ )
    | (?P<channel> <\|channel\|>\s{{0,9}}analysis\b[^<]{{0,200}}(?:<\|constrain\|>[^<]{{0,40}})?<\|message\|> )
    | (?P<comment> <!-- )
    | (?P<line> ^[ \t]{{0,20}}\*{{0,2}}Thought:\*{{0,2}} )
    """,
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_CHANNEL_END = re.compile(r"<\|(?:end|call|return|start|channel)\|>")
_COMMENT_END = re.compile(r"-->")
_NEXT_LABEL = re.compile(
    r"^[ \t]{0,20}\*{0,2}(?:Action|Final Answer|Answer|Response|Observation|Thought):", re.IGNORECASE | re.MULTILINE
)


class Thought(NamedTuple):
    """A stretch in which an agent thinks.

    :param closed: False where nothing says that it is over; it then goes on to the end of the text, and nobody knows
        what of it was meant.
    """

    start: int
    end: int
    closed: bool = True


def may_think(text: str) -> bool:
    """Tell whether a text has a mark of thinking at all."""
    return _MARK.search(text) is not None


def find_thoughts(text: str, blocks: Sequence[Placed] = ()) -> list[Thought]:
    """Return the stretches of thinking, sorted and disjoint, in time linear in the text.

    Tags count by their nesting, whichever of the usual names they have: ``<think>``, ``<reasoning>``, ``[THINK]``. What
    stands before a closing tag that nothing opened is thought as well: some models are started inside their thinking.
    So are comments of HTML, harmony's ``analysis`` channel, and what ReAct labels with ``Thought:``, up to its next
    label, or to the end of the line where no label follows.

    :param blocks: JSON values in the text; a tag inside one is part of some string there.
    """
    found: list[Thought] = []
    position = opened = depth = 0
    labels = True
    # Where the text begins that a closing tag without an opening one ends.
    free = 0
    while mark := _MARK.search(text, position):
        position = leave(mark.start(), blocks)
        if position > mark.start():
            continue
        position = mark.end()
        if mark["open"]:
            opened = opened if depth else mark.start()
            depth += 1
        elif mark["close"]:
            # What was held for a thought of its own before is part of this one.
            start = opened if depth else free
            depth = max(depth - 1, 0)
            if depth == 0:
                _drop_from(found, start)
                found.append(Thought(start, mark.end()))
                free = mark.end()
        elif depth == 0 and (mark["channel"] or mark["comment"]):
            end = (_CHANNEL_END if mark["channel"] else _COMMENT_END).search(text, mark.end())
            found.append(Thought(mark.start(), end.start() if end else len(text), closed=end is not None))
            position = max(position, found[-1].end)
        elif depth == 0:
            label = _NEXT_LABEL.search(text, mark.end()) if labels else None
            labels = label is not None
            line = text.find("\n", mark.end())
            found.append(Thought(mark.start(), label.start() if label else line if line >= 0 else len(text)))
            position = max(position, found[-1].end)
    if depth:
        _drop_from(found, opened)
        found.append(Thought(opened, len(text), closed=False))
    return found


def _drop_from(found: list[Thought], start: int) -> None:
    while found and found[-1].start >= start:
        found.pop()


Place = Literal["alone", "inline", "fenced", "quoted", "thought", "open-thought"]
"""Where a call stands: on lines of its own, among words on a line, in a fence, in quotation marks, in thinking."""

UNSAID: Final[frozenset[Place]] = frozenset({"thought", "open-thought"})
"""Where nothing is said to anybody."""

Verdict = Literal["call", "quotation", "considered", "ambiguous"]

_FENCE = re.compile(r"```|~~~")
_MARKS = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb", "\u201e": "\u201c"}
_LINE = 400
_WORD = re.compile(r"\w")
# "?" ends a word of a question; in an address something follows it at once.
_QUESTION = re.compile(r"[?\uff1f\u061f](?=[\s\"'`*_)\]\u201d\u2019\u00bb<]|$)")
_AGREE = (
    r"(?:confirm|agree|approv|consent|accept|authori[sz]|say|said|tell|told|want|wish|like|prefer|answer|repl|decid|give"
    r"|gave)\w{0,4}"
)
_RUN = r"(?:run|call|use|execute|issue|invoke|make|send|perform|submit)"
_WAITING = re.compile(
    rf"""\b(?:
        (?:if|once|when|after|until|unless|before|as\ soon\ as|provided)\ you(?:'d|\ would|\ have|\ do)?\ {_AGREE}
      | (?:your|explicit|final|user)\ (?:confirmation|approval|consent|permission|authori[sz]ation|go-ahead|ok|okay|yes)
      | (?:please|to|you|must|should|user)\ confirm
      | (?:would|could|might)\ (?:then\ |now\ |also\ |have\ to\ |need\ to\ )?(?:be\ )?{_RUN}
      | (?:do\ not|don't|never|cannot|can't|will\ not|won't|must\ not|should\ not)\ (?:yet\ )?{_RUN}
      | let\ me\ know | not\ yet | (?:shall|should|may)\ I
      | for\ (?:example|instance) | e\.g\. | only\ if | hypothetical\w{{0,4}}
    )""",
    re.IGNORECASE | re.VERBOSE,
)


def waits_for_user(words: str) -> bool:
    """Tell whether words, those around a call, ask the user something or make what is done depend on an answer.

    A question is told by its mark in any language, a condition by the usual English turns of speech.
    """
    return bool(_QUESTION.search(words) or _WAITING.search(words.replace("\u2019", "'")))


def find_fences(text: str, blocks: Sequence[Placed]) -> list[Span]:
    """Return the insides of code fences; one that nothing closes goes on to the end.

    :param blocks: JSON values in the text; a fence inside one is part of some string there.
    """
    fences: list[Span] = []
    opened: re.Match[str] | None = None
    position = 0
    while mark := _FENCE.search(text, position):
        position = leave(mark.start(), blocks)
        if position > mark.start():
            continue
        position = mark.end()
        if opened is None:
            opened = mark
        elif opened[0] == mark[0]:
            fences.append(Span(opened.end(), mark.start()))
            opened = None
    return [*fences, Span(opened.end(), len(text))] if opened else fences


def place_of(text: str, span: Placed, thoughts: Sequence[Thought], fences: Sequence[Span]) -> Place:
    """Tell where a call stands.

    :param span: the call with the tags or the fence around it.
    """
    thought = around(span.start, thoughts)
    if thought is not None:
        return "thought" if thought.closed else "open-thought"
    if around(span.start, fences) or starting_at(span.start + 3, fences):
        return "fenced"
    before = text[max(0, span.start - _LINE) : span.start].rpartition("\n")[2]
    after = text[span.end : span.end + _LINE].partition("\n")[0]
    left, right = before[-1:], after[:1]
    if (left and _MARKS.get(left) == right) or before.lstrip().startswith(">"):
        # Quotation marks around everything that is said quote nothing.
        return "quoted" if _WORD.search(text, 0, span.start) or _WORD.search(text, span.end) else "alone"
    return "inline" if _WORD.search(before) or _WORD.search(after) else "alone"


def judge(place: Place, *, waits: bool) -> Verdict:
    """Tell what a call at a place is.

    :param waits: whether the words around it wait for the user.
    """
    match place:
        case "thought":
            return "considered"
        case "open-thought":
            return "ambiguous"
        case "quoted":
            return "quotation" if waits else "ambiguous"
        case "fenced" | "inline":
            return "quotation" if waits else "call"
        case "alone":
            return "ambiguous" if waits else "call"
