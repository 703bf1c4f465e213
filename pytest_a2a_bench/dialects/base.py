"""The dialect protocol: how policy, tools, tool results and tool calls are written into A2A parts.

A dialect is data-in, data-out in both directions: the benchmark's side (:meth:`Dialect.encode_request`,
:meth:`Dialect.decode_reply`) and the agent's side (:meth:`Dialect.decode_request`, :meth:`Dialect.encode_reply`),
so that what one side writes can be shown to be what the other side reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_a2a_bench.model import AgentSaid, Briefing, DialectFinding, Event, Part, ToolCall, ToolSpec
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, Bounds


@dataclass(frozen=True, slots=True)
class DecodedReply:
    """The meaning of an agent's reply.

    tau2 wants text or calls, never both: where there are calls, ``text`` is prose around them (kept for the
    transcript's findings, not for the user).

    :param calls: with arguments restored by the tools' JSON schemas; ``id`` empty where the agent gave none.
    :param findings: what the dialect does not allow.
    :param unreadable: True where something looked like a call and could not be read, and nothing else says what the
        agent wants; ``text`` is then the reply as it came. A bad call beside a good one is a finding only.
    :param dialect: the dialect that the reply was written in, where it is known (``auto`` settles on it).
    """

    text: str | None = None
    calls: tuple[ToolCall, ...] = ()
    findings: tuple[DialectFinding, ...] = ()
    unreadable: bool = False
    dialect: str | None = None


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """The meaning of a request to an agent; ``briefing`` is there on the first message (and when history is resent)."""

    briefing: Briefing | None
    events: tuple[Event, ...]


class Dialect(Protocol):
    """One way to write the conversation into A2A parts. Instances are stateless and may be shared."""

    name: str

    def encode_request(self, briefing: Briefing | None, events: Sequence[Event]) -> tuple[Part, ...]:
        """Write a request: the briefing if given, then the events in order."""
        ...

    def decode_reply(
        self, parts: Sequence[Part], tools: Sequence[ToolSpec], bounds: Bounds = DEFAULT_BOUNDS
    ) -> DecodedReply:
        """Read what the agent answered. Never raises, whatever the parts contain."""
        ...

    def decode_request(self, parts: Sequence[Part]) -> DecodedRequest:
        """Read, on the agent's side, what :meth:`encode_request` wrote."""
        ...

    def encode_reply(self, reply: AgentSaid) -> tuple[Part, ...]:
        """Write, on the agent's side, text or calls."""
        ...

    def reminder(self) -> tuple[Part, ...]:
        """Return the message that explains the format of a call, sent once after one could not be read."""
        ...
