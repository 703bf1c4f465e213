"""The interface of a benchmark: its trials, their inputs and outcomes, and its further agents."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError, TrialCancelledError, TrialTimeoutError
from pytest_a2a_bench.model import (
    DialectFinding,
    ExtraTurn,
    Party,
    PartyRole,
    Reward,
    TrialKey,
    TrialResult,
    Turn,
    Usage,
    UserFault,
)
from pytest_a2a_bench.tracing import NO_SPAN, Span

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.benchmarks.conversation import Conversation, NativeTurns
    from pytest_a2a_bench.benchmarks.noise import Noise


@dataclass(frozen=True, slots=True)
class FurtherAgent:
    """An agent that may take part in trials beside the one under test.

    :param name: its name in the settings.
    :param connection: the process's connection to it.
    :param agent: name, version and interface from its card; ``where`` its endpoint without credentials.
    """

    name: str
    role: PartyRole
    connection: AgentConnection
    agent: str = ""
    where: str = ""


@dataclass(slots=True)
class Seat:
    """One further agent in one conversation.

    :param session: the session with it.
    :ivar conversations: conversations with it in a dialect, for their findings and the dialect that they settled on.
    :ivar findings: other findings about it.
    """

    further: FurtherAgent
    session: AgentSession
    conversations: list[Conversation] = field(default_factory=list)
    findings: list[DialectFinding] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name in the settings."""
        return self.further.name

    @property
    def title(self) -> str:
        """Its role and name, for messages."""
        is_user = self.further.role == "user"
        return "the agent that plays the user" if is_user else f"the {self.further.role} {self.name!r}"

    def record(self) -> Party:
        """Return its part of the trial's result."""
        spoken = [f for conversation in self.conversations for f in conversation.findings]
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
            dialect=next((c.settled or c.dialect for c in reversed(self.conversations)), None),
        )


class Parties:
    """The further agents of one conversation. For its thread, but for :meth:`cancel`.

    :param agents: the agents that may take part.
    :param metadata: goes with every message to them.
    :param span: the parent of their turns' spans.
    """

    def __init__(
        self, agents: Iterable[FurtherAgent] = (), metadata: Mapping[str, Any] | None = None, span: Span = NO_SPAN
    ) -> None:
        self._agents = tuple(agents)
        self._metadata = dict(metadata or {})
        self._span = span
        self._seats: dict[str, Seat] = {}
        self._cancelled = False

    def __contains__(self, role: PartyRole) -> bool:
        return any(agent.role == role for agent in self._agents)

    def named(self, role: PartyRole) -> tuple[str, ...]:
        """Return the names of the agents of a role."""
        return tuple(agent.name for agent in self._agents if agent.role == role)

    @property
    def seats(self) -> tuple[Seat, ...]:
        """The agents that took part."""
        return tuple(self._seats.values())

    def seat(self, role: PartyRole, name: str | None = None) -> Seat:
        """Return the agent of a role; its session begins when it is first asked for.

        :param name: which one, where there are several.
        :raises KeyError: if there is none.
        :raises A2ABenchError: if its connection cannot be made.
        """
        further = next((a for a in self._agents if a.role == role and name in (None, a.name)), None)
        if further is None:
            raise KeyError(role)
        # No two of all parties have one name.
        if further.name not in self._seats:
            session = further.connection.session(self._metadata or None)
            session.party, session.span = further.name, self._span
            self._seats[further.name] = Seat(further, session)
            if self._cancelled:
                session.cancel()
        return self._seats[further.name]

    def cancel(self) -> None:
        """Abort the trial. Thread-safe."""
        self._cancelled = True
        for seat in self.seats:
            seat.session.cancel()

    def finish(self) -> None:
        """End their sessions. Never raises."""
        for seat in self.seats:
            seat.session.finish()

    def records(self) -> tuple[Party, ...]:
        """Return the parts of the agents that took part, for the trial's result."""
        return tuple(seat.record() for seat in self.seats)


