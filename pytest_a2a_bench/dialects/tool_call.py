"""The ``tool_call`` dialect: tools in ``<available_tools>``, calls as ``{"tool_call": {"name", "arguments"}}``.

Tools are JSON schemas. ``tool_list`` is the same as the design document of tau2's A2A integration writes it: the policy
in ``<system>``, and tools as a list for readers. Their schemas are in the part's metadata.

A request is one text: sections, each with a label at the start of a line. A line inside a section that could be taken
for a label is written with a backslash before it, so that nothing a user or a tool says can pass for something else.
Agents that read only a message's first part see everything.

Where an agent calls its tools by itself, ``<mcp_server>`` stands in place of the tools, with the configuration that
clients of MCP take; the same is in a data part, for agents whose code reads it.

The ``data`` dialect has one data part each way, nothing to parse: the request is ``{"policy", "tools", "messages":
[...]}`` with OpenAI-like messages; the reply ``{"tool_calls": [...]}`` or ``{"message": "..."}``, or a plain text part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.dialects.reading import DecodedRequest, RuledDialect, Rules, restore_call
from pytest_a2a_bench.dialects.serialization import (
    OWN_KEY,
    call_to_json,
    own_metadata,
    read_said,
    said_from_json,
    said_to_json,
    show_said,
    tool_to_json,
    tools_from_json,
    tools_to_list,
    tools_to_text,
)
from pytest_a2a_bench.model import AgentSaid, Briefing, Event, Part, ToolAccess, ToolReturned, ToolSpec, UserSaid

_OPEN, _CLOSE = "<available_tools>", "</available_tools>"
_SERVER, _SERVER_END = "<mcp_server>", "</mcp_server>"
_SYSTEM, _SYSTEM_END = "<system>\n", "\n</system>"
_USER, _TOOL, _AGENT = "User: ", "Tool Result (", "Assistant: "
_LABEL = re.compile(
    rf"\\*(?:{re.escape(_OPEN)}|{re.escape(_CLOSE)}|{re.escape(_SERVER)}|{re.escape(_SERVER_END)}"
    r"|User:|Tool Result \(|Assistant:)"
)
_TOOL_LABEL = re.compile(r'Tool Result \(("(?:[^"\\]|\\.)*+"|[^()"\n]*)\):(?: |$)')
_PLAIN_NAME = re.compile(r"[\w.:/+=@ -]*", re.ASCII)

_HOW_TO_CALL = """\
How to answer: to call a tool, answer with JSON only,
{"tool_call": {"name": "TOOL", "arguments": {"ARGUMENT": "VALUE"}}}
or, to call several tools at once, {"tool_calls": [{"name": ..., "arguments": ...}, ...]}.
"""
_HOW = (
    _HOW_TO_CALL
    + "To speak to the user, answer in plain text. Never do both in one answer. Tool results come in the next message."
)
_HOW_SPEAKING = (
    _HOW_TO_CALL
    + "To speak to the user, call the tool {tool}: plain text reaches nobody. Tool results come in the next message."
)

_HOW_NATIVELY = """\
How to answer: your tools are offered by the MCP server above (streamable HTTP; send its headers with each request), for
this conversation only. Call them there while you work on a message; their results come back there. Then end your turn
with an answer in plain text, which is what you say to the user."""

NATIVE_REMINDER = (
    "Your last answer was empty, or looked like a tool call and could not be read; the user saw none of it. Please "
    "answer again.\n" + _HOW_NATIVELY
)

_REMINDER = (
    "Your last answer looked like a tool call, or was empty, and could not be read; nothing was executed and the user "
    "saw none of it. Please answer again.\n" + _HOW
)

_TEXT_SHAPES, _WRAPPED = frozenset({"wrapped", "listed"}), frozenset({"wrapped"})


class ToolCallDialect(RuledDialect):
    """See the module's docstring."""

    name = "tool_call"
    _rules = Rules("tool_call", text_shapes=_TEXT_SHAPES, data_shapes=_WRAPPED)
    _lists = False

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part. A user's words alone are sent as they are."""
        sections = [_brief(briefing, self._how(briefing), lists=self._lists)] if briefing else []
        if briefing is not None and briefing.greeting:
            sections.append(_section(AgentSaid(briefing.greeting)))
        sections += [_section(e) for e in events]
        match events:
            case [UserSaid(text)] if briefing is None and text.strip() and not _LABEL.search(text):
                sections = [text]
        # The ids of calls are ours where the agent gave none, so that they are no part of the words.
        results = [{"id": e.call_id, "error": e.error} for e in events if isinstance(e, ToolReturned)]
        calls = [c.id for e in events if isinstance(e, AgentSaid) for c in e.calls]
        own: dict[str, Any] = {"results": results, "calls": calls if any(calls) else []}
        own = {name: value for name, value in own.items() if value}
        if self._lists and briefing is not None and not briefing.access:
            own["tools"] = [tool_to_json(t) for t in briefing.tools]
        whole = Part("text", text="\n\n".join(sections), metadata={OWN_KEY: own} if own else None)
        return (whole, Part.of_data(_servers(briefing.access))) if briefing and briefing.access else (whole,)

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read a message of :meth:`encode_request`."""
        briefing: Briefing | None = None
        events: list[Event] = []
        for part in parts:
            if part.kind == "text":
                found, said = _read_text(part.text, own_metadata(part, "results"), own_metadata(part, "calls"))
                if found and not found.tools and found.policy.startswith(_SYSTEM):
                    policy = found.policy.removeprefix(_SYSTEM).removesuffix(_SYSTEM_END)
                    found = replace(found, policy=policy, tools=tools_from_json(own_metadata(part, "tools")))
                briefing = found or briefing
                events += said
        return DecodedRequest(briefing, tuple(events))

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        """Write text, calls, or both in two parts."""
        texts = [] if reply.text is None else [reply.text]
        if len(reply.calls) == 1:
            texts.append(_dump({"tool_call": call_to_json(reply.calls[0])}))
        elif reply.calls:
            texts.append(_dump({"tool_calls": [call_to_json(c) for c in reply.calls]}))
        return tuple(Part.of_text(t) for t in texts)

    def reminder(self) -> tuple[Part, ...]:
        """Return the format of a call."""
        return (Part.of_text(_REMINDER),)

    def _how(self, briefing: Briefing) -> str:
        # replace and not format: the text has braces of JSON in it.
        return _HOW_SPEAKING.replace("{tool}", briefing.speaking_tool) if briefing.speaking_tool else _HOW


class ToolListDialect(ToolCallDialect):
    """``tool_call`` as the design document writes it; see the module's docstring."""

    name = "tool_list"
    _rules = Rules("tool_list", text_shapes=_TEXT_SHAPES, data_shapes=_WRAPPED)
    _lists = True


