"""One trial: its state while it runs, its observers, and the result made from its outcome."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.benchmarks.base import FurtherAgent, Outcome, Parties, TrialContext
from pytest_a2a_bench.config.settings import NOISY, PLAIN, Settings
from pytest_a2a_bench.errors import (
    A2ABenchError,
    CardError,
    ConfigurationError,
    DeliveryUncertain,
    EvaluatorError,
    InfrastructureError,
    MissingExtraError,
    PrerequisiteMissingError,
)
from pytest_a2a_bench.model import (
    REWARD_TOLERANCE,
    Briefing,
    Event,
    Party,
    ProtocolMetrics,
    Reward,
    TrialKey,
    TrialResult,
    TrialStatus,
    Usage,
    UserFault,
)
from pytest_a2a_bench.model.messages import Bounds
from pytest_a2a_bench.tool_door import place_of
from pytest_a2a_bench.tracing import NO_SPAN, Span

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.benchmarks.conversation import NativeTurns
    from pytest_a2a_bench.cassettes import Tape

TRACEBACK_LIMIT = 8_000
"""Characters of a traceback that a result keeps."""

Prepare = Callable[[TrialKey, "dict[str, Any]"], None]


@dataclass(frozen=True, slots=True)
class Client:
    """The agent under test, and how every trial reaches it.

    :param identity: the agent's name and version from its card; a stored result of another agent is not reused.
    :param reached: differences between the connection and the settings, if a fixture made another one.
    :param further: agents that take part beside this one.
    :param metadata: put into every message's metadata.
    :param prepare: called in the trial's thread before each conversation, with the key and the metadata, which it may
        change.
    """

    connection: AgentConnection
    identity: str = ""
    reached: Mapping[str, Any] = field(default_factory=dict)
    further: tuple[FurtherAgent, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    prepare: Prepare | None = None


@dataclass(slots=True)
class Abandoned:
    """The remains of a trial's conversations that were given up.

    :param reasons: why those were given up in which a message may have arrived or not.
    :param faults: the user's faults in the others.
    :param metrics: their requests, which were made and paid for like all others; those of further agents are in
        ``parties``.
    """

    reasons: tuple[str, ...] = ()
    faults: tuple[UserFault, ...] = ()
    metrics: tuple[ProtocolMetrics, ...] = ()
    agent_usage: Usage = field(default_factory=Usage)
    user_usage: Usage = field(default_factory=Usage)
    parties: tuple[Party, ...] = ()

    def add(self, outcome: Outcome, session: AgentSession, parties: tuple[Party, ...] = ()) -> None:
        """Take in one more."""
        if isinstance(outcome.error, DeliveryUncertain):
            self.reasons += (outcome.error.reason,)
        elif outcome.user_fault is not None:
            self.faults += (outcome.user_fault,)
        self.metrics += tuple(session.metrics)
        self.agent_usage = self.agent_usage + outcome.agent_usage
        self.user_usage = self.user_usage + outcome.user_usage
        self.parties = with_abandoned(parties, self.parties)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A conversation that was evaluated and is run again for its user: the trial's, if the next one fails.

    :param seed: of its user.
    :param tape: the tape that it was recorded on.
    """

    outcome: Outcome
    session: AgentSession
    parties: tuple[Party, ...]
    seed: int
    tape: Tape | None = None


