"""Part metadata that says which stretch of a text is which event.

The foreign formats send a user's words and a tool's content as bare text, so that their own text cannot tell one from
the other. Agents made for them do not look at the metadata; ours read it and need not guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_a2a_bench.model import AgentSaid, Event, Part, ToolReturned, UserSaid
from pytest_a2a_bench.translate.json_forms import read_said, show_said

_KEY = "a2a_bench"


class Piece(NamedTuple):
    """One event as it is written: what stands before it, and the words themselves."""

    label: str
    body: str
    event: Event


def join_pieces(head: str, pieces: Sequence[Piece], separator: str = "\n") -> Part:
    """Write pieces after a head into one text part, marked."""
    text = head
    marks: list[dict[str, Any]] = []
    for index, piece in enumerate(pieces):
        text += (separator if index else "") + piece.label
        marks.append({"start": len(text), "length": len(piece.body), **_describe(piece.event)})
        text += piece.body
    return Part("text", text=text, metadata={_KEY: {"events": marks}} if marks else None)


def _describe(event: Event) -> dict[str, Any]:
    match event:
        case UserSaid():
            return {"kind": "user"}
        case ToolReturned():
            return {"kind": "tool", "id": event.call_id, "name": event.name, "error": event.error}
        case AgentSaid():
            return {"kind": "agent"}


class Marked(NamedTuple):
    """The events that a part's metadata marks in its text, and what the text has before them."""

    head: str
    events: tuple[Event, ...]


def read_marks(part: Part) -> Marked | None:
    """Read a part by its marks, or return None if there are none, or wrong ones."""
    own = (part.metadata or {}).get(_KEY)
    marks = own.get("events") if isinstance(own, Mapping) else None
    if not isinstance(marks, list) or not marks:
        return None
    events = [_read_mark(part.text, m) for m in marks]
    if None in events:
        return None
    return Marked(part.text[: int(marks[0]["start"])], tuple(e for e in events if e is not None))


def _read_mark(text: str, mark: Any) -> Event | None:
    if not isinstance(mark, Mapping):
        return None
    start, length = _whole(mark.get("start")), _whole(mark.get("length"))
    if start is None or length is None or start + length > len(text):
        return None
    body = text[start : start + length]
    match mark.get("kind"):
        case "user":
            return UserSaid(body)
        case "tool":
            return ToolReturned(str(mark.get("id", "")), str(mark.get("name", "")), body, mark.get("error") is True)
        case "agent":
            return read_said(body)
    return None


def _whole(value: Any) -> int | None:
    # Metadata crosses as protobuf's Struct, which makes 12 a 12.0.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or value < 0:
        return None
    return int(value)


def labelled(event: Event) -> tuple[str, str]:
    """Return a role label and the words, for a conversation that is sent again."""
    match event:
        case UserSaid():
            return "user: ", event.text
        case ToolReturned():
            return "tool: ", event.content
        case AgentSaid():
            return "assistant: ", show_said(event)
