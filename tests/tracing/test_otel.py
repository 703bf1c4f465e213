"""What an agent is told of the span that it works for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.trace import SpanContext
from threaded_http import Handler, HttpServer

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.errors import InfrastructureError
from pytest_a2a_bench.model import Part

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from pytest_a2a_bench.tracing.otel import OtelTracing


@pytest.fixture
def spans() -> InMemorySpanExporter:
    # Not while modules are collected, which each process of a run does.
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans: InMemorySpanExporter) -> OtelTracing:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    from pytest_a2a_bench.tracing.otel import OtelTracing

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return OtelTracing(provider, owned=True)


def hold_one_turn(tracing: OtelTracing, config: ClientConfig) -> None:
    span = tracing.trial("a/b/c#0", {})
    with AgentConnection(config) as connection:
        session = connection.session()
        session.span = span
        try:
            session.send([Part.of_text("hello")])
        finally:
            span.end()


def traceparent(context: SpanContext) -> str:
    """As W3C's trace context writes it."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


@contextmanager
def listening_agent(seen: list[str | None], interface: dict[str, str] | None = None) -> Iterator[str]:
    """Yield the URL of an agent with a card that names ``interface``, or itself, and is too busy for every message."""

    class Busy(Handler):
        def do_GET(self) -> None:
            own = {"url": f"{server.url}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            body = json.dumps({"name": "busy", "supportedInterfaces": [interface or own]}).encode()
            self.answer(200, body)

        def do_POST(self) -> None:
            self.body()
            seen.append(self.headers.get("traceparent"))
            self.answer(429)

    with HttpServer(Busy) as server:
        yield f"{server.url}/"


def test_each_try_over_http_names_its_own_span(tracing: OtelTracing, spans: InMemorySpanExporter) -> None:
    seen: list[str | None] = []
    with listening_agent(seen) as url, pytest.raises(InfrastructureError):
        hold_one_turn(tracing, ClientConfig(endpoint=url, timeout=10.0, max_retries=2, backoff_base=0.01))
    requests = [s for s in spans.get_finished_spans() if s.name == "a2a request"]
    assert len(requests) == 3
    assert seen == [traceparent(s.context) for s in requests]
    sent = [dict(s.attributes or {}) for s in requests]
    assert [s.get("http.request.resend_count") for s in sent] == [None, 1, 2]
    assert {s["http.response.status_code"] for s in sent} == {429}
    assert {s["error.type"] for s in sent} == {"TransportError"}
    (turn,) = [s for s in spans.get_finished_spans() if s.name.startswith("invoke_agent")]
    assert turn.status.status_code.name == "ERROR"


def test_grpc_metadata_names_it_too(tracing: OtelTracing, spans: InMemorySpanExporter) -> None:
    grpc = pytest.importorskip("grpc")
    received: list[dict[str, str]] = []

    class Listening(grpc.GenericRpcHandler):  # type: ignore[misc,name-defined]
        def service(self, details: Any) -> Any:
            received.append({name: value for name, value in details.invocation_metadata if isinstance(value, str)})

            def refuse(request: bytes, context: Any) -> bytes:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")
                return b""

            return grpc.unary_unary_rpc_method_handler(refuse)

    server = grpc.server(ThreadPoolExecutor(2), handlers=(Listening(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    interface = {"url": f"http://127.0.0.1:{port}", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    try:
        with listening_agent([], interface) as url, pytest.raises(InfrastructureError):
            hold_one_turn(tracing, ClientConfig(endpoint=url, timeout=10.0, max_retries=0))
    finally:
        server.stop(None)
    (request,) = [s for s in spans.get_finished_spans() if s.name == "a2a request"]
    assert [c["traceparent"] for c in received] == [traceparent(request.context)]
    assert dict(request.attributes or {}).get("rpc.response.status_code") == "3"


def test_nothing_is_reported_where_nothing_is_traced(noop_url: str) -> None:
    with AgentConnection(ClientConfig(endpoint=noop_url)) as connection:
        session = connection.session()
        session.send([Part.of_text("hello")])
        assert session.span.headers() == {}
