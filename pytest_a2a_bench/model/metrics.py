"""What a conversation cost (tokens, money, requests, seconds), and the further agents that took part in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pytest_a2a_bench.model.keys import Count, Finite, Seconds
from pytest_a2a_bench.model.messages import DialectFinding


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money. None means not reported, which is not zero."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cost_usd: Finite | None = None

    @property
    def tokens(self) -> int | None:
        """Input plus output, as far as they are known; None where neither is."""
        return add_known(self.input_tokens, self.output_tokens)  # type: ignore[no-any-return]

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            add_known(self.input_tokens, other.input_tokens),
            add_known(self.output_tokens, other.output_tokens),
            add_known(self.cost_usd, other.cost_usd),
        )


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """Add up what is known."""
    total = Usage()
    for usage in usages:
        total = total + usage
    return total


@dataclass(frozen=True, slots=True)
class Cost:
    """Dollars of one or several trials, by who spent them. None means not known, which is not zero.

    :param agent: what the agents under test reported, or what is estimated where they reported none.
    :param user: of the simulated user and the judge; ``others`` of further agents.
    :param estimated: whether some of the agent's is an estimate; it is then shown after a tilde.
    """

    agent: float | None = None
    user: float | None = None
    others: float | None = None
    estimated: bool = False

    @property
    def total(self) -> float | None:
        """All together, as far as it is known."""
        return add_known(add_known(self.agent, self.user), self.others)  # type: ignore[no-any-return]

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            add_known(self.agent, other.agent),
            add_known(self.user, other.user),
            add_known(self.others, other.others),
            self.estimated or other.estimated,
        )

    def __str__(self) -> str:
        return dollars(self.total, estimated=self.estimated)

    @property
    def parts(self) -> str:
        """Who spent it, where that is not the agent alone: ``agent ~$59.39, user $6.20``."""
        beside = [f"{who} {dollars(one)}" for who, one in (("user", self.user), ("others", self.others)) if one]
        if not beside:
            return ""
        agent = "not known" if self.agent is None else dollars(self.agent, estimated=self.estimated)
        return ", ".join([f"agent {agent}", *beside])

    @property
    def words(self) -> str:
        """The total and who spent it: ``~$65.59 (agent ~$59.39, user $6.20)``."""
        return f"{self} ({self.parts})" if self.parts else str(self)


def dollars(value: float | None, *, estimated: bool = False) -> str:
    """Return dollars, with as many digits as it takes to see anything."""
    if value is None:
        return "-"
    digits = f"{value:.2f}" if value >= 1 or value == 0 else f"{value:#.2g}" if value >= 0.0001 else f"{value:.1e}"
    return f"{'~' * estimated}${digits}"


def add_known(a: Any, b: Any) -> Any:
    """Add what is known: None is not zero, and nothing known stays None."""
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
"""What another agent is there for: it takes a conversation over, plays the user, or is asked by the one under test."""


@dataclass(frozen=True, slots=True)
class Party:
    """What an agent did in a trial beside the one under test, whose own numbers are the trial's.

    :param name: what options call it; ``Turn.party`` is the same.
    :param role: what it was there for: ``transfer``, ``user`` or ``colleague``.
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


def with_abandoned(parties: Iterable[Party], abandoned: Iterable[Party]) -> tuple[Party, ...]:
    """Return the parties of a trial's last conversation with what those before it cost: requests and usage.

    One that took part only in those is there with nothing else.
    """
    found = {party.name: party for party in parties}
    for earlier in abandoned:
        last = found.get(earlier.name) or Party(earlier.name, earlier.role, earlier.agent)
        found[earlier.name] = replace(last, metrics=(*earlier.metrics, *last.metrics), usage=earlier.usage + last.usage)
    return tuple(found.values())
