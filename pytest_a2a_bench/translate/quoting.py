"""Whether a call in a text is one, or only spoken of: never is something done that an agent merely considered. Pure.

A call is carried out unless it stands in the agent's thinking, is quoted, or stands beside words that ask the user
something or wait for him. What is certainly a quotation is left in the words to the user; where nobody can tell, the
agent is reminded of the format (once, see ``benchmarks/conversation``). ``docs/explanations/calls.md`` has the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from pytest_a2a_bench.translate.spans import Placed, Span, around, leave, starting_at
from pytest_a2a_bench.translate.thoughts import Thought

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
