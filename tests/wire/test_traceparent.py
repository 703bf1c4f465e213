"""What an agent is told of the span that it works for."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pytest_a2a_bench.a2a import AgentConnection, ClientConfig
from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.errors import InfrastructureError
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.tracing.otel import OtelTracing


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans: InMemorySpanExporter) -> OtelTracing:
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


def test_each_try_over_http_names_its_own_span(tracing: OtelTracing, spans: InMemorySpanExporter) -> None:
    seen: list[str | None] = []

    class Busy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            seen.append(self.headers.get("traceparent"))
            self.send_response(503)
            self.send_header("content-length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        config = ClientConfig(
            endpoint=f"http://127.0.0.1:{server.server_address[1]}/",
            timeout=10.0,
            max_retries=2,
            backoff_base=0.01,
            protocol="1.0",
            transport="jsonrpc",
        )
        with pytest.raises(InfrastructureError):
            hold_one_turn(tracing, config)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    requests = [s for s in spans.get_finished_spans() if s.name == "a2a request"]
    assert len(requests) == 3
    assert seen == [f"00-{s.context.trace_id:032x}-{s.context.span_id:016x}-01" for s in requests]
    sent = [dict(s.attributes or {}) for s in requests]
    assert [s.get("http.request.resend_count") for s in sent] == [None, 1, 2]
    assert {s["http.response.status_code"] for s in sent} == {503}
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

    from concurrent.futures import ThreadPoolExecutor

    server = grpc.server(ThreadPoolExecutor(2), handlers=(Listening(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        config = ClientConfig(
            endpoint=f"http://127.0.0.1:{port}", timeout=10.0, max_retries=0, protocol="1.0", transport="grpc"
        )
        with pytest.raises(InfrastructureError):
            hold_one_turn(tracing, config)
    finally:
        server.stop(None)
    calls = [metadata for metadata in received if "traceparent" in metadata]
    (request,) = [s for s in spans.get_finished_spans() if s.name == "a2a request"]
    context = request.context
    assert [c["traceparent"] for c in calls] == [f"00-{context.trace_id:032x}-{context.span_id:016x}-01"]
    assert dict(request.attributes or {}).get("rpc.response.status_code") == "3"


def test_nothing_is_told_where_nothing_is_traced() -> None:
    with start_builtin("noop") as agent, AgentConnection(ClientConfig(endpoint=agent.url)) as connection:
        session = connection.session()
        session.send([Part.of_text("hello")])
        assert session.span.headers() == {}
