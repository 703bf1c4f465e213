"""What is known of the agents of a run, for files and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_a2a_bench.config.settings import without_query
from pytest_a2a_bench.model import Cost, TrialResult, Usage, percentile, sum_usage
from pytest_a2a_bench.plugin.run.state import BenchRun, Endpoint


def agent_of(run: BenchRun) -> dict[str, str]:
    """Return what is known of the agent, for files: ``endpoint``, ``name`` and ``interface``; of several, all."""
    found = {"endpoint": run.plan.shown_endpoint}
    if run.plan.agents:
        each = run.plan.agents.items()
        return {
            **found,
            "name": "; ".join(f"{name}: {agent.agent}" for name, agent in each),
            "interface": "; ".join(dict.fromkeys(agent.interface for _, agent in each)),
        }
    return {**found, **_of_card(run.plan.endpoint)}


def agents_of(run: BenchRun, results: Sequence[TrialResult]) -> list[dict[str, Any]]:
    """Return the members of :class:`.ComparedAgent` for each agent that has a name."""
    return [
        {
            "id": name,
            "endpoint": without_query(url, url),
            **_of_card(run.plan.found(name)),
            **(_taken_over(name, results) if name == run.settings.transfer else _under_test(name, results)),
        }
        for name, url in run.settings.agents.items()
    ]


def _of_card(found: Endpoint | None) -> dict[str, str]:
    return {"name": found.agent, "interface": found.interface} if found is not None else {}


def _under_test(name: str, results: Sequence[TrialResult]) -> dict[str, Any]:
    own = [r for r in results if r.key.agent == name]
    return {
        "role": "under test",
        "trials": len(own),
        "succeeded": sum(r.success for r in own),
        "errors": sum(r.status not in ("evaluated", "skipped") for r in own),
        "turns": sum(r.turns for r in own),
        "requests": sum(r.wire.requests for r in own),
        "request_errors": sum(r.wire.errors for r in own),
        **_spent([s for r in own for s in r.turn_latencies], sum_usage(r.agent_usage for r in own)),
        "cost_usd": sum((r.spent for r in own), Cost()).agent,
    }


def _taken_over(name: str, results: Sequence[TrialResult]) -> dict[str, Any]:
    held = [(r, p) for r in results for p in r.parties if p.name == name]
    return {
        "role": "transfer",
        "trials": len(held),
        "succeeded": sum(r.success for r, _ in held),
        "errors": sum(r.status not in ("evaluated", "skipped") and r.blame == name for r, _ in held),
        "turns": sum(p.turns for _, p in held),
        "requests": sum(p.wire.requests for _, p in held),
        "request_errors": sum(p.wire.errors for _, p in held),
        **_spent([s for _, p in held for s in p.turn_latencies], sum_usage(p.usage for _, p in held)),
    }


def _spent(latencies: list[float], usage: Usage) -> Mapping[str, Any]:
    ordered = sorted(latencies)
    return {
        "latency_p50": percentile(ordered, 50),
        "latency_p95": percentile(ordered, 95),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd,
    }
