"""gRPC as it is on the wire: protobuf messages by name, replies kept as bytes until they are judged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from google.protobuf import empty_pb2, json_format
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # noqa: F401  (registers the detail types)

from pytest_a2a_bench.a2a.card import read_target
from pytest_a2a_bench.a2a.grpc_wire import explain_grpc, load_types, open_channel
from pytest_a2a_bench.a2a.transport import source_of
from pytest_a2a_bench.conformance.finding import Exchange
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS, Operation
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.wire.exchange import (
    BODY_BYTES,
    EVENT_BYTES,
    EVENTS_KEPT,
    STREAM_BYTES,
    STREAM_EVENTS,
    Redactor,
    dump,
    late,
)
from pytest_a2a_bench.conformance.wire.reply import (
    UNSET,
    Reading,
    ReplyError,
    SkipCheck,
    WireReply,
    WireRequest,
    read_grpc_error,
)
from pytest_a2a_bench.errors import InfrastructureError

# 1.0 renamed the package; a server of 0.3 knows the old name only.
SERVICES = {"1.0": "lf.a2a.v1.A2AService", "0.3": "a2a.v1.A2AService"}
_STATUS_DETAILS = "grpc-status-details-bin"


class GrpcWire:
    """Requests to one interface over one gRPC channel.

    :param target: the interface; its version decides service and message types.
    """

    binding = "GRPC"

    def __init__(self, target: Target) -> None:
        self.url, self.version, self.tenant = target.url, target.version, target.tenant
        self._auth, self._network = target.auth, target.network
        self._redactor = Redactor(target.secrets)
        self._types = load_types("0.3-proto" if target.version == "0.3" else "1.0").messages
        self._target = read_target(target.url, target.endpoint)
        self._channel = self._open()

    def _open(self) -> grpc.aio.Channel:
        # A retry would hide the first answer.
        options = [("grpc.max_receive_message_length", BODY_BYTES), ("grpc.enable_retries", 0)]
        has_token = source_of(self._auth.headers.get("Authorization", "")) is not None
        return open_channel(self._target, self._network, options, has_token=has_token)

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()

    async def call(self, request: WireRequest) -> WireReply:
        """Send a request and read the answer."""
        if request.path is not None or request.http_method or request.query:
            raise SkipCheck("gRPC has no URL paths, verbs and queries")
        # A method of no known name has no message types: it is sent empty, to see how the server refuses it.
        if request.operation not in OPERATIONS:
            return await self._invoke(request, request.operation, b"", None)
        op = OPERATIONS[request.operation]
        method, request_type, reply_type = self._names(op)
        content = self._write(request, request_type)
        return await self._invoke(request, method, content, self._message(reply_type))

    def _names(self, op: Operation) -> tuple[str, ...]:
        if self.version != "0.3":
            return op.name, op.request, op.reply
        if not op.grpc03[0]:
            raise SkipCheck(f"the 0.3 service of a2a-sdk has no {op.name}")
        return op.grpc03

    def _message(self, name: str) -> Any:
        if name == "google.protobuf.Empty":
            return empty_pb2.Empty
        return getattr(self._types, name)

    def _write(self, request: WireRequest, name: str) -> bytes:
        if request.body is not UNSET:
            if isinstance(request.body, bytes):
                return request.body
            params = request.body
        else:
            params = dict(request.params)
            # In 0.3 no request has a field for a tenant.
            if self.tenant and self.version != "0.3":
                params.setdefault("tenant", self.tenant)
        try:
            message = json_format.ParseDict(params, self._message(name)())
        # ParseDict raises more than its own ParseError: TypeError and AttributeError for values of a wrong kind.
        except (json_format.ParseError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise SkipCheck(f"protobuf cannot hold this request: {error}") from error
        return bytes(message.SerializeToString())

    def _metadata(self, request: WireRequest) -> tuple[tuple[str, str], ...]:
        # gRPC has no query: a key that the card wants in one can only go where all other credentials go.
        auth = request.credentials(self._auth)
        pairs = {**auth.headers, **auth.query}
        if request.version_header is not None:
            pairs["a2a-version"] = request.version_header
        pairs.update(request.headers)
        # gRPC refuses metadata names with capitals, which is no defect of the agent's.
        return tuple((k.lower(), v) for k, v in pairs.items())

    async def _invoke(self, request: WireRequest, method: str, content: bytes, reply_type: Any) -> WireReply:
        path = f"/{SERVICES[self.version]}/{method}"
        metadata = self._metadata(request)
        reading = _Reading(
            request, reply_type=reply_type, explain=lambda details: explain_grpc(details, self._target, self._network)
        )
        try:
            # The call has a deadline of its own, which gRPC tells in words; this is for a channel that does not keep
            # it.
            async with asyncio.timeout(request.timeout + 1) as reading.limit:
                await reading.run(self._channel, path, content, metadata)
        except TimeoutError:
            reading.problem = "" if reading.is_over else late(request.timeout)
        shown = self._redactor
        exchange = Exchange(
            binding=self.binding,
            method=path[1:],
            url=shown.url(self.url),
            request_headers=shown.headers(metadata),
            request=shown.text(_request_text(request)),
            status=reading.status,
            response_headers=shown.headers(reading.headers),
            response=shown.text(reading.text()),
            events=tuple(shown.text(dump(e), EVENT_BYTES) for e in reading.events[:EVENTS_KEPT] if request.stream),
            problem=shown.text(reading.problem),
            seconds=time.monotonic() - reading.started,
        )
        return reading.reply(exchange)


@dataclass(kw_only=True)
class _Reading(Reading):
    """One call while its answer is read."""

    reply_type: Any
    explain: Callable[[str], str]
    events: list[Any] = field(default_factory=list)
    error: ReplyError | None = None

    async def run(self, channel: grpc.aio.Channel, path: str, content: bytes, metadata: Any) -> None:
        try:
            if self.request.stream:
                call: Any = channel.unary_stream(path)(content, metadata=metadata, timeout=self.request.timeout)
                await self._read_stream(call)
            else:
                call = channel.unary_unary(path)(content, metadata=metadata, timeout=self.request.timeout)
                self._read(await call)
                self.ended = True
            # A call that ends well raises nothing and gives no status; 0 is OK.
            if self.status is None and self.ended:
                self.status = 0
        except grpc.aio.AioRpcError as error:
            self._fail(error)
        except InfrastructureError as error:  # there is no access token
            self.problem = str(error)
        except (grpc.RpcError, UnicodeError, ValueError) as error:
            self.problem = f"{type(error).__name__}: {error}"

    async def _read_stream(self, call: Any) -> None:
        try:
            size = 0
            async for content in call:
                size += len(content)
                self._read(content)
                if size > STREAM_BYTES or len(self.events) > STREAM_EVENTS:
                    self.problem = f"the stream does not end within {STREAM_EVENTS} events"
                    return
                if self.stopped:
                    return
            self.ended = True
        finally:
            # Also where the reading stopped early: a stream that nobody reads would stay open on the server.
            call.cancel()

    def _read(self, content: bytes) -> None:
        # When it came, not when it was understood: checks of order and delay look at these.
        at = time.monotonic()
        try:
            message = self.reply_type.FromString(content) if self.reply_type is not None else None
            value = json_format.MessageToDict(message) if message is not None else {}
        except (DecodeError, json_format.Error, ValueError, RecursionError, TypeError) as error:
            self.problem = f"the reply is not the protobuf message of the service: {error}"
            value = None
        self.events.append(value)
        self.take(value, at)

    def _fail(self, error: grpc.aio.AioRpcError) -> None:
        name = error.code().name
        # Our own deadline came before the end of the wait for a stream whose task is over: it is left, as by that wait.
        if name == "DEADLINE_EXCEEDED" and self.is_over:
            return
        # code().value is a pair of number and text.
        self.status = int(error.code().value[0])
        message = error.details() or ""
        details: tuple[Any, ...] = ()
        # Trailing metadata may be binary (names that end in -bin), of which only the status details are A2A's.
        for key, value in error.trailing_metadata() or ():
            if key == _STATUS_DETAILS and isinstance(value, bytes):
                details = _read_details(value)
            else:
                self.headers[key] = value if isinstance(value, str) else repr(value)
        if name == "DEADLINE_EXCEEDED":
            self.problem = late(self.request.timeout)
        elif name == "UNAVAILABLE":
            self.problem = self.explain(message) or f"gRPC UNAVAILABLE: {message:.300}"
        # The status is used for quotas, too; only the text tells that it is our own limit.
        elif name == "RESOURCE_EXHAUSTED" and "larger than max" in message:
            self.problem = f"the answer is larger than {BODY_BYTES} bytes, and was not read"
        self.error = read_grpc_error(name, message, details)

    def text(self) -> str:
        """Return the answer as text, for evidence."""
        if self.error is not None:
            return dump(
                {"status": self.error.grpc_status, "message": self.error.message, "details": self.error.details}
            )
        return "" if self.request.stream else "".join(map(dump, self.events))

    def reply(self, exchange: Exchange) -> WireReply:
        """Return the received messages."""
        events = tuple(self.events) if self.request.stream else ()
        return WireReply(
            exchange,
            self.status,
            self.headers,
            result=None if self.request.stream or not self.events else self.events[0],
            document=None if self.request.stream or not self.events else self.events[0],
            # What broke on the way is a problem of the exchange and not an error that the agent meant.
            error=self.error if not self.problem else None,
            events=events,
            documents=events,
            ended=self.ended,
            problem=self.problem,
            times=tuple(self.times),
        )


def _read_details(content: bytes) -> tuple[Any, ...]:
    try:
        status = status_pb2.Status.FromString(content)
    except DecodeError:
        return ()
    found = []
    for item in status.details:
        try:
            found.append(json_format.MessageToDict(item))
        except (TypeError, ValueError, DecodeError, json_format.Error):
            # A detail of a type that is not registered is still a detail: its type is what checks ask about.
            found.append({"@type": item.type_url})
    return tuple(found)


def _request_text(request: WireRequest) -> str:
    if isinstance(request.body, bytes):
        return repr(request.body)
    return dump(request.params if request.body is UNSET else request.body)
