"""Spans of trials, turns and requests, their names and attributes; nothing happens where no tracer is configured.

This module knows no OpenTelemetry: :mod:`pytest_a2a_bench.tracing.otel` does, imported only where spans are wanted.
Parents are passed explicitly, because a trial begins in one thread and its requests are sent from another.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from pytest_a2a_bench.model import ProtocolMetrics, TrialResult, Usage

Value = str | int | float | bool
Kind = Literal["internal", "client", "server"]

CONFIGURING = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
"""Environment variables of OpenTelemetry that say where spans go."""

_NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


class Span:
    """A span that records nothing; those of a tracer are of a subclass."""

    def child(self, name: str, kind: Kind = "internal", attributes: Mapping[str, Value | None] | None = None) -> Span:
        """Begin a span inside this one; attributes that are None are left out."""
        return self

    def set(self, attributes: Mapping[str, Value | None]) -> None:
        """Add attributes, except for those that are None."""

    def event(self, name: str, attributes: Mapping[str, Value | None]) -> None:
        """Note that something happened."""

    def fail(self, error_type: str, description: str = "") -> None:
        """Mark the span as failed."""

    def end(self) -> None:
        """End the span."""

    def headers(self) -> dict[str, str]:
        """Return the headers of the current context: ``traceparent``, and ``tracestate`` if any."""
        return {}


class PassedOn(Span):
    """The caller's span, passed on to the agents that we call, in a process without spans of its own.

    :param context: ``traceparent``, and ``tracestate`` if any.
    """

    def __init__(self, context: Mapping[str, str]) -> None:
        self._context = dict(context)

    def headers(self) -> dict[str, str]:
        """Return the context in a request's headers."""
        return dict(self._context)


class Tracing:
    """Where spans begin. This one makes none."""

    def trial(self, key: str, attributes: Mapping[str, Value | None]) -> Span:
        """Begin a trial's span."""
        return NO_SPAN

    def asked(self, name: str, attributes: Mapping[str, Value | None], context: Mapping[str, str]) -> Span:
        """Begin the span of a caller's request.

        :param context: the W3C trace context of the request, as :func:`context_of` returns it; may be empty.
        """
        return PassedOn(context) if context else NO_SPAN

    def close(self) -> None:
        """Send the spans that were not sent yet."""


class Within(Tracing):
    """Spans that begin inside another one, which its owner ends."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def trial(self, key: str, attributes: Mapping[str, Value | None]) -> Span:
        """Begin a trial's span."""
        return self._span.child(f"trial {key}", "internal", attributes)


NO_SPAN = Span()
NO_TRACING = Tracing()


_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[ -~]{0,200})?")
_TRACESTATE = re.compile(r"[ -~]{1,512}")


def context_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the W3C trace context among a request's headers, by names in lower case; empty where there is none.

    Anything that is no valid context is dropped: it comes from a stranger.
    """
    parent, state = headers.get("traceparent", ""), headers.get("tracestate", "")
    # ff is no version, and 00 has these four members only.
    if not _TRACEPARENT.fullmatch(parent) or parent.startswith("ff") or (parent.startswith("00") and len(parent) > 55):
        return {}
    return {"traceparent": parent} | ({"tracestate": state} if _TRACESTATE.fullmatch(state) else {})


def is_configured(environ: Mapping[str, str]) -> bool:
    """Return whether OpenTelemetry's own variables ask for spans."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return any(environ.get(name) for name in CONFIGURING)


def is_installed() -> bool:
    """Return whether OpenTelemetry's SDK is installed, without importing it."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:
        return False


def is_wanted(otel: str, environ: Mapping[str, str]) -> bool:
    """Return whether to trace: as ``otel`` says, for ``auto`` where OpenTelemetry is configured and installed."""
    if otel == "auto":
        return is_configured(environ) and is_installed()
    return otel == "on"


def without_sdk_spans() -> None:
    """Keep the A2A SDK, before it is imported, from opening spans of its own: those of streams it closes in another
    context, with a traceback each.
    """
    os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")


# --- names and attributes of spans: OpenTelemetry's conventions for generative AI ---


Attributes = dict[str, Value | None]


def turn_name(agent: str | None) -> str:
    """Return the name of a turn's span."""
    return f"invoke_agent {agent}" if agent else "invoke_agent"


def turn_start(agent: str | None, version: str | None, endpoint: str) -> Attributes:
    """Return a turn's attributes at its beginning."""
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "a2a",
        "gen_ai.agent.name": agent or None,
        "gen_ai.agent.version": version or None,
        **_server(endpoint),
    }


def turn_end(context_id: str | None, usage: Usage, state: str | None) -> Attributes:
    """Return a turn's attributes at its end."""
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
    """Return the attributes of a call that is carried out; its text is not among them."""
    return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.type": "function"}


def request_end(metrics: ProtocolMetrics) -> Attributes:
    """Return the attributes of a finished request."""
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
    """Return an assessment's attributes at its beginning."""
    return {
        "a2a.run_id": name,
        "a2a.evaluation": evaluation,
        "a2a.domain": domain or None,
        "a2a.trials": trials or None,
    }


def assessment_end(state: str, score: float | None = None, most: float | None = None) -> Attributes:
    """Return the attributes of a finished assessment."""
    return {"a2a.state": state, "a2a.score": score, "a2a.max_score": most}


def trial_end(result: TrialResult) -> Attributes:
    """Return the attributes of a finished trial."""
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
