"""What agents did in a trial beside the one under test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from pytest_a2a_bench.model.fields import Count, Seconds
from pytest_a2a_bench.model.messages import DialectFinding
from pytest_a2a_bench.model.metrics import MetricsAggregate, ProtocolMetrics, Usage

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