class Trial:
    """A trial while it runs. Its own thread or a waiter may end it; the first to do so sets the result.

    :param cancel: set to end the trial as soon as possible.
    :ivar began: by ``time.monotonic()``; ``started_at`` is the same moment as an ISO 8601 time.
    :ivar deadline: ``time.monotonic()`` value at which it must have ended, or None.
    :ivar context: the current conversation, as the benchmark gets it; None before the first.
    :ivar tape: records or replays the current conversation; set by an observer.
    :ivar span: parent of the spans of its turns; set by an observer.
    :ivar metadata: goes with every message of the current conversation.
    :ivar retry_reason: why the current conversation replaces an earlier one; empty for the first.
    :ivar abandoned: usage and requests of the conversations before the current one.
    :ivar evaluated: the last of these that was evaluated, and is repeated because of its user.
    :ivar error: the exception that ended the last conversation.
    :ivar trouble: the exception of a failed preparation; ``damaged`` the message of an unreadable stored result.
    :ivar before: the benchmark version of an earlier stored result.
    """

    def __init__(self, key: TrialKey, settings: Settings, cancel: threading.Event) -> None:
        self.key: TrialKey = key
        self.settings: Settings = settings
        self.cancel: threading.Event = cancel
        self.began: float = time.monotonic()
        self.started_at: str = datetime.now(UTC).isoformat()
        self.deadline: float | None = None
        self.context: TrialContext | None = None
        self.tape: Tape | None = None
        self.span: Span = NO_SPAN
        self.metadata: dict[str, Any] = {}
        self.retry_reason: str = ""
        self.abandoned: Abandoned = Abandoned()
        self.evaluated: Evaluated | None = None
        self.error: Exception | None = None
        self.trouble: Exception | None = None
        self.damaged: str = ""
        self.before: str = ""
        self._has_ended = False
        self._lock = threading.Lock()
        self._forget: list[Callable[[], None]] = []

    @property
    def session(self) -> AgentSession | None:
        """The client session of the current conversation."""
        return self.context.session if self.context is not None else None

    @property
    def native(self) -> NativeTurns | None:
        """The agent's own tool calls in the current conversation (``--a2a-tools mcp``)."""
        return self.context.native if self.context is not None else None

    @property
    def parties(self) -> Parties:
        """The further agents of the current conversation."""
        return self.context.parties if self.context is not None else Parties()

    @property
    def seed(self) -> int:
        """The seed of the current conversation."""
        return trial_seed(self.settings.seed, self.key.trial, len(self.abandoned.faults))

    @property
    def has_ended(self) -> bool:
        """Whether its result is decided."""
        return self._has_ended

    def converse(self, session: AgentSession, further: tuple[FurtherAgent, ...]) -> TrialContext:
        """Begin a conversation.

        :raises ConfigurationError: if the MCP server of ``--a2a-tools mcp`` cannot listen.
        :raises MissingExtraError: if it is not installed.
        """
        session.span = self.span
        if self.settings.noise:
            from pytest_a2a_bench.benchmarks.noise import Noise  # few runs have noise

            # Of the run's seed and not the trial's own, which a repetition changes.
            seed = f"{self.settings.seed}/{self.key.task_key}/{self.key.trial}"
            session.noise = Noise(self.settings.noise, seed, self.settings.noise_events)
        self.context = TrialContext(
            key=self.key,
            settings=self.settings,
            session=session,
            seed=self.seed,
            cancel=self.cancel,
            deadline=self.deadline,
            parties=Parties(further, self.metadata, self.span),
        )
        self.context.native = _open_native(self.settings, session)
        return self.context

    def set_aside(self, outcome: Outcome, session: AgentSession, reason: str) -> None:
        """Keep usage and requests of a conversation that is repeated; its outcome counts if the next one fails."""
        parties = self.parties.records()
        if outcome.error is None:
            self.evaluated = Evaluated(outcome, session, parties, self.seed, self.tape)
        self.abandoned.add(outcome, session, parties)
        self.context, self.tape, self.retry_reason = None, None, reason

    def end_conversation(self) -> None:
        """Close the current conversation's MCP endpoint and the sessions of all agents."""
        if self.context is None:
            return
        if self.native is not None:
            self.native.close(0)
            self.native.tool_queue.close()
            self._forget.append(self.native.tool_queue.forget)
        self.parties.finish()
        self.context.session.finish()

    def give_up(self) -> None:
        """Cut off a trial whose thread does not come back; called from another thread."""
        self.cancel.set()
        if self.native is not None:
            self.native.tool_queue.close()
        self.cancel_sessions()

    def cancel_sessions(self) -> None:
        """Abort the request that is under way, from any thread."""
        if self.context is not None:
            self.context.session.cancel()
            self.context.parties.cancel()

    def forget(self) -> None:
        """Stop hiding the secrets of its MCP endpoints: its result is stored."""
        while self._forget:
            self._forget.pop()()

    def end(self) -> bool:
        """Return whether the caller is the first to end it.

        A thread that comes back after it was given up has waited for something without a limit. Its result is
        dropped: the item has been reported as an error by then, and files must agree with reports.
        """
        with self._lock:
            is_first, self._has_ended = not self._has_ended, True
            return is_first


