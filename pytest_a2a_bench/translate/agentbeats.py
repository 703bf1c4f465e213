"""The ``agentbeats`` dialect: the tau2 scenario of the AgentBeats platform.

Existing agents look for the fixed lines of the first message, so they are facts of the format and stay as they are.
Later messages are the bare words of the user or of the tool. Answers are JSON ``{"name", "arguments"}`` in text or in
a data part; ``respond`` with ``content`` speaks to the user. The older spelling has ``kwargs`` and ``<json>`` tags.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pytest_a2a_bench.model import AgentSaid, Briefing, Event, Part, ToolReturned, ToolSpec, UserSaid
from pytest_a2a_bench.translate.base import DecodedReply, DecodedRequest
from pytest_a2a_bench.translate.calls import RESPOND
from pytest_a2a_bench.translate.foreign import LIST_LINE, actions, dump, labelled, read_request
from pytest_a2a_bench.translate.marks import Piece, join_pieces
from pytest_a2a_bench.translate.reading import Rules, read_reply
from pytest_a2a_bench.translate.schemas import tool_to_json, tools_to_text

USER_MARKER = "Now here are the user messages:\n"
"""The line before the user's words in a first message."""

_RESPOND_TOOL = ToolSpec(
    RESPOND,
    "Respond directly to the user with a message instead of calling a tool.",
    {
        "properties": {
            "content": {
                "description": "The message content to send to the user.",
                "title": "Content",
                "type": "string",
            }
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


class AgentBeatsDialect:
    """See the module's docstring.

    :param older: write the older spelling, ``<json>{"name", "kwargs"}</json>``; both are always read.
    """

    name = "agentbeats"

    def __init__(self, *, older: bool = False) -> None:
        self._older = older

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part."""
        return (join_pieces(_head(briefing) if briefing else "", _pieces(events)),)

    def decode_reply(self, parts: Sequence[Part], tools: Sequence[ToolSpec]) -> DecodedReply:
        """Read calls or a ``respond``."""
        return read_reply(parts, tools, _RULES)

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read back what :meth:`encode_request` wrote, or what an AgentBeats green agent did."""
        return read_request(parts, USER_MARKER, "\n\n")

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        """Write one text part; several calls become a list."""
        said = actions(reply, "kwargs" if self._older else "arguments")
        text = dump(said[0] if len(said) == 1 else said)
        return (Part.of_text(f"<json>\n{text}\n</json>" if self._older else text),)

    def reminder(self) -> tuple[Part, ...]:
        """Tell how an answer must look."""
        return (Part.of_text(_REMINDER),)


def _head(briefing: Briefing) -> str:
    respond = json.dumps(tool_to_json(_RESPOND_TOOL), indent=2)
    return (
        f"{briefing.policy}\n\n"
        f"{LIST_LINE} (you can use at most one tool at a time):\n{tools_to_text(briefing.tools)}\n\n"
        f"Additionally, you can respond to the user with the following call:\n\n{respond}\n\n"
        f"{_FORMAT}\n{USER_MARKER}"
    )


def _pieces(events: Sequence[Event]) -> list[Piece]:
    if any(isinstance(e, AgentSaid) for e in events):
        return [Piece(*labelled(e), e) for e in events]
    if len(events) == 1:
        return [_bare(events[0])]
    return [_named(e) for e in events]


def _bare(event: Event) -> Piece:
    body = event.content if isinstance(event, ToolReturned) else labelled(event)[1]
    return Piece("", body, event) if body else _named(event)


def _named(event: Event) -> Piece:
    match event:
        case ToolReturned():
            return Piece(f"Tool '{event.name}' result: ", event.content, event)
        case UserSaid():
            return Piece("", event.text, event)
        case AgentSaid():
            return Piece(*labelled(event), event)
