"""An OTLP/HTTP receiver on this machine that keeps the spans it is sent."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threaded_http import Handler, HttpServer


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

    class Collector(Handler):
        def do_POST(self) -> None:
            body = self.body()
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                received.resources.append(attributes(resource.resource))
                received.spans += [span for scope in resource.scope_spans for span in scope.spans]
            self.answer(200 if self.path == "/v1/traces" else 404)

    with HttpServer(Collector) as server:
        received = Received(server.url)
        yield received
