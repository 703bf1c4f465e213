"""The ``agentbeats`` and ``sierra`` dialects: prose layout, JSON answers ``{"name", "arguments"}``, and ``respond``.

Existing agents look for the fixed lines of the first message, so they are facts of the formats and stay as they are.
Later messages are the bare words of the user or of the tool. ``respond`` with ``content`` speaks to the user.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pytest_a2a_bench.dialects.calls import RESPOND
from pytest_a2a_bench.dialects.reading import DecodedRequest, RuledDialect, Rules
from pytest_a2a_bench.dialects.serialization import (
    Piece,
    join_pieces,
    labelled,
    read_marks,
    tool_to_json,
    tools_from_json,
    tools_to_text,
)
from pytest_a2a_bench.model import AgentSaid, Briefing, Event, Part, ToolReturned, ToolSpec, UserSaid

LIST_LINE = "Here's a list of tools you can use"
"""How the line begins by which agents find the tools."""

_ASK = "The JSON should contain:"

USER_MARKER = "Now here are the user messages:\n"
"""The line before the user's words in a first message."""

_RESPOND_TOOL = ToolSpec(
    RESPOND,
    "Respond directly to the user with a message instead of calling a tool.",
    {
        "properties": {
            "content": {"description": "The message content to send to the user.", "title": "Content", "type": "string"}
        },
        "required": ["content"],
        "title": "parameters",
        "type": "object",
    },
)
_FORMAT = """\
Please respond in JSON format.
The JSON should contain:
- "name": the tool call function name.
- "arguments": the arguments for the tool call.

You should only use one tool at a time.
"""
_REMINDER = f"""\
Your last answer could not be read; nothing was executed and the user saw none of it.
{_FORMAT}To speak to the user: {{"name": "respond", "arguments": {{"content": "your words"}}}}"""

_SHAPES = frozenset({"bare", "kwargs", "tagged"})
_RULES = Rules("agentbeats", text_shapes=_SHAPES, data_shapes=_SHAPES, json_asked=True, one_call=True)

SIERRA_USER_MARKER = "User message: "
"""The text before the user's words in a first message."""

TAG_LINE = "Please wrap the JSON part with <json>...</json> tags."
"""The sentence that distinguishes this format from ``agentbeats``."""

_SIERRA_FORMAT = f"""\
Please response in the JSON format. {TAG_LINE}
The JSON should contain:
- "name": the tool call function name, or "respond" if you want to respond directly.
- "arguments": the arguments for the tool call, or {{"content": "your message here"}} if you want to respond directly.
You should only use one tool at a time!!
You cannot respond to user and use a tool at the same time!!
"""
_SIERRA_NEXT = "Next, I'll provide you with the user message and tool call results.\n"
_SIERRA_REMINDER = (
    f"Your last answer could not be read; nothing was executed and the user saw none of it.\n{_SIERRA_FORMAT}"
)

_SIERRA_RULES = Rules(
    "sierra", text_shapes=frozenset({"tagged", "bare"}), data_shapes=frozenset({"bare"}), json_asked=True, one_call=True
)


class _ProseDialect(RuledDialect):
    """The base of both formats: the first message in prose, and answers of bare or tagged JSON."""

    _user_marker: str
    _separator: str
    _how: str

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read a message of this format's ``encode_request``, or of the format's own programs."""
        briefing: Briefing | None = None
        events: list[Event] = []
        for part in (part for part in parts if part.kind == "text"):
            marked = read_marks(part)
            found, end = find_briefing(marked.head if marked else part.text, self._separator)
            briefing = found or briefing
            if marked is not None:
                events += marked.events
            elif found is None:
                events += _read_words(part.text)
            # Without marks the words of a first message are the user's.
            elif words := part.text[end:].partition(self._user_marker)[2]:
                events.append(UserSaid(words))
        return DecodedRequest(briefing, tuple(events))

    def reminder(self) -> tuple[Part, ...]:
        """Return the format of an answer."""
        return (Part.of_text(self._how),)


class AgentBeatsDialect(_ProseDialect):
    """The tau2 scenario of the AgentBeats platform: answers as bare JSON in text or in a data part.

    The older spelling, ``kwargs`` inside ``<json>`` tags, is read as well.
    """

    name = "agentbeats"
    _rules, _user_marker, _separator, _how = _RULES, USER_MARKER, "\n\n", _REMINDER

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part."""
        return (join_pieces(_head(briefing) if briefing else "", _pieces(events)),)

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        """Write one text part; several calls become a list."""
        said = actions(reply)
        return (Part.of_text(dump(said[0] if len(said) == 1 else said)),)


