"""Find calls in what an agent wrote: bare, fenced, tagged, listed, several at once, with prose around."""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pytest_a2a_bench.model.bounds import DEFAULT_BOUNDS, CpuAllowance
from pytest_a2a_bench.translate.calls import Reading, keep_sane, read_calls
from pytest_a2a_bench.translate.foreign import find_foreign, find_invented
from pytest_a2a_bench.translate.json_blocks import BROKEN, MAX_TEXT, Block, find_blocks
from pytest_a2a_bench.translate.quoting import (
    UNSAID,
    Place,
    Span,
    Thought,
    around,
    find_fences,
    find_thoughts,
    leave,
    may_think,
    outermost,
    place_of,
    without,
)

RAW_LIMIT = 2_000
"""Characters of an unreadable call that a finding keeps."""

_LOOK = 4_000
_MAX_TAGS = 100
_TAG = re.compile(r"<((?:\w{1,20}:)?(?:json|tool_calls?|function_calls?))>", re.IGNORECASE)
_CALL_KEY = re.compile(r"""["']?\b(?:tool_calls?|function_calls?)\b["']?\s{0,20}[:=]""")
_NAME_KEY = re.compile(r"""["']?\b(?:name|tool_name)\b["']?\s{0,20}:""")
_ARGUMENTS_KEY = re.compile(r"""["']?\b(?:arguments|kwargs|parameters|args)\b["']?\s{0,20}:""")
_QUOTED = re.compile(r"""["']([^"'\s]{1,128})["']""")
_FENCE_BEFORE = re.compile(r"```[\w+-]{0,20}[ \t]*\n?[ \t]*\Z")
_FENCE_AFTER = re.compile(r"\s{0,20}```")
_MARGIN = 80


class Found(NamedTuple):
    """A call, or several that are written as one value, and the stretch of the text that it takes with its tags."""

    start: int
    end: int
    reading: Reading
    place: Place = "alone"


