"""Find the calls in one text: bare, fenced, tagged, several at once; in thinking, quoted, or with prose around them.

Pure; time is linear in the text.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection, Sequence
from typing import Any, Final, Literal, NamedTuple

from pytest_a2a_bench.dialects.calls import Reading, drop_invalid, find_foreign, find_invented, read_calls
from pytest_a2a_bench.dialects.serialization import (
    BROKEN,
    MAX_TEXT,
    Block,
    Span,
    around,
    find_blocks,
    search_outside,
    starting_at,
)
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, CpuAllowance

RAW_LIMIT = 2_000
"""Characters of an unreadable call that a finding keeps."""

# --- thinking ---------------------------------------------------------------------------------------------------------

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
    """A span in which the agent thinks.

    :param closed: False where no mark ends it; it then goes on to the end of the text, and may include the answer.
    """

    start: int
    end: int
    closed: bool = True


def find_thoughts(text: str, blocks: Sequence[Block] = ()) -> list[Thought]:
    """Return the spans of thinking, sorted and disjoint, in time linear in the text.

    Tags count by their nesting, whichever of the usual names they have: ``<think>``, ``<reasoning>``, ``[THINK]``. The
    text before a closing tag without an opening one is thought as well: some models are started inside their thinking.
    So are HTML comments, harmony's ``analysis`` channel, and text that ReAct labels with ``Thought:``, up to its next
    label, or to the end of the line where no label follows.

    :param blocks: readable JSON values in the text; a tag inside one is part of a string there.
    """
    found: list[Thought] = []
    position = opened = depth = 0
    labels = True
    # Where the text begins that a closing tag without an opening one ends.
    free = 0
    while mark := search_outside(_MARK, text, position, blocks):
        position = mark.end()
        if mark["open"]:
            opened = opened if depth else mark.start()
            depth += 1
        elif mark["close"]:
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


def find_shared_thoughts(
    texts: Sequence[str], depth: int = DEFAULT_BOUNDS.depth, allowance: CpuAllowance | None = None
) -> list[list[Thought] | None]:
    """Return the thinking in each of several texts that may be one text, cut anywhere; None where it is not known."""
    whole = "".join(texts)
    if len(texts) < 2 or not _MARK.search(whole):
        return [None] * len(texts)
    head = whole[:MAX_TEXT]
    thoughts = find_thoughts(head, [b for b in find_blocks(head, depth, allowance) if b.value is not BROKEN])
    if len(whole) > MAX_TEXT:
        thoughts.append(Thought(MAX_TEXT, len(whole), closed=False))
    shared: list[list[Thought] | None] = []
    start = 0
    for text in texts:
        end = start + len(text)
        inside = [t for t in thoughts if t.start < end and start < t.end]
        shared.append([Thought(max(t.start - start, 0), min(t.end, end) - start, t.closed) for t in inside])
        start = end
    return shared


# --- is a call meant, or only mentioned? ------------------------------------------------------------------------------

Place = Literal["alone", "inline", "fenced", "quoted", "thought", "open-thought"]
"""Where a call stands: on lines of its own, among words on a line, in a fence, in quotation marks, in thinking."""

IN_THOUGHT: Final[frozenset[Place]] = frozenset({"thought", "open-thought"})

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
    """Return whether the words around a call ask the user something or make the call depend on an answer.

    A question is recognized by its mark in any language, a condition by the usual English phrases.
    """
    return bool(_QUESTION.search(words) or _WAITING.search(words.replace("\u2019", "'")))


def find_fences(text: str, blocks: Sequence[Block]) -> list[Span]:
    """Return the insides of code fences; an unclosed one goes on to the end.

    :param blocks: readable JSON values in the text; a fence inside one is part of a string there.
    """
    fences: list[Span] = []
    opened: re.Match[str] | None = None
    position = 0
    while mark := search_outside(_FENCE, text, position, blocks):
        position = mark.end()
        if opened is None:
            opened = mark
        elif opened[0] == mark[0]:
            fences.append(Span(opened.end(), mark.start()))
            opened = None
    return [*fences, Span(opened.end(), len(text))] if opened else fences


def _place_of(text: str, span: Span, thoughts: Sequence[Thought], fences: Sequence[Span]) -> Place:
    """Return where a call stands, given its span with the tags or the fence around it."""
    thought = around(span.start, thoughts)
    if thought is not None:
        return "thought" if thought.closed else "open-thought"
    if around(span.start, fences) or starting_at(span.start + 3, fences):
        return "fenced"
    before = text[max(0, span.start - _LINE) : span.start].rpartition("\n")[2]
    after = text[span.end : span.end + _LINE].partition("\n")[0]
    left, right = before[-1:], after[:1]
    if (left and _MARKS.get(left) == right) or before.lstrip().startswith(">"):
        # Quotation marks around the whole text quote nothing.
        return "quoted" if _WORD.search(text, 0, span.start) or _WORD.search(text, span.end) else "alone"
    return "inline" if _WORD.search(before) or _WORD.search(after) else "alone"


def judge(place: Place, *, waits: bool) -> Verdict:
    """Return the meaning of a call at a place; ``waits``: whether the words around it wait for the user."""
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


# --- one text ---------------------------------------------------------------------------------------------------------

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
    """One call, or several in one value, and the span of the text that it takes with its tags."""

    start: int
    end: int
    reading: Reading
    place: Place = "alone"


class Scan(NamedTuple):
    """The calls in one text.

    :param found: all that reads as calls, in order, wherever it stands.
    :param unreadable: texts that look like a call and cannot be read, each bounded.
    :param words: the text without its calls and without the agent's thinking.
    :param value: the JSON value where the text is nothing but one; else :data:`BROKEN`.
    :param deep: whether something in it is nested too deeply to be read.
    """

    text: str
    found: tuple[Found, ...]
    unreadable: tuple[str, ...]
    words: str
    value: Any = BROKEN
    deep: bool = False

    def without(self, taken: Sequence[Found]) -> str:
        """Return the text without some of its calls."""
        return _without(self.text, taken) if taken else self.text


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
    """Find the calls in a text.

    :param known: names of the existing tools.
    :param depth: how deep a call may be nested.
    :param allowance: once it is spent, the rest of the text is not read.
    :param thoughts: the spans of thinking, where they are known already.
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
    found = [Found(f.start, f.end, drop_invalid(f.reading, depth)) for f in foreign if f.reading]
    values = [b for b in blocks if around(b.start, found) is None]
    readings = ((b, read_calls(b.value, known, depth)) for b in values if b.value is not BROKEN)
    found = sorted([*found, *(Found(b.start, b.end, r) for b, r in readings if r)], key=lambda f: f.start)
    good = [f for f in found if f.reading.calls or f.reading.message]
    torn = {Span(f.start, f.end) for f in found if f.reading.bad}
    suspects = [
        *torn,
        *(Span(f.start, f.end) for f in foreign if f.reading is None),
        *(Span(b.start, b.end) for b in values if b.value is BROKEN and _looks_like_call(text, b, known)),
        *(Span(t.start, t.end) for t in tags),
    ]
    unreadable = [s for s in suspects if not around(s.start, thoughts) and (s in torn or not _holds_call(s, good))]
    invented = find_invented(head, foreign)
    if invented is not None:
        before = [t for t in thoughts if t.start < invented.start]
        start = max([invented.start, *(t.end for t in before[-1:])])
        thoughts = [*before, Thought(start, invented.end)]
    mentioned = {f.start for f in foreign if f.mentioned}
    placed = [_place(head, f, tags, thoughts, fences, f.start in mentioned) for f in good]
    only = len(blocks) == 1 and not (text[: blocks[0].start].strip() or text[blocks[0].end :].strip())
    return Scan(
        text,
        tuple(placed),
        tuple(text[start : min(end, start + RAW_LIMIT)] for start, end in _outermost(unreadable)),
        _without(text, [*placed, *thoughts]),
        blocks[0].value if only else BROKEN,
        any(b.deep for b in blocks),
    )


