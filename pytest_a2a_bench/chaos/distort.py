"""Faults in the content of an answer: cut, repeated, swapped, with other ids (pure but for the silence)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from pytest_a2a_bench.chaos.calls import read_json

Pieces = AsyncIterator[bytes]
Edit = Callable[[bytes], bytes]

EDITS = ("wrong-id", "wrong-context", "wrong-task")

# What the parties say is theirs: only the envelope's ids are changed.
_CONTENT = frozenset({"parts", "content", "metadata", "data"})
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


async def distorted(
    fault: str | None,
    pieces: Pieces,
    *,
    stream: bool,
    edit: Edit,
    note: Callable[[], None],
    hang: Callable[[], Awaitable[None]],
) -> Pieces:
    """Yield the pieces of an answer as the fault leaves them.

    :param pieces: the events of a stream, or the one piece of another answer.
    :param edit: what the ``wrong-`` faults do to one piece.
    :param note: called just before the first piece that is not as it was; never, where the fault does not fit.
    :param hang: waits as long as ``hang-after`` does.
    """
    if fault in EDITS:
        made = _edited(pieces, edit, note)
    elif fault == "hang-after":
        made = _stalled(pieces, note, hang, stream=stream)
    elif fault == "truncate":
        made = _cut(pieces, note)
    elif fault == "duplicate" and stream:
        made = _twice(pieces, note)
    elif fault == "reorder" and stream:
        made = _swapped(pieces, note)
    else:
        made = pieces
    async for piece in made:
        yield piece


async def _edited(pieces: Pieces, edit: Edit, note: Callable[[], None]) -> Pieces:
    async for piece in pieces:
        changed = edit(piece)
        if changed != piece:
            note()
        yield changed


async def _stalled(
    pieces: Pieces, note: Callable[[], None], hang: Callable[[], Awaitable[None]], *, stream: bool
) -> Pieces:
    waiting = True
    async for piece in pieces:
        if stream:
            yield piece
        if waiting:
            waiting = False
            note()
            await hang()
        if not stream:
            yield piece


async def _cut(pieces: Pieces, note: Callable[[], None]) -> Pieces:
    held = b""
    async for piece in pieces:
        if held:
            yield held
        held = piece
    if held:
        note()
        yield held[: len(held) // 2]


async def _twice(pieces: Pieces, note: Callable[[], None]) -> Pieces:
    async for piece in pieces:
        note()
        yield piece
        yield piece


async def _swapped(pieces: Pieces, note: Callable[[], None]) -> Pieces:
    first = b""
    number = 0
    async for piece in pieces:
        number += 1
        if number == 1:
            first = piece
            continue
        if number == 2:
            note()
        yield piece
        if number == 2:
            yield first
    if number == 1:
        yield first


async def sse_events(chunks: AsyncIterator[bytes]) -> Pieces:
    """Split an event stream into its events, each with the empty line that ends it."""
    rest = b""
    async for chunk in chunks:
        rest += chunk
        while end := _EVENT_END.search(rest):
            yield rest[: end.end()]
            rest = rest[end.end() :]
    if rest:
        yield rest


def edit_json(fault: str, body: bytes) -> bytes:
    """Return a JSON text with other ids; the text itself where it has none of that kind."""
    value = read_json(body)
    changed = edit_ids(fault, value)
    return body if changed == value else json.dumps(changed).encode()


def edit_event(fault: str, event: bytes) -> bytes:
    """Return a server-sent event with other ids in its data."""
    lines = event.splitlines(keepends=True)
    data = [line for line in lines if line.startswith(b"data:")]
    text = b"\n".join(line[5:].strip() for line in data)
    changed = edit_json(fault, text)
    if changed == text:
        return event
    return b"".join([*(line for line in lines[: lines.index(data[0])]), b"data: ", changed, b"\n\n"])


def edit_ids(fault: str, value: Any) -> Any:
    """Return JSON with the ids changed that the fault is about."""
    if fault == "wrong-id":
        enveloped = isinstance(value, dict) and value.get("jsonrpc") is not None and "id" in value
        return {**value, "id": _other(value["id"])} if enveloped else value
    return _edit(fault, value)


def _edit(fault: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_edit(fault, item) for item in value]
    if not isinstance(value, dict):
        return value
    wrong = {"contextId"} if fault == "wrong-context" else {"taskId"}
    if fault == "wrong-task" and isinstance(value.get("status"), dict):
        wrong.add("id")
    return {
        key: _other(item) if key in wrong else item if key in _CONTENT else _edit(fault, item)
        for key, item in value.items()
    }


def _other(identifier: Any) -> Any:
    return f"chaos-{identifier}"
