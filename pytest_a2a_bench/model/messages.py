"""What is said between user, agent and tools, independent of any protocol's or benchmark's classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Part:
    """One A2A part, whatever the protocol version calls it.

    Exactly one of ``text``, ``data``, ``url`` and ``raw`` is meaningful, as ``kind`` says.

    :param data: any JSON value (1.0); an object in 0.3.
    :param raw: base64 text of a file's bytes.
    """

    kind: Literal["text", "data", "url", "raw"]
    text: str = ""
    data: Any = None
    url: str = ""
    raw: str = ""
    media_type: str | None = None
    filename: str | None = None
    metadata: Mapping[str, Any] | None = None

    @classmethod
    def of_text(cls, text: str) -> Part:
        """Make a text part."""
        return cls("text", text=text)

    @classmethod
    def of_data(cls, data: Any) -> Part:
        """Make a data part."""
        return cls("data", data=data)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that the agent may call.

    :param parameters: JSON Schema of the arguments object (``{"type": "object", "properties": ...}``).
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool. ``id`` is empty where the agent gave none."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class UserSaid:
    """The user said something to the agent."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool returned; ``call_id`` is the id of the call that it answers."""

    call_id: str
    name: str
    content: str
    error: bool = False


@dataclass(frozen=True, slots=True)
class AgentSaid:
    """The agent spoke or called tools (used where history is sent again)."""

    text: str | None = None
    calls: tuple[ToolCall, ...] = ()


Event = UserSaid | ToolReturned | AgentSaid


@dataclass(frozen=True, slots=True)
class ToolAccess:
    """Where an agent reaches the tools of one trial by itself: an MCP server over streamable HTTP.

    :param token: what it shows there (``Authorization: Bearer TOKEN``); good for this trial, and as long as it lasts.
    """

    url: str
    token: str = field(repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """What goes with every request."""
        return {"Authorization": f"Bearer {self.token}"}


@dataclass(frozen=True, slots=True)
class Briefing:
    """What an agent must know before the first turn.

    :param facts: details of the task as fields, for dialects that send them as such; the policy tells them in words.
    :param access: where the agent calls its tools by itself; the tools are then not described to it.
    :param speaking_tool: the tool by which the agent speaks to the user; where there is none, plain text does.
    :param greeting: what the conversation begins with as if the agent had said it; empty for nothing.
    """

    policy: str
    tools: tuple[ToolSpec, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    access: ToolAccess | None = None
    speaking_tool: str = ""
    greeting: str = ""


@dataclass(frozen=True, slots=True)
class DialectFinding:
    """Something in a reply that its dialect does not allow.

    :param rule: a stable short id, e.g. ``unreadable-call``, ``prose-where-json-asked``.
    :param raw: the offending text, bounded.
    """

    rule: str
    message: str
    raw: str = ""
    turn: int = 0