def _without(text: str, spans: Sequence[tuple[Any, ...]]) -> str:
    """Return a text without some spans, a line for each piece that is left."""
    pieces: list[str] = []
    position = 0
    for start, end in sorted((span[0], span[1]) for span in spans):
        pieces.append(text[position : max(position, start)].strip())
        position = max(position, end)
    pieces.append(text[position:].strip())
    return "\n".join(p for p in pieces if p.strip(" \t\n,"))


def _outermost(spans: Sequence[Span]) -> list[Span]:
    kept: list[Span] = []
    for span in sorted(set(spans), key=lambda s: (s.start, -s.end)):
        if not kept or span.end > kept[-1].end:
            kept.append(span)
    return kept


def _find_tags(text: str, blocks: Sequence[Block]) -> list[_Tag]:
    """Find tagged spans; a tag inside a readable block is part of a string there."""
    tags: list[_Tag] = []
    position = 0
    # Each opening tag counts: one that nothing closes is looked for to the end of the text.
    for _ in range(_MAX_TAGS):
        opener = search_outside(_TAG, text, position, blocks)
        if opener is None:
            break
        position = opener.end()
        closer = search_outside(re.compile(f"</{re.escape(opener[1])}>"), text, position, blocks)
        if closer is not None:
            position = closer.end()
            tags.append(_Tag(opener.start(), position, opener[1].lower()))
    return tags


def _looks_like_call(text: str, block: Block, known: Collection[str]) -> bool:
    head = text[block.start : block.end if block.exhausted else min(block.end, block.start + _LOOK)]
    if _CALL_KEY.search(head) or (_NAME_KEY.search(head) and _ARGUMENTS_KEY.search(head)):
        return True
    return any(name in known for name in _QUOTED.findall(head))


def _holds_call(span: Span, good: Sequence[Found]) -> bool:
    first = bisect.bisect_left(good, span.start, key=lambda f: f.start)
    return first < len(good) and good[first].end <= span.end


def _place(
    text: str, found: Found, tags: Sequence[_Tag], thoughts: Sequence[Thought], fences: Sequence[Span], mentioned: bool
) -> Found:
    """Return a call with the tags or the fence around it, and where it stands."""
    tag = next((t for t in tags if t.start < found.start and found.end < t.end), None)
    start, end = (tag.start, tag.end) if tag else (found.start, found.end)
    left = max(0, start - _MARGIN)
    before = _FENCE_BEFORE.search(text[left:start])
    after = _FENCE_AFTER.match(text[end : end + _MARGIN])
    if before and after:
        start, end = left + before.start(), end + after.end()
    reading = found.reading
    if tag is not None and reading.shape == "bare":
        reading = reading._replace(shape="tagged" if tag.name == "json" else "wrapped")
    place = _place_of(text, Span(start, end), thoughts, fences)
    return Found(start, end, reading, "quoted" if mentioned and place not in IN_THOUGHT else place)
