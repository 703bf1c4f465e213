"""The vocabulary of the house: plain data, no third-party imports.

Everything that crosses a floor (a key, a message part, a metric, a result) is one of these frozen dataclasses.
Those that are written to disk have ``to_json`` / ``from_json``; the JSON is made of dict, list, str, int, float,
bool and None only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 1
"""Version of the trial result file; raised when a reader of the old form would misread the new one."""

REWARD_TOLERANCE = 1e-6
"""tau2's ``is_successful``: a reward within this distance of 1 is a success."""

_SLUG_LENGTH = 40


def slugify(task_id: str) -> str:
    """Return a short, unique, ``-k``-safe form of a task id.

    Ids of at most 40 characters made of letters, digits, ``_``, ``-`` and ``.`` are returned as they are; any other
    becomes a slug of at most 40 characters plus ``-`` and the first 6 hex digits of the SHA-256 of the full id.
    """
    if 0 < len(task_id) <= _SLUG_LENGTH and re.fullmatch(r"[\w.-]+", task_id, re.ASCII):
        return task_id
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", task_id).strip("-")[:_SLUG_LENGTH].strip("-")
    digest = hashlib.sha256(task_id.encode()).hexdigest()[:6]
    return f"{slug}-{digest}" if slug else digest


_KEY = re.compile(r"(?P<suite>[^/]+)/(?P<domain>[^/]+)/(?P<task>.+)#(?P<trial>\d+)(?:@(?P<label>[\w.-]+))?", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class TrialKey:
    """The stable name of one trial: ``tau2/airline/12#0``, or ``tau2/airline/12#0@label``.

    Baselines, resume, file names and durations use it; pytest's node id is never used for that.
    """

    suite: str
    domain: str
    task_id: str
    trial: int = 0
    label: str | None = None

    def __str__(self) -> str:
        return f"{self.task_key}#{self.trial}" + (f"@{self.label}" if self.label else "")

    @property
    def task_key(self) -> str:
        """The task without the trial: ``tau2/airline/12``."""
        return f"{self.suite}/{self.domain}/{self.task_id}"

    @property
    def short_id(self) -> str:
        """The id inside the brackets of a node id: ``12-t0``."""
        return f"{slugify(self.task_id)}-t{self.trial}"

    @property
    def file_stem(self) -> str:
        """A file name without suffix: readable, unique, and safe whatever the task id contains."""
        readable = slugify(f"{self.suite}-{self.domain}-{slugify(self.task_id)}")
        label = f"-{slugify(self.label)}" if self.label else ""
        digest = hashlib.sha256(str(self).encode()).hexdigest()[:8]
        return f"{readable}{label}-t{self.trial}-{digest}"

    @classmethod
    def parse(cls, text: str) -> TrialKey:
        """Read a key back from its text.

        :raises ValueError: if the text is not ``suite/domain/task#trial[@label]``.
        """
        match = _KEY.fullmatch(text)
        if match is None:
            raise ValueError(f"not a trial key: {text!r}; expected suite/domain/task#trial, such as tau2/airline/12#0")
        return cls(match["suite"], match["domain"], match["task"], int(match["trial"]), match["label"])


@dataclass(frozen=True, slots=True)
class BenchTask:
    """One task of a benchmark, as far as it is known without importing the benchmark.

    :param splits: every split that lists the task, e.g. ``("base", "test")``.
    :param keywords: extra words for pytest's ``-k``.
    """

    suite: str
    domain: str
    task_id: str
    splits: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()

    def key(self, trial: int = 0, label: str | None = None) -> TrialKey:
        """Return the key of one of this task's trials."""
        return TrialKey(self.suite, self.domain, self.task_id, trial, label)


# --- what is said -----------------------------------------------------------------------------------------------------


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
class Briefing:
    """What an agent must know before the first turn."""

    policy: str
    tools: tuple[ToolSpec, ...] = ()


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

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return dataclasses.asdict(self)


# --- what it cost -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money. None means not reported, which is not zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _add(self.input_tokens, other.input_tokens),
            _add(self.output_tokens, other.output_tokens),
            _add(self.cost_usd, other.cost_usd),
        )