def _head(briefing: Briefing) -> str:
    if briefing.speaking_tool:  # of two ways to speak to the user one would be wrong
        speaking = f"To speak to the user, call the tool {briefing.speaking_tool}."
    else:
        respond = json.dumps(tool_to_json(_RESPOND_TOOL), indent=2)
        speaking = f"Additionally, you can respond to the user with the following call:\n\n{respond}"
    return (
        f"{briefing.policy}\n\n"
        f"{LIST_LINE} (you can use at most one tool at a time):\n{tools_to_text(briefing.tools)}\n\n"
        f"{speaking}\n\n{_FORMAT}\n{USER_MARKER}"
    )


def _pieces(events: Sequence[Event]) -> list[Piece]:
    if any(isinstance(e, AgentSaid) for e in events):
        return [Piece(*labelled(e), e) for e in events]
    named = [_named(e) for e in events]
    # Alone, a tool's words are bare; it has its name where there are none.
    return [named[0]._replace(label="")] if len(named) == 1 and named[0].body else named


def _named(event: Event) -> Piece:
    match event:
        case ToolReturned():
            return Piece(f"Tool '{event.name}' result: ", event.content, event)
        case UserSaid():
            return Piece("", event.text, event)
        case AgentSaid():
            return Piece(*labelled(event), event)


class SierraDialect(_ProseDialect):
    """The A2A experiment inside tau2-bench itself: answers in ``<json>`` tags.

    Its own example shows the literal ``{RESPOND_ACTION_NAME}``, which agents copy: it is read as ``respond``.
    """

    name = "sierra"
    _rules, _user_marker, _separator, _how = _SIERRA_RULES, SIERRA_USER_MARKER, "\n", _SIERRA_REMINDER

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part."""
        head = _sierra_head(briefing) if briefing else ""
        pieces = [Piece(*labelled(e), e) for e in events]
        match events:
            case [UserSaid(text), *_] if briefing:
                pieces[0] = Piece(SIERRA_USER_MARKER, text, events[0])
        return (join_pieces(head, pieces),)

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        """Write one text part with a tagged block for each call."""
        return (Part.of_text("\n".join(f"<json>\n{dump(a)}\n</json>" for a in actions(reply))),)


def _sierra_head(briefing: Briefing) -> str:
    tools = tools_to_text(briefing.tools)
    listing = f"{LIST_LINE} (you can use at most one tool at a time):\n{tools}\n"
    return f"{briefing.policy}\n{listing}{_SIERRA_FORMAT}\n{_SIERRA_NEXT}"


def actions(reply: AgentSaid) -> list[dict[str, Any]]:
    """Write a reply as a list of ``{"name", "arguments"}``, words as a call of ``respond``."""
    words = [] if reply.text is None else [{"name": RESPOND, "arguments": {"content": reply.text}}]
    calls = [{"name": c.name, "arguments": c.arguments} | ({"id": c.id} if c.id else {}) for c in reply.calls]
    return words + calls


def dump(value: Any) -> str:
    """Write JSON without closing tags and ends of fences."""
    return json.dumps(value, ensure_ascii=False).replace("</", "\\u003c/").replace("```", "\\u0060``")


def find_briefing(text: str, separator: str = "\n") -> tuple[Briefing | None, int]:
    """Find the policy and the tools in a first message; return also where the tools end.

    :param separator: the text between the policy and the tools.
    """
    position = -1
    while (position := text.find(LIST_LINE, position + 1)) >= 0:
        newline = text.find("\n", position)
        if newline < 0:
            break
        tools, end = _read_tools(text, newline + 1)
        # A policy may speak of a list of tools; only a first message goes on to say how to answer.
        if tools is not None and _ASK in text[end:]:
            return Briefing(text[:position].removesuffix(separator), tools), end
    return None, 0


def _read_tools(text: str, start: int) -> tuple[tuple[ToolSpec, ...] | None, int]:
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start
    return (tools_from_json(value), end) if isinstance(value, list) else (None, start)


def _read_words(text: str) -> list[Event]:
    """Read a later message by the labels that some senders write; bare text is the user's."""
    for label in ("user: ", SIERRA_USER_MARKER):
        if text.startswith(label):
            return [UserSaid(text.removeprefix(label))]
    if text.startswith("tool: "):
        return [ToolReturned("", "", text.removeprefix("tool: "))]
    return _named_results(text) or ([UserSaid(text)] if text else [])


def _named_results(text: str) -> list[Event]:
    events: list[Event] = []
    for line in text.split("\n"):
        name, found, content = line.removeprefix("Tool '").partition("' result: ")
        if line.startswith("Tool '") and found:
            events.append(ToolReturned("", name, content))
        elif events and isinstance(events[-1], ToolReturned):
            events[-1] = ToolReturned("", events[-1].name, f"{events[-1].content}\n{line}")
        else:
            return []
    return events
