"""Where an agent thinks aloud inside a text: what stands there is considered, and neither said nor done. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pytest_a2a_bench.translate.spans import Placed, leave

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
