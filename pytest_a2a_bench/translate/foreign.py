"""What the ``agentbeats`` and ``sierra`` formats have in common: prose layout, JSON answers, ``respond``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pytest_a2a_bench.model import AgentSaid, Briefing, Event, Part, ToolReturned, ToolSpec, UserSaid
from pytest_a2a_bench.translate.base import DecodedRequest
from pytest_a2a_bench.translate.calls import RESPOND
from pytest_a2a_bench.translate.marks import read_marks, show_said
from pytest_a2a_bench.translate.schemas import tools_from_json

LIST_LINE = "Here's a list of tools you can use"
"""How the line begins by which agents find the tools."""

_ASK = "The JSON should contain:"


def actions(reply: AgentSaid, arguments_key: str = "arguments") -> list[dict[str, Any]]:
    """Write what the agent says as a list of ``{"name", "arguments"}``, words as a call of ``respond``."""
    words = [] if reply.text is None else [{"name": RESPOND, arguments_key: {"content": reply.text}}]
    calls = [{"name": c.name, arguments_key: c.arguments} | ({"id": c.id} if c.id else {}) for c in reply.calls]
    return words + calls


def dump(value: Any) -> str:
    """Write JSON that holds neither a closing tag nor the end of a fence."""
    return json.dumps(value, ensure_ascii=False).replace("</", "\\u003c/").replace("```", "\\u0060``")


def labelled(event: Event) -> tuple[str, str]:
    """Return a role label and the words, for a conversation that is sent again."""
    match event:
        case UserSaid():
            return "user: ", event.text
        case ToolReturned():
            return "tool: ", event.content
        case AgentSaid():
            return "assistant: ", show_said(event)


def find_briefing(text: str, separator: str = "\n") -> tuple[Briefing | None, int]:
    """Find the policy and the tools in a first message; return also where the tools end.

    :param separator: what stands between the policy and the tools.
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


def read_request(parts: Sequence[Part], user_marker: str, separator: str) -> DecodedRequest:
    """Read a request; without marks the words of a first message are the user's."""
    briefing: Briefing | None = None
    events: list[Event] = []
    for part in parts:
        if part.kind != "text":
            continue
        marked = read_marks(part)
        found, end = find_briefing(marked.head if marked else part.text, separator)
        briefing = found or briefing
        if marked is not None:
            events += marked.events
        elif found is None:
            events += read_words(part.text)
        elif (at := part.text.find(user_marker, end)) >= 0 and part.text[at + len(user_marker) :]:
            events.append(UserSaid(part.text[at + len(user_marker) :]))
    return DecodedRequest(briefing, tuple(events))


def read_words(text: str) -> list[Event]:
    """Read a later message by the labels that some senders write; bare text is the user's."""
    for label in ("user: ", "User message: "):
        if text.startswith(label):
            return [UserSaid(text[len(label) :])]
    if text.startswith("tool: "):
        return [ToolReturned("", "", text[len("tool: ") :])]
    results = _named_results(text)
    return results or ([UserSaid(text)] if text else [])


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
