"""The result of a trial: its transcript and reward, the requests that it took, and the further agents in it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pytest_a2a_bench.model.messages import (
    Cost,
    Count,
    DialectFinding,
    Finite,
    Seconds,
    ToolCall,
    TrialKey,
    Usage,
    add_known,
    sum_usage,
    to_plain,
)

SCHEMA_VERSION = 1
"""Version of the trial result file; raised when a reader of the old form would misread the new one."""

REWARD_TOLERANCE = 1e-6
"""tau2's ``is_successful``: a reward within this distance of 1 is a success."""

Role = Literal["agent", "user", "tool"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a transcript.

    :param role: who spoke; ``tool`` is the environment answering a call.
    :param requestor: for ``tool``, whose call it answers: ``agent`` or ``user``.
    :param party: the name of the agent that spoke, where it was not the one under test (``TrialResult.parties``).
    """

    role: Role
    text: str | None = None
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    tool: str | None = None
    error: bool = False
    requestor: str | None = None
    party: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object without empty fields."""
        data = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        data["calls"] = [to_plain(c) for c in self.calls]
        return {k: v for k, v in data.items() if v not in (None, [], False)}


def is_status(code: int) -> bool:
    """Return whether a code is a status of HTTP (RFC 9110 §15) or gRPC."""
    return 100 <= code <= 599 or 0 <= code <= 16


@dataclass(frozen=True, slots=True)
class ProtocolMetrics:
    """One request on the wire.

    :param status_code: HTTP status (100 to 599); for gRPC its own (0 to 16); None where no answer came.
    :param latency_ms: from the first byte sent to the end of the answer (of the stream, where it streams).
    :param timestamp: ISO 8601 in UTC, when the request was sent.
    :param attempt: 1 for the first try, more for retries of the same request.
    :param estimated: whether the tokens are a tokenizer's count of the messages, where the agent reported none.
    """

    request_id: str
    endpoint: str
    method: str
    status_code: int | None
    latency_ms: Seconds
    timestamp: str
    context_id: str | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    error: str | None = None
    attempt: Count = 1
    estimated: bool = False

    def __post_init__(self) -> None:
        if not self.latency_ms >= 0:
            raise ValueError(f"latency_ms is {self.latency_ms}; expected 0 or more")
        if self.status_code is not None and not is_status(self.status_code):
            raise ValueError(f"status_code is {self.status_code}; expected 100 to 599, or 0 to 16 for gRPC")
        for name in ("input_tokens", "output_tokens"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 0 or more")

    @property
    def usage(self) -> Usage:
        """The tokens of this request, reported or estimated."""
        return Usage(self.input_tokens, self.output_tokens)


@dataclass(frozen=True, slots=True)
class MetricsAggregate:
    """Sums and percentiles over :class:`ProtocolMetrics`. Latencies are milliseconds; None where unmeasured.

    Tokens are those that agents reported; estimated ones are left out.
    """

    requests: int = 0
    errors: int = 0
    retries: int = 0
    latency_ms_total: float = 0.0
    latency_ms_p50: float | None = None
    latency_ms_p95: float | None = None
    latency_ms_max: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    @classmethod
    def of(cls, metrics: Iterable[ProtocolMetrics]) -> MetricsAggregate:
        """Aggregate some requests."""
        items = list(metrics)
        latencies = sorted(m.latency_ms for m in items)
        usage = sum_usage(m.usage for m in items if not m.estimated)
        return cls(
            requests=len(items),
            errors=sum(m.error is not None for m in items),
            retries=sum(m.attempt > 1 for m in items),
            latency_ms_total=sum(latencies),
            latency_ms_p50=percentile(latencies, 50),
            latency_ms_p95=percentile(latencies, 95),
            latency_ms_max=latencies[-1] if latencies else None,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
        )


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Return a percentile of sorted numbers by linear interpolation, or None if there are none."""
    if not ordered:
        return None
    position = (len(ordered) - 1) * percent / 100
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


PartyRole = Literal["transfer", "user", "colleague"]
"""The role of another agent: it takes a conversation over, plays the user, or answers the agent under test."""


@dataclass(frozen=True, slots=True)
class Party:
    """The part in a trial of an agent beside the one under test, whose own numbers are the trial's.

    :param name: its name in options; ``Turn.party`` is the same.
    :param role: ``transfer``, ``user`` or ``colleague``.
    :param agent: name, version and interface from its card.
    :param turns: how often it answered.
    :param turn_latencies: seconds of each of these answers; ``metrics``, ``findings``, ``usage``, ``context_id`` and
        ``dialect`` are its own likewise, and are not in the trial's.
    """

    name: str
    role: PartyRole
    agent: str = ""
    turns: Count = 0
    turn_latencies: tuple[Seconds, ...] = ()
    metrics: tuple[ProtocolMetrics, ...] = ()
    findings: tuple[DialectFinding, ...] = ()
    usage: Usage = field(default_factory=Usage)
    context_id: str | None = None
    dialect: str | None = None

    @property
    def wire(self) -> MetricsAggregate:
        """Its requests, aggregated."""
        return MetricsAggregate.of(self.metrics)


@dataclass(frozen=True, slots=True)
class RewardCheck:
    """One thing that the evaluator looked at.

    :param kind: ``db``, ``env_assertion``, ``action``, ``communicate`` or ``nl_assertion``; for CRMArena the metric.
    :param counted: whether it is part of the task's reward basis.
    """

    kind: str
    description: str
    met: bool
    counted: bool = True
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Reward:
    """The result of upstream's evaluator for one trial.

    :param value: tau2's reward, 0 to 1.
    :param basis: tau2's ``reward_basis``.
    :param breakdown: reward per basis.
    :param info: upstream's whole ``RewardInfo`` as JSON; for CRMArena how the answer was scored, never the gold.
    :param threshold: the value from which it counts as a success, where partial rewards do (an F1); None where only 1
        does.
    """

    value: Finite
    basis: tuple[str, ...] = ()
    breakdown: Mapping[str, Finite] = field(default_factory=dict)
    checks: tuple[RewardCheck, ...] = ()
    note: str = ""
    db_diff: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    threshold: Finite | None = None

    @property
    def success(self) -> bool:
        """tau2's ``is_successful``, or whether the threshold is reached where there is one."""
        if self.threshold is not None:
            return self.value >= self.threshold - REWARD_TOLERANCE
        return abs(self.value - 1.0) <= REWARD_TOLERANCE

    @property
    def metrics(self) -> Mapping[str, float]:
        """Further numbers of the benchmark's own by name, from 0 to 1 each (``leak``, ``bleu``); ``info`` has them."""
        found = self.info.get("metrics")
        numbers = found.items() if isinstance(found, Mapping) else ()
        return {str(name): float(value) for name, value in numbers if isinstance(value, int | float)}


USER_FAULTS: Mapping[str, str] = {
    "ended_before_the_write": "it ended the conversation before the agent could finish",
    "never_stopped": "it went on when all was done",
    "invalid_message": "it sent a message that tau2 refuses",
    "not_understood": "the script did not understand what the agent wanted of it",
    "unknown_id": "it named what nobody gave it",
    "no_call": "it answered an instruction for its device in words and called no tool",
    "spoke_as_agent": "it spoke as the agent",
    "calls_as_text": "it wrote a tool call as text",
    "misspelt_stop": "it misspelt the token that ends the conversation",
    "empty": "its model returned nothing and was asked again",
    "refusal": "its model refused to answer",
    "cut_off": "its model's message was cut off at the limit of tokens",
    "asked_again": "the guard asked its model for another message",
    "stop_held_back": "the guard held its stop back one turn",
}
"""The faults of simulated users, in the words of reports."""


@dataclass(frozen=True, slots=True)
class UserFault:
    """Why it was the simulated user, and not the agent, that kept a conversation from a good end.

    :param kind: one of :data:`USER_FAULTS`; benchmarks may have others.
    :param detail: the evidence.
    :param turn: index of the user's turn in the transcript.
    """

    kind: str
    detail: str = ""
    turn: Count | None = None

    @property
    def words(self) -> str:
        """The user's fault as a clause."""
        return USER_FAULTS.get(self.kind, self.kind)

    @property
    def is_proven(self) -> bool:
        """Whether the trial would have succeeded with another user; a script may also have met nonsense."""
        return self.kind != "not_understood"


@dataclass(frozen=True, slots=True)
class ExtraTurn:
    """The agent's answer to the user's last words without the token that ended the conversation (``extra-turn``).

    It is outside of the trial: neither reward nor transcript, usage, cost or requests of the trial contain it.

    :param reward: the reward of the conversation with it; None if that is not known.
    :param note: why it is not known, or proves nothing about the agent.
    :param transcript: the turns after the user's words.
    :param requests: requests to the agent.
    :param agent_usage: the agent's reported usage in it; ``judge_usage`` the judge's.
    """

    reward: Finite | None = None
    note: str = ""
    transcript: tuple[Turn, ...] = ()
    requests: Count = 0
    agent_usage: Usage = field(default_factory=Usage)
    judge_usage: Usage = field(default_factory=Usage)

    @property
    def verdict(self) -> str:
        """``proven``, ``not reached`` or ``not provable``."""
        if self.reward is not None and abs(self.reward - 1.0) <= REWARD_TOLERANCE:
            return "proven"
        return "not provable" if self.note else "not reached"


FURTHER = ("parties", "blame", "extra_turn", "user_facts")
"""Members that a trial's file has only where other agents took part, or the user ended it too early."""

TrialStatus = Literal["evaluated", "infrastructure_error", "skipped", "evaluator_error", "harness_error", "not_run"]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TrialResult:
    """The result of one finished trial: the value of the ``trial`` fixture, and the content of one file.

    :param status: ``evaluated`` has a reward; every other status has ``error`` instead.
    :param termination_reason: tau2's ``TerminationReason`` value.
    :param duration: seconds that the conversation took, without loading the benchmark and evaluating.
    :param turn_latencies: seconds of each turn, from sending to the settled answer, with its retries and polls.
    :param agent_usage: the agent's own usage as it reported it over A2A, if it did.
    :param estimated_usage: an estimate of the usage that it did not report (``agent-model``):
        tokens of the messages, dollars by a price list.
    :param user_usage: usage of the user simulator (and judge).
    :param category: the task's category, if its benchmark has categories.
    :param provenance: which user simulator, judge, evaluation type, benchmark version and dialect produced it.
    :param run_id: the pytest run (or command) that produced it, or took it from an earlier one.
    :param fingerprint: a hash of its conditions; equal ones answer the same question (``results.manifest``).
    :param held_again: why earlier conversations of this trial were given up, one reason for each: nobody could tell
        whether the agent had got a message. Their requests are in ``metrics``, and what they cost is in
        ``agent_usage`` and ``user_usage``; all else is of the last conversation.
    :param user_fault: the simulated user's fault in it; it never changes the reward.
    :param extra_turn: the outcome of one more turn of the agent, where the user ended a trial that missed.
    :param user_facts: further oddities of a model or agent as the user; they prove nothing by themselves.
    :param user_retries: the user's faults in conversations of this trial that were repeated because of them
        (``user-retry``); their requests and costs are kept like those of ``held_again``.
    :param retry_error: what the last of these came to where it could not be evaluated; all else but its requests and
        costs is then of the conversation before it, whose fault is the last of ``user_retries``.
    :param reused_from: the run of the conversation, where another run reused its result.
    :param parties: the parts of other agents in it; the trial's own numbers are those of the agent under test alone.
    :param blame: the name of the party whose doing or trouble a miss or an error was; None for the agent under test,
        for nobody, and where there was no other.
    """

    key: TrialKey
    status: TrialStatus
    run_id: str = ""
    reward_info: Reward | None = None
    termination_reason: str | None = None
    error: str | None = None
    error_type: str | None = None
    started_at: str = ""
    duration: Seconds = 0.0
    transcript: tuple[Turn, ...] = ()
    metrics: tuple[ProtocolMetrics, ...] = ()
    turn_latencies: tuple[Seconds, ...] = ()
    findings: tuple[DialectFinding, ...] = ()
    agent_usage: Usage = field(default_factory=Usage)
    estimated_usage: Usage = field(default_factory=Usage)
    user_usage: Usage = field(default_factory=Usage)
    context_id: str | None = None
    dialect: str | None = None
    seed: int | None = None
    splits: tuple[str, ...] = ()
    category: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    simulation: Mapping[str, Any] | None = None
    fingerprint: str = ""
    held_again: tuple[str, ...] = ()
    user_fault: UserFault | None = None
    extra_turn: ExtraTurn | None = None
    user_facts: tuple[UserFault, ...] = ()
    user_retries: tuple[UserFault, ...] = ()
    retry_error: str | None = None
    reused_from: str | None = None
    parties: tuple[Party, ...] = ()
    blame: str | None = None
    path: str | None = None

    # -- what tests assert on --

    @property
    def reward(self) -> float:
        """tau2's reward, 0 to 1. 0 where the trial was not evaluated."""
        return self.reward_info.value if self.reward_info else 0.0

    @property
    def success(self) -> bool:
        """Whether the reward is 1, within 1e-6; with a threshold (an F1 reward), whether it is reached."""
        return self.status == "evaluated" and self.reward_info is not None and self.reward_info.success

    @property
    def turns(self) -> int:
        """How many messages the agent under test sent (each is one A2A turn)."""
        return sum(t.role == "agent" and t.party is None for t in self.transcript)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the agent under test, in order."""
        return tuple(c for t in self.transcript if t.role == "agent" and t.party is None for c in t.calls)

    def called(self, name: str, **arguments: Any) -> tuple[ToolCall, ...]:
        """Return the agent's calls of a tool, in order.

        :param arguments: what they have to be called with, among other arguments; compared by ``==``.
        """
        wanted = arguments.items()
        return tuple(
            c
            for c in self.tool_calls
            if c.name == name and all(k in c.arguments and c.arguments[k] == v for k, v in wanted)
        )

    def before(self, first: str, then: str) -> bool:
        """Return whether both tools were called, and the first one at least once before the second was at all."""
        names = [c.name for c in self.tool_calls]
        return first in names and then in names and names.index(first) < names.index(then)

    def said(self, pattern: str, role: Role = "agent") -> tuple[str, ...]:
        """Return the messages in which a regular expression is found (``re.search``, whatever the case).

        :param role: whose messages: by default those of the agent under test.
        :raises re.error: if the pattern is none.
        :raises ValueError: if nobody has that role.
        """
        if role not in get_args(Role):
            raise ValueError(f"role is {role!r}; valid are: {', '.join(get_args(Role))}")
        wanted = re.compile(pattern, re.IGNORECASE)
        texts = (t.text for t in self.transcript if t.role == role and t.party is None)
        return tuple(text for text in texts if text and wanted.search(text))

    @property
    def wire(self) -> MetricsAggregate:
        """The requests of this trial, aggregated."""
        return MetricsAggregate.of(self.metrics)

    @property
    def latency(self) -> float:
        """The median seconds that the agent took for an answer, with retries and polls; 0 where it gave none."""
        return percentile(sorted(self.turn_latencies), 50) or 0.0

    @property
    def tokens(self) -> int | None:
        """Input plus output tokens that the agent reported, or None."""
        return self.agent_usage.tokens

    @property
    def user(self) -> str:
        """Who played the user: the name of a model or of an agent, else a word such as ``scripted``; maybe empty."""
        provenance = self.provenance
        return str(provenance.get("user_llm") or provenance.get("user_agent") or provenance.get("user") or "")

    @property
    def spent(self) -> Cost:
        """Dollars of the agent, reported or estimated, of the user simulator and judge, and of further agents."""
        estimated = self.estimated_usage.cost_usd
        return Cost(
            add_known(self.agent_usage.cost_usd, estimated),
            self.user_usage.cost_usd,
            sum_usage(p.usage for p in self.parties).cost_usd,
            estimated is not None,
        )

    @property
    def cost(self) -> float | None:
        """Dollars of all together, or None where none are known."""
        return self.spent.total

    def __repr__(self) -> str:
        what = f"reward={self.reward:g}" if self.status == "evaluated" else self.status
        return f"<trial {self.key} {what} turns={self.turns}>"

    # -- storage --

    def to_json(self) -> dict[str, Any]:
        """Return the trial file's content."""
        data: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "key": str(self.key)}
        data["task"] = {"suite": self.key.suite, "domain": self.key.domain, "id": self.key.task_id}
        data["trial"] = self.key.trial
        for f in dataclasses.fields(self):
            if f.name in ("key", "path"):
                continue
            found = getattr(self, f.name)
            data[f.name] = [t.to_json() for t in found] if f.name == "transcript" else to_plain(found)
        for name in FURTHER:
            if not data[name]:
                del data[name]
        if self.status == "evaluated":
            data["reward"] = self.reward
            data["success"] = self.success
        return data
