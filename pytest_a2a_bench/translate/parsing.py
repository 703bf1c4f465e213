"""Find calls in what an agent wrote: bare, fenced, tagged, listed, several at once, with prose around."""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pytest_a2a_bench.model.bounds import DEFAULT_BOUNDS, CpuAllowance
from pytest_a2a_bench.translate.calls import Reading, read_calls
from pytest_a2a_bench.translate.json_blocks import BROKEN, MAX_TEXT, Block, find_blocks

RAW_LIMIT = 2_000
"""Characters of an unreadable call that a finding keeps."""

_LOOK = 4_000
_MAX_TAGS = 100
_TAG = re.compile(r"<(json|tool_calls?|function_calls?)>", re.IGNORECASE)
_CALL_KEY = re.compile(r"""["']?\b(?:tool_calls?|function_calls?)\b["']?\s{0,20}[:=]""")
_NAME_KEY = re.compile(r"""["']?\b(?:name|tool_name)\b["']?\s{0,20}:""")
_ARGUMENTS_KEY = re.compile(r"""["']?\b(?:arguments|kwargs|parameters|args)\b["']?\s{0,20}:""")
_QUOTED = re.compile(r"""["']([^"'\s]{1,128})["']""")
_FENCE_BEFORE = re.compile(r"```[\w+-]{0,20}[ \t]*\n?[ \t]*\Z")
_FENCE_AFTER = re.compile(r"\s{0,20}```")
_MARGIN = 80


class Scan(NamedTuple):
    """What one text holds.

    :param readings: the calls, in order.
    :param unreadable: stretches that look like a call and cannot be read, each bounded.
    :param prose: the text without its calls; the text itself where it has none.
    :param value: the JSON value where the text is nothing but one; else :data:`BROKEN`.
    :param deep: whether something in it is nested too deeply to be read.
    """

    readings: tuple[Reading, ...]
    unreadable: tuple[str, ...]
    prose: str
    value: Any = BROKEN
    deep: bool = False


class _Found(NamedTuple):
    start: int
    end: int
    reading: Reading


class _Tag(NamedTuple):
    start: int
    end: int
    name: str


def scan_text(
    text: str, known: Collection[str], depth: int = DEFAULT_BOUNDS.depth, allowance: CpuAllowance | None = None
) -> Scan:
    """Find the calls in a text. Takes time linear in its length, whatever it holds.

    :param known: names of the tools that exist.
    :param depth: how deep a call may be nested.
    :param allowance: once it is spent, what is left of the text is not looked at.
    """
    head = text[:MAX_TEXT]
    blocks = list(find_blocks(head, depth, allowance))
    if len(text) > MAX_TEXT:
        blocks.append(Block(MAX_TEXT, len(text), BROKEN, exhausted=True))
    tags = _find_tags(head, [b for b in blocks if b.value is not BROKEN])
    found = [
        _Found(b.start, b.end, r) for b in blocks if b.value is not BROKEN and (r := read_calls(b.value, known, depth))
    ]
    suspects = [(f.start, f.end) for f in found if f.reading.bad]
    suspects += [(b.start, b.end) for b in blocks if b.value is BROKEN and _looks_like_call(text, b, known)]
    suspects += [(t.start, t.end) for t in tags]
    good = [f for f in found if f.reading.calls]
    unreadable = _outermost([s for s in suspects if _holds_nothing(s, found, good)])
    return Scan(
        tuple(_retag(f, tags) for f in good),
        tuple(text[start : min(end, start + RAW_LIMIT)] for start, end in unreadable),
        _without(text, [_widen(head, f, tags) for f in good]) if good else text,
        _only_value(head, blocks),
        any(b.deep for b in blocks),
    )


def _find_tags(text: str, blocks: Sequence[Block]) -> list[_Tag]:
    """Find tagged stretches; a tag inside a readable block is part of some string there."""
    tags: list[_Tag] = []
    position = 0
    for _ in range(_MAX_TAGS):
        opener = _TAG.search(text, position)
        if opener is None:
            break
        position = _leave(opener.start(), blocks)
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
        position = _leave(at, blocks)
        if position == at:
            return at
    return -1


def _leave(position: int, blocks: Sequence[Block]) -> int:
    """Return the end of the block that a position is in, or the position itself if it is in none."""
    index = bisect.bisect_right(blocks, position, key=lambda b: b.start) - 1
    return blocks[index].end if index >= 0 and position < blocks[index].end else position


def _looks_like_call(text: str, block: Block, known: Collection[str]) -> bool:
    head = text[block.start : block.end if block.exhausted else min(block.end, block.start + _LOOK)]
    if _CALL_KEY.search(head) or (_NAME_KEY.search(head) and _ARGUMENTS_KEY.search(head)):
        return True
    return any(name in known for name in _QUOTED.findall(head))


def _holds_nothing(suspect: tuple[int, int], found: Sequence[_Found], good: Sequence[_Found]) -> bool:
    """Tell whether no call was read inside a suspect, or the suspect itself is a list that lost a member."""
    start, end = suspect
    if any((f.start, f.end) == suspect and f.reading.bad for f in found):
        return True
    return not any(start <= f.start and f.end <= end for f in good)


def _outermost(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for start, end in sorted(set(spans), key=lambda s: (s[0], -s[1])):
        if not kept or end > kept[-1][1]:
            kept.append((start, end))
    return kept


def _around(found: _Found, tags: Sequence[_Tag]) -> _Tag | None:
    return next((t for t in tags if t.start < found.start and found.end < t.end), None)


def _retag(found: _Found, tags: Sequence[_Tag]) -> Reading:
    tag = _around(found, tags)
    if tag is None or found.reading.shape != "bare":
        return found.reading
    return found.reading._replace(shape="tagged" if tag.name == "json" else "wrapped")


def _widen(text: str, found: _Found, tags: Sequence[_Tag]) -> tuple[int, int]:
    """Take the tags or the fence around a call as part of it."""
    tag = _around(found, tags)
    start, end = (tag.start, tag.end) if tag else (found.start, found.end)
    left = max(0, start - _MARGIN)
    before = _FENCE_BEFORE.search(text[left:start])
    after = _FENCE_AFTER.match(text[end : end + _MARGIN])
    if before and after:
        return left + before.start(), end + after.end()
    return start, end


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces: list[str] = []
    position = 0
    for start, end in sorted(spans):
        pieces.append(text[position : max(position, start)].strip())
        position = max(position, end)
    pieces.append(text[position:].strip())
    return "\n".join(p for p in pieces if p.strip(" \t\n,"))


def _only_value(text: str, blocks: Sequence[Block]) -> Any:
    if len(blocks) != 1:
        return BROKEN
    block = blocks[0]
    return BROKEN if text[: block.start].strip() or text[block.end :].strip() else block.value
