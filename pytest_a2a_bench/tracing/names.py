"""What spans are called and what they say, by OpenTelemetry's conventions for generative AI, HTTP and RPC (pure)."""

from __future__ import annotations

import functools
from urllib.parse import urlsplit

from pytest_a2a_bench.model import ProtocolMetrics, TrialResult, Usage
from pytest_a2a_bench.tracing import Value

Attributes = dict[str, Value | None]


def turn_name(agent: str | None) -> str:
    """Return the name of a turn's span."""
    return f"invoke_agent {agent}" if agent else "invoke_agent"


def turn_start(agent: str | None, version: str | None, endpoint: str) -> Attributes:
    """Return what is known when a turn begins."""
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "a2a",
        "gen_ai.agent.name": agent or None,
        "gen_ai.agent.version": version or None,
        **_server(endpoint),
    }


def turn_end(context_id: str | None, usage: Usage, state: str | None) -> Attributes:
    """Return what is known when a turn is over."""
    return {
        "gen_ai.conversation.id": context_id,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "a2a.task.state": state,
    }


def tool_name(name: str) -> str:
    """Return the name of the span of a call that an agent makes by itself."""
    return f"execute_tool {name}"


def tool_start(name: str) -> Attributes:
    """Return what is known when such a call is carried out; what it says is not told."""
    return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.type": "function"}


def request_end(metrics: ProtocolMetrics) -> Attributes:
    """Return what is known of a request that is over."""
    is_http = metrics.status_code is None or metrics.status_code >= 100  # gRPC's codes are below
    return {
        "rpc.method": metrics.method or None,
        "http.response.status_code": metrics.status_code if is_http else None,
        "rpc.response.status_code": None if is_http else str(metrics.status_code),
        "http.request.resend_count": metrics.attempt - 1 if metrics.attempt > 1 else None,
        "a2a.request_id": metrics.request_id,
        **_server(metrics.endpoint),
    }


def assessment_start(name: str, evaluation: str, domain: str, trials: int) -> Attributes:
    """Return what is known when an assessment begins."""
    return {
        "a2a.run_id": name,
        "a2a.evaluation": evaluation,
        "a2a.domain": domain or None,
        "a2a.trials": trials or None,
    }


def assessment_end(state: str, score: float | None = None, most: float | None = None) -> Attributes:
    """Return what came of an assessment."""
    return {"a2a.state": state, "a2a.score": score, "a2a.max_score": most}


def trial_end(result: TrialResult) -> Attributes:
    """Return what came of a trial."""
    judged = result.status == "evaluated"
    return {
        "a2a.status": result.status,
        "a2a.reward": result.reward if judged else None,
        "a2a.success": result.success if judged else None,
        "a2a.termination_reason": result.termination_reason,
        "a2a.turns": result.turns,
        "a2a.dialect": result.dialect,
        "a2a.held_again": len(result.held_again) or None,
        "a2a.user_fault": result.user_fault.kind if result.user_fault else None,
        "a2a.user_retries": len(result.user_retries) or None,
        "a2a.cost_usd": result.cost,
        "gen_ai.conversation.id": result.context_id,
        "gen_ai.usage.input_tokens": result.agent_usage.input_tokens,
        "gen_ai.usage.output_tokens": result.agent_usage.output_tokens,
    }


def evaluation(result: TrialResult) -> Attributes:
    """Return the attributes of the event ``gen_ai.evaluation.result``."""
    return {
        "gen_ai.evaluation.name": f"{result.key.suite} reward",
        "gen_ai.evaluation.score.value": result.reward,
        "gen_ai.evaluation.score.label": "pass" if result.success else "fail",
    }


@functools.lru_cache(maxsize=64)
def _server(url: str) -> Attributes:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    return {"server.address": parts.hostname or None, "server.port": port}
