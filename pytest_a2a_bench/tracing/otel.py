"""Spans for OpenTelemetry, named by its conventions for generative AI. Nothing that was said is in them.

:raises MissingExtraError: when imported, if OpenTelemetry's SDK and OTLP exporter are not installed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pytest_a2a_bench.errors import MissingExtraError
from pytest_a2a_bench.redact import KNOWN
from pytest_a2a_bench.tracing import Kind, Span, Tracing, Value

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as exc:
    raise MissingExtraError("OpenTelemetry", "otel", str(exc)) from exc

SCOPE = "pytest_a2a_bench"
_FLUSH_MILLISECONDS = 5_000
_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT, "server": SpanKind.SERVER}


class TracedSpan(Span):
    """A span of OpenTelemetry's."""

    def __init__(self, tracer: Tracer, span: trace.Span) -> None:
        self._tracer = tracer
        self._span = span

    def child(self, name: str, kind: Kind = "internal", attributes: Mapping[str, Value | None] | None = None) -> Span:
        """Begin a span inside this one."""
        return _start(self._tracer, name, kind, attributes or {}, set_span_in_context(self._span))

    def set(self, attributes: Mapping[str, Value | None]) -> None:
        """Add attributes."""
        self._span.set_attributes(_known(attributes))

    def event(self, name: str, attributes: Mapping[str, Value | None]) -> None:
        """Add an event."""
        self._span.add_event(name, _known(attributes))

    def fail(self, error_type: str, description: str = "") -> None:
        """Mark the span as failed."""
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(Status(StatusCode.ERROR, KNOWN.hide(description) or None))

    def end(self) -> None:
        """End the span."""
        self._span.end()

    def headers(self) -> dict[str, str]:
        """Return W3C trace context."""
        carrier: dict[str, str] = {}
        # Not the configured propagators: baggage may hold what an agent under test should not see.
        TraceContextTextMapPropagator().inject(carrier, set_span_in_context(self._span))
        return carrier


class OtelTracing(Tracing):
    """Spans through a provider.

    :param owned: whether the provider is ours to shut down.
    :param parent: what trials are part of, e.g. a CI job's span.
    """

    def __init__(self, provider: TracerProvider, *, owned: bool, parent: Context | None = None) -> None:
        self._provider = provider
        self._owned = owned
        self._parent = parent
        self._tracer = provider.get_tracer(SCOPE)

    def trial(self, key: str, attributes: Mapping[str, Value | None]) -> Span:
        """Begin a trial's span."""
        return _start(self._tracer, f"trial {key}", "internal", attributes, self._parent)

    def asked(self, name: str, attributes: Mapping[str, Value | None], context: Mapping[str, str]) -> Span:
        """Begin the span of a caller's request, inside the caller's span."""
        return _start(self._tracer, name, "server", attributes, _extract(context) if context else self._parent)

    def close(self) -> None:
        """Send the spans that were not sent yet."""
        self._provider.force_flush(_FLUSH_MILLISECONDS)
        if self._owned:
            self._provider.shutdown()


def open_tracing(environ: Mapping[str, str] | None = None) -> OtelTracing:
    """Return tracing through the provider that this process has, or else one as OpenTelemetry's variables say."""
    environ = os.environ if environ is None else environ
    parent = _parent(environ)
    there = trace.get_tracer_provider()
    if isinstance(there, TracerProvider):
        return OtelTracing(there, owned=False, parent=parent)
    named = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": "pytest-a2a-bench"}
    # Not installed as the process's provider: a benchmark that instruments the tests around it would be a surprise.
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelTracing(provider, owned=True, parent=parent)


def _parent(environ: Mapping[str, str]) -> Context | None:
    """Return the span that this process was started in, as CI systems hand it down."""
    if not environ.get("TRACEPARENT"):
        return None
    return _extract({name.lower(): environ[name] for name in ("TRACEPARENT", "TRACESTATE") if environ.get(name)})


def _extract(carrier: Mapping[str, str]) -> Context:
    """Return W3C trace context as OpenTelemetry has it."""
    return TraceContextTextMapPropagator().extract(carrier)


def _start(
    tracer: Tracer, name: str, kind: Kind, attributes: Mapping[str, Value | None], context: Context | None
) -> TracedSpan:
    return TracedSpan(tracer, tracer.start_span(KNOWN.hide(name), context, _KINDS[kind], _known(attributes)))


def _known(attributes: Mapping[str, Value | None]) -> dict[str, Value]:
    known = {name: value for name, value in attributes.items() if value is not None}
    return {name: KNOWN.hide(value) if isinstance(value, str) else value for name, value in known.items()}
