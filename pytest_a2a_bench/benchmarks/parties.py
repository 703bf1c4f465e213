"""Agents that take part in a conversation beside the one under test: sessions of their own, and what each did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.model import DialectFinding, Party, PartyRole
from pytest_a2a_bench.tracing import NO_SPAN, Span

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.benchmarks.conversation import Conversation


@dataclass(frozen=True, slots=True)
class FurtherAgent:
    """An agent that may take part in trials beside the one under test.

    :param name: what options call it.
    :param connect: returns the process's connection to it; called when a conversation first needs it.
    :param agent: name, version and interface from its card; ``where`` its endpoint without credentials.
    """

    name: str
    role: PartyRole
    connect: Callable[[], AgentConnection]
    agent: str = ""
    where: str = ""


@dataclass(slots=True)
class Seat:
    """One further agent in one conversation.

    :param session: what is sent to it, and what that took.
    :ivar conversations: what was held with it in a dialect, for its findings and the dialect that it settled on.
    :ivar findings: what else was noted about it.
    """

    further: FurtherAgent
    session: AgentSession
    conversations: list[Conversation] = field(default_factory=list)
    findings: list[DialectFinding] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What options call it."""
        return self.further.name

    def record(self) -> Party:
        """Return what it did."""
        spoken = [f for held in self.conversations for f in held.findings]
        return Party(
            name=self.name,
            role=self.further.role,
            agent=self.further.agent,
            turns=sum(entry.direction == "received" for entry in self.session.history),
            turn_latencies=tuple(self.session.turn_seconds),
            metrics=tuple(self.session.metrics),
            findings=(*spoken, *self.findings, *self.session.findings),
            usage=self.session.usage,
            context_id=self.session.context_id,
            dialect=next((held.settled or held.dialect for held in reversed(self.conversations)), None),
        )


class Parties:
    """The further agents of one conversation. For its thread, but for :meth:`cancel`.

    :param agents: those that may take part.
    :param metadata: goes with every message to them.
    :param span: what their turns are part of.
    """

    def __init__(
        self,
        agents: Iterable[FurtherAgent] = (),
        metadata: Mapping[str, Any] | None = None,
        span: Span = NO_SPAN,
    ) -> None:
        self._agents = tuple(agents)
        self._metadata = dict(metadata or {})
        self._span = span
        self._seats: dict[str, Seat] = {}
        self._cancelled = False

    def __contains__(self, role: PartyRole) -> bool:
        return any(agent.role == role for agent in self._agents)

    def named(self, role: PartyRole) -> tuple[str, ...]:
        """Return the names of those that are there for something."""
        return tuple(agent.name for agent in self._agents if agent.role == role)

    @property
    def seats(self) -> tuple[Seat, ...]:
        """Those that took part."""
        return tuple(self._seats.values())

    def seat(self, role: PartyRole, name: str | None = None) -> Seat:
        """Return the agent that is there for something; its session begins when it is first asked for.

        :param name: which one, where there are several.
        :raises KeyError: if there is none.
        :raises A2ABenchError: if its connection cannot be made.
        """
        further = next((a for a in self._agents if a.role == role and name in (None, a.name)), None)
        if further is None:
            raise KeyError(role)
        # No two of all parties have one name.
        if further.name not in self._seats:
            session = further.connect().session(self._metadata or None)
            session.party, session.span = further.name, self._span
            self._seats[further.name] = Seat(further, session)
            if self._cancelled:
                session.cancel()
        return self._seats[further.name]

    def cancel(self) -> None:
        """Abort what is under way. Thread-safe."""
        self._cancelled = True
        for seat in self.seats:
            seat.session.cancel()

    def finish(self) -> None:
        """End their sessions. Never raises."""
        for seat in self.seats:
            seat.session.finish()

    def records(self) -> tuple[Party, ...]:
        """Return what each of them did that took part."""
        return tuple(seat.record() for seat in self.seats)
