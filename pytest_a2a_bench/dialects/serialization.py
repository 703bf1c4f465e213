"""Write tools, calls and conversation events as JSON or as marked text, and read them back.

Tools are OpenAI's function schemas in every dialect. The foreign formats send a user's words and a tool's content as
bare text, which does not tell one from the other: the part's metadata name the span of each event. Agents made for
these formats do not look at the metadata; ours read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_a2a_bench.model import AgentSaid, Event, Part, ToolCall, ToolReturned, ToolSpec, UserSaid


def tool_to_json(tool: ToolSpec) -> dict[str, Any]:
    """Write a tool as an OpenAI function schema."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def tools_to_text(tools: Sequence[ToolSpec]) -> str:
    """Write tools as indented JSON."""
    return json.dumps([tool_to_json(t) for t in tools], indent=2, ensure_ascii=False)


def tools_from_json(value: Any) -> tuple[ToolSpec, ...]:
    """Read a list of tools; what is no tool is left out."""
    return tuple(_tool(v) for v in value if _name_of(v)) if isinstance(value, list) else ()


def _function(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        return {}
    function = value.get("function", value)
    return function if isinstance(function, Mapping) else {}


def _name_of(value: Any) -> str:
    name = _function(value).get("name")
    return name if isinstance(name, str) else ""


def _tool(value: Any) -> ToolSpec:
    function = _function(value)
    description = function.get("description")
    parameters = function.get("parameters")
    return ToolSpec(
        _name_of(value),
        description if isinstance(description, str) else "",
        whole_numbers(parameters) if isinstance(parameters, Mapping) else {},
    )


def whole_numbers(value: Any) -> Any:
    """Copy a JSON Schema with its integral floats (``"maxLength": 5.0`` from a data part) as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {k: whole_numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [whole_numbers(v) for v in value]
    return value


def call_to_json(call: ToolCall) -> dict[str, Any]:
    """Write a call as ``{"name", "arguments"[, "id"]}``."""
    written: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    return {**written, "id": call.id} if call.id else written


def said_to_json(said: AgentSaid) -> dict[str, Any]:
    """Write what the agent said as ``{"message"?, "tool_calls"?}``."""
    written: dict[str, Any] = {} if said.text is None else {"message": said.text}
    return {**written, "tool_calls": [call_to_json(c) for c in said.calls]} if said.calls else written


def said_from_json(value: Any) -> AgentSaid | None:
    """Read what :func:`said_to_json` wrote, or return None if it is something else."""
    if not isinstance(value, Mapping) or set(value) - {"message", "tool_calls"}:
        return None
    text = value.get("message")
    calls = value.get("tool_calls", [])
    if not isinstance(text, str | None) or not isinstance(calls, list):
        return None
    read = [_call(c) for c in calls]
    return AgentSaid(text, tuple(c for c in read if c is not None)) if None not in read else None


def _call(value: Any) -> ToolCall | None:
    if not isinstance(value, Mapping):
        return None
    name, arguments, call_id = value.get("name"), value.get("arguments"), value.get("id", "")
    if isinstance(name, str) and isinstance(arguments, Mapping) and isinstance(call_id, str):
        return ToolCall(name, dict(arguments), call_id)
    return None


def show_said(said: AgentSaid) -> str:
    """Write what the agent said, where it is sent back as history, on one line of JSON."""
    return json.dumps(said_to_json(said), ensure_ascii=False)


def read_said(text: str) -> AgentSaid | None:
    """Read what :func:`show_said` wrote."""
    try:
        return said_from_json(json.loads(text))
    except (ValueError, RecursionError):
        return None


# --- events in the metadata of a text part ---

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