def _add(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return a + b


@dataclass(frozen=True, slots=True)
class ProtocolMetrics:
    """One request on the wire.

    :param status_code: HTTP status; for gRPC the numeric status code; None where no answer came.
    :param latency_ms: from the first byte sent to the end of the answer (of the stream, where it streams).
    :param timestamp: ISO 8601 in UTC, when the request was sent.
    :param attempt: 1 for the first try, more for retries of the same request.
    """

    request_id: str
    endpoint: str
    method: str
    status_code: int | None
    latency_ms: float
    timestamp: str
    context_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    error: str | None = None
    attempt: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ProtocolMetrics:
        """Read what :meth:`to_json` wrote; unknown keys are ignored."""
        return cls(**_known(cls, data))


@dataclass(frozen=True, slots=True)
class MetricsAggregate:
    """Sums and percentiles over :class:`ProtocolMetrics`. Latencies are milliseconds; None where unmeasured."""

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
        usage = Usage()
        for m in items:
            usage = usage + Usage(m.input_tokens, m.output_tokens)
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


# --- what came of it --------------------------------------------------------------------------------------------------

Role = Literal["agent", "user", "tool"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a transcript.

    :param role: who spoke; ``tool`` is the environment answering a call.
    :param requestor: for ``tool``, whose call it answers: ``agent`` or ``user``.
    """

    role: Role
    text: str | None = None
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    tool: str | None = None
    error: bool = False
    requestor: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object without empty fields."""
        data = dataclasses.asdict(self)
        data["calls"] = [dataclasses.asdict(c) for c in self.calls]
        return {k: v for k, v in data.items() if v not in (None, [], False)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Turn:
        """Read what :meth:`to_json` wrote; unknown keys are ignored."""
        known = _known(cls, data)
        known["calls"] = tuple(ToolCall(**_known(ToolCall, c)) for c in data.get("calls", ()))
        return cls(**known)


@dataclass(frozen=True, slots=True)
class RewardCheck:
    """One thing that the evaluator looked at.

    :param kind: ``db``, ``env_assertion``, ``action``, ``communicate`` or ``nl_assertion``.
    :param counted: whether it is part of the task's reward basis.
    """

    kind: str
    description: str
    met: bool
    counted: bool = True
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Reward:
    """What upstream's evaluator said about one trial.

    :param value: tau2's reward, 0 to 1.
    :param basis: tau2's ``reward_basis``.
    :param breakdown: reward per basis.
    :param info: upstream's whole ``RewardInfo`` as JSON.
    """

    value: float
    basis: tuple[str, ...] = ()
    breakdown: Mapping[str, float] = field(default_factory=dict)
    checks: tuple[RewardCheck, ...] = ()
    note: str = ""
    db_diff: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def success(self) -> bool:
        """tau2's ``is_successful``."""
        return abs(self.value - 1.0) <= REWARD_TOLERANCE

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reward:
        """Read what ``dataclasses.asdict`` wrote; unknown keys are ignored."""
        known = _known(cls, data)
        known["basis"] = tuple(data.get("basis", ()))
        known["db_diff"] = tuple(data.get("db_diff", ()))
        known["checks"] = tuple(RewardCheck(**_known(RewardCheck, c)) for c in data.get("checks", ()))
        return cls(**known)


TrialStatus = Literal["evaluated", "infrastructure_error", "skipped", "harness_error"]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Everything known about one finished trial; what a test's ``trial`` fixture is and what one file holds.

    :param status: ``evaluated`` has a reward; every other status has ``error`` instead.
    :param termination_reason: tau2's ``TerminationReason`` value.
    :param duration: seconds that the conversation took, without loading the benchmark and evaluating.
    :param agent_usage: what the agent reported about itself over A2A, if it did.
    :param user_usage: what the user simulator (and judge) cost.
    :param provenance: which user simulator, judge, evaluation type, benchmark version and dialect produced it.
    :param run_id: the pytest run (or command) that produced it.
    """

    key: TrialKey
    status: TrialStatus
    run_id: str = ""
    reward_info: Reward | None = None
    termination_reason: str | None = None
    error: str | None = None
    error_type: str | None = None
    started_at: str = ""
    duration: float = 0.0
    transcript: tuple[Turn, ...] = ()
    metrics: tuple[ProtocolMetrics, ...] = ()
    findings: tuple[DialectFinding, ...] = ()
    agent_usage: Usage = field(default_factory=Usage)
    user_usage: Usage = field(default_factory=Usage)
    context_id: str | None = None
    dialect: str | None = None
    seed: int | None = None
    splits: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    simulation: Mapping[str, Any] | None = None
    path: str | None = None

    # -- what tests assert on --

    @property
    def reward(self) -> float:
        """tau2's reward, 0 to 1. 0 where the trial was not evaluated."""
        return self.reward_info.value if self.reward_info else 0.0

    @property
    def success(self) -> bool:
        """Whether the reward is 1, within 1e-6."""
        return self.status == "evaluated" and self.reward_info is not None and self.reward_info.success

    @property
    def turns(self) -> int:
        """How many messages the agent sent (each is one A2A turn)."""
        return sum(t.role == "agent" for t in self.transcript)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The agent's tool calls, in order."""
        return tuple(c for t in self.transcript if t.role == "agent" for c in t.calls)

    @property
    def wire(self) -> MetricsAggregate:
        """The requests of this trial, aggregated."""
        return MetricsAggregate.of(self.metrics)

    @property
    def latency(self) -> float:
        """The median latency of the agent's answers in seconds."""
        return (self.wire.latency_ms_p50 or 0.0) / 1000

    @property
    def tokens(self) -> int | None:
        """Input plus output tokens that the agent reported, or None."""
        return _add(self.agent_usage.input_tokens, self.agent_usage.output_tokens)  # type: ignore[no-any-return]

    @property
    def cost(self) -> float | None:
        """Dollars of agent and user simulator together, or None where neither reported any."""
        return (self.agent_usage + self.user_usage).cost_usd

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
            data[f.name] = _plain(getattr(self, f.name))
        data["transcript"] = [t.to_json() for t in self.transcript]
        if self.status == "evaluated":
            data["reward"] = self.reward
            data["success"] = self.success
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any], path: str | None = None) -> TrialResult:
        """Read a trial file's content.

        :raises ValueError: if it is not a trial file, or one of a newer schema.
        """
        version = data.get("schema_version")
        if version != SCHEMA_VERSION:
            raise ValueError(f"schema_version is {version!r}; this version reads {SCHEMA_VERSION}")
        known = _known(cls, data)
        known["key"] = TrialKey.parse(data["key"])
        known["reward_info"] = Reward.from_json(data["reward_info"]) if data.get("reward_info") else None
        known["transcript"] = tuple(Turn.from_json(t) for t in data.get("transcript", ()))
        known["metrics"] = tuple(ProtocolMetrics.from_json(m) for m in data.get("metrics", ()))
        known["findings"] = tuple(DialectFinding(**_known(DialectFinding, f)) for f in data.get("findings", ()))
        known["agent_usage"] = Usage(**_known(Usage, data.get("agent_usage") or {}))
        known["user_usage"] = Usage(**_known(Usage, data.get("user_usage") or {}))
        known["splits"] = tuple(data.get("splits", ()))
        known["path"] = path
        return cls(**known)


def _known(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in dataclasses.fields(cls)}
    return {k: v for k, v in data.items() if k in names}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value