class Scan(NamedTuple):
    """What one text holds.

    :param found: what reads as calls, in order, wherever it stands.
    :param unreadable: stretches that look like a call and cannot be read, each bounded.
    :param words: the text without its calls and without what the agent only thinks.
    :param value: the JSON value where the text is nothing but one; else :data:`BROKEN`.
    :param deep: whether something in it is nested too deeply to be read.
    """

    text: str
    found: tuple[Found, ...]
    unreadable: tuple[str, ...]
    words: str
    value: Any = BROKEN
    deep: bool = False

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The calls, in order."""
        return tuple(f.reading for f in self.found)

    @property
    def prose(self) -> str:
        """The text without its calls; the text itself where it has none."""
        return self.without(self.found)

    def without(self, taken: Sequence[Found]) -> str:
        """Return the text without some of its calls."""
        return without(self.text, [(f.start, f.end) for f in taken]) if taken else self.text


class _Tag(NamedTuple):
    start: int
    end: int
    name: str


def scan_text(
    text: str,
    known: Collection[str],
    depth: int = DEFAULT_BOUNDS.depth,
    allowance: CpuAllowance | None = None,
    thoughts: Sequence[Thought] | None = None,
) -> Scan:
    """Find the calls in a text. Takes time linear in its length, whatever it holds.

    :param known: names of the tools that exist.
    :param depth: how deep a call may be nested.
    :param allowance: once it is spent, what is left of the text is not looked at.
    :param thoughts: what of the text the agent only thinks, where that is known; otherwise it is looked for.
    """
    head = text[:MAX_TEXT]
    blocks = list(find_blocks(head, depth, allowance))
    if len(text) > MAX_TEXT:
        blocks.append(Block(MAX_TEXT, len(text), BROKEN, exhausted=True))
    readable = [b for b in blocks if b.value is not BROKEN]
    thoughts = find_thoughts(head, readable) if thoughts is None else thoughts
    fences = find_fences(head, readable)
    tags = _find_tags(head, readable)
    foreign = find_foreign(head, known, blocks, fences)
    read = [Found(f.start, f.end, keep_sane(f.reading, depth)) for f in foreign if f.reading]
    values = [b for b in blocks if around(b.start, read) is None]
    found = [
        *read,
        *(
            Found(b.start, b.end, r)
            for b in values
            if b.value is not BROKEN and (r := read_calls(b.value, known, depth))
        ),
    ]
    found.sort(key=lambda f: f.start)
    good = [f for f in found if f.reading.calls or f.reading.message]
    torn = {(f.start, f.end) for f in found if f.reading.bad}
    suspects = [*torn]
    suspects += [(f.start, f.end) for f in foreign if f.reading is None]
    suspects += [(b.start, b.end) for b in values if b.value is BROKEN and _looks_like_call(text, b, known)]
    suspects += [(t.start, t.end) for t in tags]
    unreadable = outermost([s for s in suspects if not around(s[0], thoughts) and _holds_nothing(s, torn, good)])
    considered = _with_invented(thoughts, find_invented(head, foreign))
    mentioned = {f.start for f in foreign if f.mentioned}
    placed = [_place(head, f, tags, considered, fences, f.start in mentioned) for f in good]
    return Scan(
        text,
        tuple(placed),
        tuple(text[start : min(end, start + RAW_LIMIT)] for start, end in unreadable),
        without(text, [*((f.start, f.end) for f in placed), *((t.start, t.end) for t in considered)]),
        _only_value(head, blocks),
        any(b.deep for b in blocks),
    )


def find_shared_thoughts(
    texts: Sequence[str], depth: int = DEFAULT_BOUNDS.depth, allowance: CpuAllowance | None = None
) -> list[list[Thought] | None]:
    """Return what an agent only thinks in each of several texts that may be one, torn anywhere.

    None for a text whose thoughts are its own affair.
    """
    whole = "".join(texts)
    if len(texts) < 2 or not may_think(whole):
        return [None] * len(texts)
    head = whole[:MAX_TEXT]
    thoughts = find_thoughts(head, [b for b in find_blocks(head, depth, allowance) if b.value is not BROKEN])
    if len(whole) > MAX_TEXT:
        # Nobody looks for the end of a thought out there.
        thoughts.append(Thought(MAX_TEXT, len(whole), closed=False))
    shared: list[list[Thought] | None] = []
    start = 0
    for text in texts:
        end = start + len(text)
        inside = [t for t in thoughts if t.start < end and start < t.end]
        shared.append([Thought(max(t.start - start, 0), min(t.end, end) - start, t.closed) for t in inside])
        start = end
    return shared


def _with_invented(thoughts: Sequence[Thought], invented: Span | None) -> Sequence[Thought]:
    if invented is None:
        return thoughts
    before = [t for t in thoughts if t.start < invented.start]
    start = max([invented.start, *(t.end for t in before[-1:])])
    return [*before, Thought(start, invented.end)]


def _place(
    text: str, found: Found, tags: Sequence[_Tag], thoughts: Sequence[Thought], fences: Sequence[Span], mentioned: bool
) -> Found:
    """Return what was found with the tags or the fence around it, and where it stands."""
    start, end = _widen(text, found, tags)
    place = place_of(text, Span(start, end), thoughts, fences)
    if mentioned and place not in UNSAID:
        place = "quoted"
    return Found(start, end, _retag(found, tags), place)


def _find_tags(text: str, blocks: Sequence[Block]) -> list[_Tag]:
    """Find tagged stretches; a tag inside a readable block is part of some string there."""
    tags: list[_Tag] = []
    position = 0
    for _ in range(_MAX_TAGS):
        opener = _TAG.search(text, position)
        if opener is None:
            break
        position = leave(opener.start(), blocks)
        if position > opener.start():
            continue
        closer = f"</{opener[1]}>"
        position = opener.end()
        end = _find_outside(text, closer, position, blocks)
        if end >= 0:
            position = end + len(closer)
            tags.append(_Tag(opener.start(), position, opener[1].lower()))
    return tags


def _find_outside(text: str, wanted: str, position: int, blocks: Sequence[Block]) -> int:
    for _ in range(_MAX_TAGS):
        at = text.find(wanted, position)
        if at < 0:
            break
        position = leave(at, blocks)
        if position == at:
            return at
    return -1


def _looks_like_call(text: str, block: Block, known: Collection[str]) -> bool:
    head = text[block.start : block.end if block.exhausted else min(block.end, block.start + _LOOK)]
    if _CALL_KEY.search(head) or (_NAME_KEY.search(head) and _ARGUMENTS_KEY.search(head)):
        return True
    return any(name in known for name in _QUOTED.findall(head))


def _holds_nothing(suspect: tuple[int, int], torn: Collection[tuple[int, int]], good: Sequence[Found]) -> bool:
    """Tell whether no call was read inside a suspect, or the suspect itself is a list that lost a member."""
    start, end = suspect
    first = bisect.bisect_left(good, start, key=lambda f: f.start)
    return suspect in torn or not (first < len(good) and good[first].end <= end)


def _around(found: Found, tags: Sequence[_Tag]) -> _Tag | None:
    return next((t for t in tags if t.start < found.start and found.end < t.end), None)


def _retag(found: Found, tags: Sequence[_Tag]) -> Reading:
    tag = _around(found, tags)
    if tag is None or found.reading.shape != "bare":
        return found.reading
    return found.reading._replace(shape="tagged" if tag.name == "json" else "wrapped")


def _widen(text: str, found: Found, tags: Sequence[_Tag]) -> tuple[int, int]:
    """Take the tags or the fence around a call as part of it."""
    tag = _around(found, tags)
    start, end = (tag.start, tag.end) if tag else (found.start, found.end)
    left = max(0, start - _MARGIN)
    before = _FENCE_BEFORE.search(text[left:start])
    after = _FENCE_AFTER.match(text[end : end + _MARGIN])
    if before and after:
        return left + before.start(), end + after.end()
    return start, end


def _only_value(text: str, blocks: Sequence[Block]) -> Any:
    if len(blocks) != 1:
        return BROKEN
    block = blocks[0]
    return BROKEN if text[: block.start].strip() or text[block.end :].strip() else block.value