class TrialObserver:
    """Follows all trials of a process. Subclass it and override what you need; each method does nothing here.

    The methods are called in the threads of the trials, so from several threads at once. An exception in
    ``before_conversation`` or ``on_turn`` ends the trial and decides its status; one in another method is an error of
    the item.
    """

    def before_trial(self, trial: Trial) -> TrialResult | None:
        """Return a result in place of running the trial; None to run it."""
        return None

    def before_conversation(self, trial: Trial) -> None:
        """Prepare a conversation. A trial has another one where the first was repeated (``trial.retry_reason``)."""

    def on_turn(self, trial: Trial, briefing: Briefing, events: Sequence[Event], party: str | None = None) -> None:
        """Note new events.

        :param briefing: policy and tools of the conversation.
        :param events: messages and tool results since the last call.
        :param party: the agent that spoke, where it is not the one under test.
        """

    def after_conversation(self, trial: Trial) -> None:
        """Complete the requests of ``trial.session``: the conversation is over, and its result not yet made."""

    def conclude(self, trial: Trial, result: TrialResult) -> TrialResult:
        """Return the result that is to be stored."""
        return result

    def after_trial(self, trial: Trial, result: TrialResult | None) -> None:
        """Note the end of a trial whose conversation began or would have: called once.

        :param result: as it is stored; None where an exception broke the trial off or its result cannot be stored.
        """


def trial_seed(seed: int, trial: int, again: int = 0) -> int:
    """Return the seed of one trial: the same for all tasks, derived from the run's seed as tau2's own runner does.

    :param again: how often it has been repeated because of its user; each repetition has another seed.
    """
    source = random.Random(seed)
    own = [source.randint(0, 1000000) for _ in range(trial + 1)][-1]
    return random.Random(f"{own}/{again}").randint(0, 1000000) if again else own


def trial_metadata(key: TrialKey) -> dict[str, Any]:
    """Return the message metadata that names the trial to the agent (``--a2a-set tag-trials=on``)."""
    # Agents that play a solution take their values from what they read where that may be wrong, and so in both trials.
    noise = {"noise": True} if key.agent in (PLAIN, NOISY) else {}
    return {"a2a_bench": {"task": key.task_key, "trial": key.trial, **noise}}


# -- tools that the agent calls by itself --


def _open_native(settings: Settings, session: AgentSession) -> NativeTurns | None:
    if settings.tools != "mcp":
        return None
    try:
        from pytest_a2a_bench.benchmarks.conversation import NativeTurns
        from pytest_a2a_bench.tool_door.server import open_tool_queue  # needs the extra "mcp"
    except ImportError as error:
        raise MissingExtraError("the server of --a2a-tools mcp", "mcp", detail=str(error)) from error
    return NativeTurns(open_tool_queue(place_of(settings), Bounds.of(settings.reply_limits)), session)


def refuse_unused(context: TrialContext, outcome: Outcome) -> None:
    """Refuse the outcome of a benchmark that did not offer its tools over MCP where they were asked for.

    :raises ConfigurationError: if it did not use the conversation's ``native``.
    """
    native, suite = context.native, context.key.suite
    if native is not None and not native.tool_queue.is_used and outcome.error is None:
        raise ConfigurationError(
            f"the suite {suite!r} does not offer its tools over MCP: its benchmark has to hand TrialContext.native "
            "to its Conversation; run it without --a2a-tools mcp"
        )


def refuse_unmeasured(outcome: object) -> None:
    """Refuse what is no outcome, or has no usable reward, which no agent could have earned or missed.

    :raises EvaluatorError: if there is neither an error nor a reward from 0 to 1 (NaN is none).
    """
    if not isinstance(outcome, Outcome):
        raise EvaluatorError(f"the benchmark returned {type(outcome).__name__}; run_trial returns an Outcome")
    if outcome.error is not None:
        return
    reward = outcome.reward
    value: object = reward.value if isinstance(reward, Reward) else reward
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not isinstance(reward, Reward) or not is_number or not 0 <= reward.value <= 1 + REWARD_TOLERANCE:
        raise EvaluatorError(f"the benchmark gave the reward {value!r}; Reward(NUMBER from 0 to 1) was expected")


def _native_provenance(native: NativeTurns | None) -> dict[str, Any]:
    if native is None:
        return {}
    return {
        "tools": "mcp",
        "native_calls": native.tool_queue.carried_out,
        "native_calls_refused": native.tool_queue.refused,
    }


# -- the result --


