"""Requests on the wire, trial by trial, in the form that tau2's A2A integration documents for its metrics file.

For each trial ``task_id``, ``agent_type``, ``protocol_metrics`` and ``summary``. What is not known is left out instead
of being null, an ``error`` is there only where a request failed, and tokens that are no report of the agent's say
``"estimated": true``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_a2a_bench.model import MetricsAggregate, Party, ProtocolMetrics, TrialResult, Usage

AGENT_TYPE = "a2a_agent"

TAU2_SUFFIX = "_metrics.json"
"""How the file ends that ``a2a-bench tau2 run`` writes beside tau2's results."""

_VERBS = ("GET", "POST", "PUT", "DELETE")
_HTTP_STATUSES = range(100, 600)


def of_trial(result: TrialResult) -> dict[str, Any]:
    """Return the record of one trial; beside the documented names it has ``key`` and ``status``."""
    return {
        "task_id": result.key.task_id,
        "agent_type": AGENT_TYPE,
        **({"agent": result.key.agent} if result.key.agent else {}),
        "key": str(result.key),
        "status": result.status,
        "protocol_metrics": [_request(m) for m in result.metrics],
        "summary": _summary(result),
        **({"parties": [_party(party) for party in result.parties]} if result.parties else {}),
    }


def of_conversation(
    agent_type: str,
    metrics: Sequence[ProtocolMetrics],
    usage: Usage,
    task_id: str | None = None,
    trial: int | None = None,
) -> dict[str, Any]:
    """Return the record of one conversation of tau2's own runner.

    :param task_id: None for one that no simulation of the results has, because it was given up.
    """
    return {
        "task_id": task_id,
        "agent_type": agent_type,
        **({"trial": trial} if trial is not None else {}),
        "protocol_metrics": [_request(m) for m in metrics],
        "summary": _sums(MetricsAggregate.of(metrics), usage, Usage()),
    }


def _party(party: Party) -> dict[str, Any]:
    """Return the same of another agent that took part."""
    return {
        "agent": party.name,
        "role": party.role,
        "protocol_metrics": [_request(m) for m in party.metrics],
        "summary": _sums(party.wire, party.usage, Usage()),
    }


def _request(m: ProtocolMetrics) -> dict[str, Any]:
    verb = m.method.partition(" ")[0]
    values = {
        "request_id": m.request_id,
        "endpoint": m.endpoint,
        # JSON-RPC and gRPC post whatever the operation is.
        "method": verb if verb in _VERBS else "POST",
        # gRPC's statuses are not HTTP's.
        "status_code": m.status_code if m.status_code in _HTTP_STATUSES else None,
        "latency_ms": m.latency_ms,
        "input_tokens": m.input_tokens,
        "output_tokens": m.output_tokens,
        "context_id": m.context_id,
        "error": m.error,
        "timestamp": m.timestamp,
        "estimated": m.estimated or None,
    }
    return _known(values)


def _summary(result: TrialResult) -> dict[str, Any]:
    return _sums(result.wire, result.agent_usage, result.estimated_usage)


def _sums(wire: MetricsAggregate, reported: Usage, estimated: Usage) -> dict[str, Any]:
    tokens = estimated.tokens if reported.tokens is None else reported.tokens
    dollars = estimated.cost_usd if reported.cost_usd is None else reported.cost_usd
    return _known(
        {
            "total_requests": wire.requests,
            "total_tokens": tokens,
            "total_latency_ms": round(wire.latency_ms_total, 3),
            "avg_latency_ms": round(wire.latency_ms_total / wire.requests, 3) if wire.requests else None,
            "error_count": wire.errors,
            "estimated_cost_usd": dollars,
            "estimated": True if tokens is not None and reported.tokens is None else None,
        }
    )


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
