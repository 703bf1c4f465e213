"""An OTLP/HTTP receiver on this machine that keeps the spans it is sent."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Received:
    """What came in.

    :ivar url: where to send to, without a path.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.resources: list[dict[str, Any]] = []
        self.spans: list[Any] = []

    def named(self, prefix: str) -> list[Any]:
        return [span for span in self.spans if span.name.startswith(prefix)]


def attributes(span: Any) -> dict[str, Any]:
    """Return a span's (or an event's, or a resource's) attributes."""
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


@contextmanager
def span_receiver() -> Iterator[Received]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                received.resources.append(attributes(resource.resource))
                received.spans += [span for scope in resource.scope_spans for span in scope.spans]
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received = Received(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