def is_addressed(text: str) -> bool:
    """Return whether a text is this dialect's: its labels are common words, so one within the text does not count."""
    return bool(_LABEL.match(text) and not text.startswith("\\")) or lists_tools(text)


def lists_tools(text: str) -> bool:
    """Return whether a text has a line that begins this dialect's list of tools, or says where they are."""
    return any(line.startswith((_OPEN, _SERVER)) for line in text.split("\n"))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _escape(text: str) -> str:
    return "\n".join("\\" + line if _LABEL.match(line) else line for line in text.split("\n"))


def _unescape(text: str) -> str:
    return "\n".join(line[1:] if line[:1] == "\\" and _LABEL.match(line) else line for line in text.split("\n"))


def _servers(access: ToolAccess) -> dict[str, Any]:
    """Write where the tools are, in the form that clients of MCP are configured with."""
    return {"mcpServers": {OWN_KEY: {"type": "http", "url": access.url, "headers": access.headers}}}


def _read_access(section: str) -> ToolAccess | None:
    try:
        server = json.loads(section[len(_SERVER) :].partition("\n" + _SERVER_END)[0])["mcpServers"][OWN_KEY]
        scheme, _, token = server["headers"]["Authorization"].partition(" ")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None
    return ToolAccess(str(server["url"]), token) if scheme == "Bearer" and "url" in server else None


def _brief(briefing: Briefing, how: str, *, lists: bool) -> str:
    if briefing.access is not None:
        servers = _dump(_servers(briefing.access))
        return f"{_escape(briefing.policy)}\n\n{_SERVER}\n{servers}\n{_SERVER_END}\n\n{_HOW_NATIVELY}"
    # An agent that looks for the closing tag must not find it inside a tool's description.
    write, open_bracket = (tools_to_list, "&lt;") if lists else (tools_to_text, "\\u003c")
    tools = write(briefing.tools).replace(_CLOSE, open_bracket + _CLOSE[1:])
    policy = _escape(briefing.policy)
    policy = f"{_SYSTEM}{policy}{_SYSTEM_END}" if lists else policy
    return f"{policy}\n\n{_OPEN}\n{tools}\n{_CLOSE}\n\n{how}"


def _section(event: Event) -> str:
    match event:
        case UserSaid():
            return _USER + _escape_tail(event.text)
        case ToolReturned():
            name = event.name if _PLAIN_NAME.fullmatch(event.name) else json.dumps(event.name)
            return f"{_TOOL}{name}): {_escape_tail(event.content)}"
        case AgentSaid(text=str(text), calls=()) if read_said(text) is None:
            return _AGENT + _escape_tail(text)
        case AgentSaid():
            return _AGENT + show_said(replace(event, calls=tuple(replace(c, id="") for c in event.calls)))


def _escape_tail(text: str) -> str:
    """Escape all lines but the first, which has a label before it."""
    first, newline, rest = text.partition("\n")
    return first + newline + _escape(rest)


def _unescape_tail(text: str) -> str:
    first, newline, rest = text.partition("\n")
    return first + newline + _unescape(rest)


