"""The ``data`` dialect: one data part each way, nothing to parse.

Request ``{"policy", "tools", "messages": [...]}`` with OpenAI-like messages; reply ``{"tool_calls": [...]}`` or
``{"message": "..."}``, or a plain text part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.dialects.base import DecodedReply, DecodedRequest
from pytest_a2a_bench.dialects.reading import Rules, read_reply, restore_call
from pytest_a2a_bench.dialects.serialization import (
    call_to_json,
    said_from_json,
    said_to_json,
    tool_to_json,
    tools_from_json,
)
from pytest_a2a_bench.model import AgentSaid, Briefing, Event, Part, ToolReturned, ToolSpec, UserSaid
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, Bounds

_HOW = (
    'Answer with one data part: {"tool_calls": [{"id": "ID", "name": "TOOL", "arguments": {}}]} to call tools, or '
    '{"message": "TEXT"} to speak to the user; never both.'
)
_HOW_SPEAKING = (
    'Answer with one data part: {"tool_calls": [{"id": "ID", "name": "TOOL", "arguments": {}}]} to call tools. To '
    "speak to the user, call the tool {tool}: a message reaches nobody."
)
_REMINDER = (
    "Your last answer looked like a tool call, or was empty, and could not be read; nothing was executed and the user "
    "saw none of it. Please answer again. " + _HOW
)

_SHAPES = frozenset({"listed", "wrapped", "message"})
_RULES = Rules("data", text_shapes=_SHAPES, data_shapes=_SHAPES, message_object=True)


class DataDialect:
    """See the module's docstring."""

    name = "data"

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one data part."""
        body: dict[str, Any] = {}
        if briefing is not None:
            tools = [tool_to_json(t) for t in briefing.tools]
            how = _HOW_SPEAKING.replace("{tool}", briefing.speaking_tool) if briefing.speaking_tool else _HOW
            body = {"policy": briefing.policy, "tools": tools, "instructions": how}
            if briefing.greeting:
                events = [AgentSaid(briefing.greeting), *events]
        return (Part.of_data({**body, "messages": [_write(e) for e in events]}),)

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read calls or a message."""
        return read_reply(parts, tools, _RULES, bounds)

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read back what :meth:`encode_request` wrote; a text part is the user's words."""
        briefing: Briefing | None = None
        events: list[Event] = []
        for part in parts:
            if part.kind == "text":
                events.append(UserSaid(part.text))
            elif part.kind == "data" and isinstance(part.data, Mapping):
                policy, messages = part.data.get("policy"), part.data.get("messages")
                if isinstance(policy, str):
                    briefing = Briefing(policy, tools_from_json(part.data.get("tools")))
                read = [_read(m) for m in messages] if isinstance(messages, list) else []
                events += [e for e in read if e is not None]
        tools = briefing.tools if briefing is not None else ()
        restored = (
            replace(e, calls=tuple(restore_call(c, tools) for c in e.calls)) if isinstance(e, AgentSaid) else e
            for e in events
        )
        return DecodedRequest(briefing, tuple(restored))

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        """Write one data part."""
        return (Part.of_data(said_to_json(reply)),)

    def reminder(self) -> tuple[Part, ...]:
        """Return the format of a reply."""
        return (Part.of_data({"instructions": _REMINDER, "messages": []}),)


def is_addressed(data: Any) -> bool:
    """Return whether a data part is a request in this dialect."""
    return isinstance(data, Mapping) and isinstance(data.get("messages"), list)


def _write(event: Event) -> dict[str, Any]:
    match event:
        case UserSaid():
            return {"role": "user", "content": event.text}
        case ToolReturned():
            written = {"tool_call_id": event.call_id, "name": event.name, "content": event.content}
            return {"role": "tool", **written, "error": event.error}
        case AgentSaid():
            calls = [call_to_json(c) for c in event.calls]
            return {"role": "assistant", "content": event.text, **({"tool_calls": calls} if calls else {})}


def _read(message: Any) -> Event | None:
    if not isinstance(message, Mapping):
        return None
    content = message.get("content")
    text = content if isinstance(content, str) else None
    match message.get("role"):
        case "user":
            return UserSaid(text or "")
        case "tool":
            call_id, name = (str(message.get(key) or "") for key in ("tool_call_id", "name"))
            return ToolReturned(call_id, name, text or "", message.get("error") is True)
        case "assistant":
            said: dict[str, Any] = {} if text is None else {"message": text}
            return said_from_json({**said, "tool_calls": message.get("tool_calls") or []})
    return None
