"""The forms of CRMArena's published agents, read exactly as its own code reads them.

``<execute>QUERY</execute>`` or ``<respond>ANSWER</respond>``: the first pair of tags with something in it counts, a
query before an answer; nothing else does. The agent with tools writes ``Action: TOOL`` and ``Action Input: {...}``. How
to reply stands in the briefing, which is upstream's own text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_a2a_bench.model import Briefing, DialectFinding, Event, Part, ToolCall, ToolSpec, UserSaid
from pytest_a2a_bench.model.bounds import DEFAULT_BOUNDS, Bounds
from pytest_a2a_bench.translate.base import DecodedReply, DecodedRequest
from pytest_a2a_bench.translate.org_actions import EXECUTE, RESPOND, TOOLS
from pytest_a2a_bench.translate.org_dialects import TagsDialect, refuse_other_tools
from pytest_a2a_bench.translate.serialization import labelled

_ARGUMENT = {EXECUTE: "query", RESPOND: "answer"}
_RAW = 500


class OfficialDialect(TagsDialect):
    """See the module's docstring."""

    name = "crm_official"

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part: the briefing and a blank line before the first words, as for models without roles."""
        text = "\n\n".join(labelled(event)[1] for event in events)
        if briefing is None:
            return (Part.of_text(text),)
        refuse_other_tools(self.name, briefing)
        return (Part.of_text(f"{briefing.policy}\n\n{text}"),)

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read one action; several text parts are one text."""
        text = "".join(part.text for part in parts if part.kind == "text")[: bounds.bytes].strip()
        for name, argument in _ARGUMENT.items():
            payload = _inside(text, name)
            if payload:
                return DecodedReply(calls=(ToolCall(name, {argument: payload}),), dialect=self.name)
        finding = DialectFinding("prose-where-action-asked", "the reply has no pair of tags", text[:_RAW])
        return DecodedReply(text or None, findings=(finding,))

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read a request; what stands behind the last blank line of a first message is the question."""
        text = "".join(part.text for part in parts if part.kind == "text")
        if is_first(text):
            policy, _, question = text.rpartition("\n\n")
            return DecodedRequest(Briefing(policy, TOOLS), (UserSaid(question),))
        return super().decode_request(parts)


def _inside(text: str, tag: str) -> str:
    """Return what stands in the first pair of tags, as a lazy regular expression finds it, in linear time."""
    _, opened, rest = text.partition(f"<{tag}>")
    inside, closed, _ = rest.partition(f"</{tag}>")
    return inside.strip() if opened and closed else ""


_ACTION = re.compile(r"Action:\s*(\w+)")
_INPUT = "Action Input:"
_FENCE = re.compile(r"```(?:json\s*+)?\n*(?=\{)")
_FENCE_END = re.compile(r"\}\n*```")
_LONGEST_LITERAL = 2**20


def read_tool_action(text: str) -> tuple[str, Any] | None:
    """Read what an agent with tools wrote, as upstream's parser does: a tool's name and its arguments.

    :return: None where it is no call; a text that speaks of no action at all is a call of ``respond``, whose arguments
        are that text. Arguments may be of any JSON type: nobody has looked at them yet.
    """
    text = text.strip()
    if "Action:" not in text:
        return (RESPOND, text) if text else None
    named = _ACTION.search(text)
    _, given, after = text.partition(_INPUT)
    if named is None or not given:
        return None
    # What stands behind a second label is not looked at.
    written = after.partition(_INPUT)[0].strip()
    try:
        value = _read_value(_unfenced(written))
        # Through JSON, as upstream hands it on: tuples become lists, and keys strings.
        return None if value is None else (named[1], json.loads(json.dumps(value)))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _unfenced(text: str) -> str:
    """Return the object in the first code fence, as a lazy regular expression finds it, in linear time."""
    opened = _FENCE.search(text)
    closed = _FENCE_END.search(text, opened.end()) if opened else None
    return text[opened.end() : closed.start() + 1] if opened and closed else text


def _read_value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        # Python's parser takes a hundred times the text in memory.
        if len(text) > _LONGEST_LITERAL:
            raise
        return ast.literal_eval(text)


class OfficialToolsDialect(OfficialDialect):
    """The agent with tools, which writes its calls as text."""

    name = "crm_official_tools"

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write one text part, as for models without roles; the briefing has described the tools already."""
        text = "\n\n".join(labelled(event)[1] for event in events)
        return (Part.of_text(text if briefing is None else f"{briefing.policy}\n\n{text}"),)

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read one call. What is none, or has arguments that no call can have, is left as text."""
        text = "".join(part.text for part in parts if part.kind == "text")[: bounds.bytes].strip()
        action = read_tool_action(text)
        if action is not None and isinstance(action[1], Mapping):
            return DecodedReply(calls=(ToolCall(action[0], action[1]),), dialect=self.name)
        finding = DialectFinding("prose-where-action-asked", "the reply is no action with an input", text[:_RAW])
        return DecodedReply(text or None, findings=(finding,))


OFFICIAL = OfficialDialect()
OFFICIAL_TOOLS = OfficialToolsDialect()
"""Not among the dialects, of which a user may choose one: the profile decides about them."""


def is_first(text: str) -> bool:
    """Tell whether a text explains both tags, as upstream's instructions do."""
    return f"</{EXECUTE}>" in text and f"</{RESPOND}>" in text and "\n\n" in text