def _read_text(text: str, results: list[Any], calls: list[Any]) -> tuple[Briefing | None, list[Event]]:
    sections = _split(text)
    briefing: Briefing | None = None
    events: list[Event] = []
    for index, section in enumerate(sections):
        if section.startswith(_OPEN):
            briefing = Briefing(_unescape(sections[index - 1]) if index == 1 else "", _read_tools(section))
        elif section.startswith(_SERVER):
            policy = _unescape(sections[index - 1]) if index == 1 else ""
            briefing = Briefing(policy, access=_read_access(section))
        elif index == 0 and (section.startswith("\\") or not _LABEL.match(section)):
            if section and not any(s.startswith((_OPEN, _SERVER)) for s in sections[1:2]):
                events.append(UserSaid(_unescape(section)))
        elif (event := _read_section(section, results, calls)) is not None:
            events.append(event)
    return briefing, events


def _split(text: str) -> list[str]:
    """Cut a text before each label; the blank line between two sections belongs to neither."""
    sections: list[list[str]] = [[]]
    for line in text.split("\n"):
        label = _LABEL.match(line)
        if label and not line.startswith(("\\", _CLOSE, _SERVER_END)):
            if len(sections[-1]) > 1 and sections[-1][-1] == "":
                sections[-1].pop()
            sections.append([])
        sections[-1].append(line)
    return ["\n".join(s) for s in sections if s]


def _read_tools(section: str) -> tuple[ToolSpec, ...]:
    inside = section[len(_OPEN) :].partition("\n" + _CLOSE)[0]
    try:
        return tools_from_json(json.loads(inside))
    except (ValueError, RecursionError):
        return ()


def _read_section(section: str, results: list[Any], calls: list[Any]) -> Event | None:
    if section.startswith(_USER):
        return UserSaid(_unescape_tail(section[len(_USER) :]))
    label = _TOOL_LABEL.match(section)
    if label:
        name = json.loads(label[1]) if label[1].startswith('"') else label[1]
        extra = results.pop(0) if results else None
        extra = extra if isinstance(extra, Mapping) else {}
        content = _unescape_tail(section[label.end() :])
        return ToolReturned(str(extra.get("id", "")), name, content, extra.get("error") is True)
    if section.startswith(_AGENT):
        said = section[len(_AGENT) :]
        read = read_said(said)
        if read is None:
            return AgentSaid(_unescape_tail(said))
        return AgentSaid(read.text, tuple(replace(c, id=str(calls.pop(0)) if calls else "") for c in read.calls))
    return UserSaid(_unescape(section)) if not section.startswith((_CLOSE, _SERVER_END)) else None


_DATA_HOW = (
    'Answer with one data part: {"tool_calls": [{"id": "ID", "name": "TOOL", "arguments": {}}]} to call tools, or '
    '{"message": "TEXT"} to speak to the user; never both.'
)
_DATA_HOW_SPEAKING = (
    'Answer with one data part: {"tool_calls": [{"id": "ID", "name": "TOOL", "arguments": {}}]} to call tools. To '
    "speak to the user, call the tool {tool}: a message reaches nobody."
)
_DATA_REMINDER = (
    "Your last answer looked like a tool call, or was empty, and could not be read; nothing was executed and the user "
    "saw none of it. Please answer again. " + _DATA_HOW
)

_DATA_SHAPES = frozenset({"listed", "wrapped", "message"})
_DATA_RULES = Rules("data", text_shapes=_DATA_SHAPES, data_shapes=_DATA_SHAPES, message_object=True)


class DataDialect(RuledDialect):
    """See the module's docstring."""

    name = "data"
    _rules = _DATA_RULES

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one data part."""
        body: dict[str, Any] = {}
        if briefing is not None:
            tools = [tool_to_json(t) for t in briefing.tools]
            how = _DATA_HOW_SPEAKING.replace("{tool}", briefing.speaking_tool) if briefing.speaking_tool else _DATA_HOW
            body = {"policy": briefing.policy, "tools": tools, "instructions": how}
            if briefing.greeting:
                events = [AgentSaid(briefing.greeting), *events]
        return (Part.of_data({**body, "messages": [_to_message(e) for e in events]}),)

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read a message of :meth:`encode_request`; a text part is the user's words."""
        briefing: Briefing | None = None
        events: list[Event] = []
        for part in parts:
            if part.kind == "text":
                events.append(UserSaid(part.text))
            elif part.kind == "data" and isinstance(part.data, Mapping):
                policy, messages = part.data.get("policy"), part.data.get("messages")
                if isinstance(policy, str):
                    briefing = Briefing(policy, tools_from_json(part.data.get("tools")))
                read = [_from_message(m) for m in messages] if isinstance(messages, list) else []
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
        return (Part.of_data({"instructions": _DATA_REMINDER, "messages": []}),)


def is_data_request(data: Any) -> bool:
    """Return whether a data part is a request in this dialect."""
    return isinstance(data, Mapping) and isinstance(data.get("messages"), list)


def _to_message(event: Event) -> dict[str, Any]:
    match event:
        case UserSaid():
            return {"role": "user", "content": event.text}
        case ToolReturned():
            written = {"tool_call_id": event.call_id, "name": event.name, "content": event.content}
            return {"role": "tool", **written, "error": event.error}
        case AgentSaid():
            calls = [call_to_json(c) for c in event.calls]
            return {"role": "assistant", "content": event.text, **({"tool_calls": calls} if calls else {})}


def _from_message(message: Any) -> Event | None:
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