@dataclass
class TrialContext:
    """Everything one trial may use.

    :param seed: the trial's own seed.
    :param deadline: ``time.monotonic()`` value at which the trial must have ended, or None.
    :param native: where the agent calls tools by itself (``--a2a-tools mcp``), for the benchmark's ``Conversation``.
    :param parties: further agents of the conversation.
    """

    key: TrialKey
    settings: Settings
    session: AgentSession
    seed: int
    cancel: threading.Event = field(default_factory=threading.Event)
    deadline: float | None = None
    native: NativeTurns | None = None
    parties: Parties = field(default_factory=Parties)

    @property
    def noise(self) -> Noise | None:
        """The noise of this trial (``--a2a-noise``), which must know the tools that only read, and earlier reads."""
        found: Noise | None = getattr(self.session, "noise", None)
        return found

    def checkpoint(self) -> float:
        """Return how many seconds the next turn may take.

        :raises TrialCancelledError: if the run is stopping.
        :raises TrialTimeoutError: if the trial has used up its time.
        """
        if self.cancel.is_set():
            raise TrialCancelledError(f"{self.key} was stopped before it ended, because the run is stopping")
        if self.deadline is None:
            return self.settings.timeout
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TrialTimeoutError(
                f"{self.key} took longer than --a2a-trial-timeout ({self.settings.trial_timeout:g} s)"
            )
        return min(self.settings.timeout, left)


@dataclass
class Outcome:
    """The outcome of one trial. With ``error`` set there is no reward; other members describe it up to the error.

    :param category: the task's category, where the benchmark has some.
    :param user_fault: the simulated user's error, where a benchmark can prove one; the reward is the same with it.
    :param extra_turn: the outcome of one more turn of the agent, outside of the trial.
    :param user_facts: further acts of a model or agent as the user that no user does.
    :param blame: the party whose doing a miss was, where other agents took part; None for the agent under test.
    :param duration: seconds that the conversation took, without setting up and evaluating; None where there was none.
    """

    reward: Reward | None = None
    termination_reason: str | None = None
    transcript: tuple[Turn, ...] = ()
    findings: tuple[DialectFinding, ...] = ()
    dialect: str | None = None
    splits: tuple[str, ...] = ()
    category: str = ""
    agent_usage: Usage = field(default_factory=Usage)
    user_usage: Usage = field(default_factory=Usage)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    simulation: Mapping[str, Any] | None = None
    error: Exception | None = None
    user_fault: UserFault | None = None
    extra_turn: ExtraTurn | None = None
    user_facts: tuple[UserFault, ...] = ()
    blame: str | None = None
    duration: float | None = None


class Benchmark(Protocol):
    """Runs the trials of a suite; it may import large packages, for its suite lists the tasks without it."""

    name: str

    def data_version(self, domain: str, settings: Settings) -> str:
        """Return the name and version of a domain's data: a result of other data is not reused.

        Where tasks change one by one, an optional ``task_version(key, settings)`` says which this one is. An optional
        ``load(settings)`` imports large packages before the threads of trials begin.
        """
        ...

    def run_trial(self, context: TrialContext) -> Outcome:
        """Hold the conversation of one trial and evaluate it.

        Infrastructure errors are returned in :attr:`Outcome.error` with the conversation so far.
        """
        ...


Rescore = Callable[[TrialResult, Settings], Reward]


def rescorer(benchmark: Benchmark) -> Rescore:
    """Return a benchmark's optional method ``rescore(result, settings) -> Reward``.

    It evaluates a stored conversation again, and raises ``A2ABenchError`` where that cannot be done.

    :raises ConfigurationError: if the benchmark has no such method.
    """
    found = getattr(benchmark, "rescore", None)
    if found is None:
        raise ConfigurationError(f"the benchmark {benchmark.name} cannot evaluate stored conversations")
    return cast("Rescore", found)


def evaluated_by(benchmark: Benchmark, key: TrialKey, settings: Settings) -> Mapping[str, Any]:
    """Return the members of ``provenance`` that describe a benchmark's evaluator.

    ``benchmark`` is its optional ``evaluator``, or its data's version; an optional ``data_provenance(domain, task_id,
    settings)`` may know more, and is asked about trials that came to nothing, too.
    """
    more = getattr(benchmark, "data_provenance", None)
    name = str(getattr(benchmark, "evaluator", benchmark.data_version)(key.domain, settings))
    return {"benchmark": name, **(more(key.domain, key.task_id, settings) if more else {})}