def make_result(trial: Trial, outcome: Outcome, *, run_id: str, data: Mapping[str, Any], mark: str) -> TrialResult:
    """Return the result of a trial.

    :param data: provenance of the benchmark's data where the outcome has none.
    :param mark: its fingerprint.
    """
    error, session, parties, abandoned = outcome.error, trial.session, trial.parties.records(), trial.abandoned
    agent_usage, user_usage = abandoned.agent_usage + outcome.agent_usage, abandoned.user_usage + outcome.user_usage
    metrics = abandoned.metrics + (tuple(session.metrics) if session is not None else ())
    spent = with_abandoned(parties, abandoned.parties)
    retry_error, seed, settings = None, trial.seed, trial.settings
    if error is not None and (last := trial.evaluated) is not None:
        retry_error, error = f"{type(error).__name__}: {describe(error)}", None
        outcome, session, seed = last.outcome, last.session, last.seed
        # Usage is that of all conversations; everything else of a party is of the conversation that counts.
        kept = {p.name: p for p in last.parties}
        spent = tuple(replace(kept.get(p.name, p), metrics=p.metrics, usage=p.usage) for p in spent)
    benchmark = outcome.provenance.get("benchmark")
    other_data = {"other_data": trial.before} if trial.before and benchmark and trial.before != benchmark else {}
    return TrialResult(
        key=trial.key,
        status=classify(error),
        run_id=run_id,
        reward_info=outcome.reward,
        termination_reason=outcome.termination_reason,
        error=describe(error) if error is not None else None,
        error_type=type(error).__name__ if error is not None else None,
        started_at=trial.started_at,
        duration=outcome.duration if outcome.duration is not None else time.monotonic() - trial.began,
        transcript=outcome.transcript,
        metrics=metrics,
        turn_latencies=tuple(session.turn_seconds) if session is not None else (),
        findings=outcome.findings + (tuple(session.findings) if session is not None else ()),
        agent_usage=agent_usage,
        user_usage=user_usage,
        context_id=session.context_id if session is not None else None,
        dialect=outcome.dialect,
        splits=outcome.splits,
        category=outcome.category,
        seed=seed,
        provenance={
            **(outcome.provenance or data),
            **_native_provenance(trial.native),
            **({"noise": session.noise.to_json()} if session is not None and session.noise is not None else {}),
            **({"replayed": True} if settings.replay else {}),
            **({"replaced": trial.damaged} if settings.resume and trial.damaged else {}),
            **other_data,
        },
        simulation=outcome.simulation,
        fingerprint=mark,
        held_again=abandoned.reasons,
        user_fault=outcome.user_fault,
        extra_turn=outcome.extra_turn,
        user_facts=outcome.user_facts,
        user_retries=abandoned.faults,
        retry_error=retry_error,
        parties=spent,
        blame=error.party if isinstance(error, A2ABenchError) else outcome.blame,
    )


def with_abandoned(parties: Iterable[Party], abandoned: Iterable[Party]) -> tuple[Party, ...]:
    """Return the parties of a trial's last conversation with the costs of earlier ones: requests and usage.

    One that took part only in those is there with nothing else.
    """
    found = {party.name: party for party in parties}
    for earlier in abandoned:
        last = found.get(earlier.name) or Party(earlier.name, earlier.role, earlier.agent)
        found[earlier.name] = replace(last, metrics=(*earlier.metrics, *last.metrics), usage=earlier.usage + last.usage)
    return tuple(found.values())


def classify(error: Exception | None) -> TrialStatus:
    """Return the status of a trial that an exception ended."""
    if error is None:
        return "evaluated"
    if isinstance(error, PrerequisiteMissingError):
        return "skipped"
    if isinstance(error, EvaluatorError):
        return "evaluator_error"
    if isinstance(error, InfrastructureError | CardError | ConfigurationError):
        return "infrastructure_error"
    return "harness_error"


def describe(error: Exception) -> str:
    """Return our own errors' message, or the traceback of any other exception, at most ``TRACEBACK_LIMIT`` long."""
    if isinstance(error, A2ABenchError):
        return str(error)
    text = "".join(traceback.format_exception(error)).strip()
    if len(text) <= TRACEBACK_LIMIT:
        return text
    # The first frames and the exception matter most; one message alone may be as long as the agent's reply.
    head, tail = TRACEBACK_LIMIT // 4, TRACEBACK_LIMIT - TRACEBACK_LIMIT // 4
    return f"{text[:head]}\n... {len(text) - TRACEBACK_LIMIT} characters left out ...\n{text[-tail:]}"
