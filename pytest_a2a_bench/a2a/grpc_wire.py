"""The gRPC binding, protocol 1.0 and 0.3, on a2a-sdk's protobuf types; grpcio is imported only when this is used.

Messages cross as protobuf's JSON, so that one codec serves every binding. Which channel they cross on, and whether one
can have left, is :mod:`.grpc_channel`'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from pytest_a2a_bench.a2a.auth import explain_refusal
from pytest_a2a_bench.a2a.card import Interface, read_target
from pytest_a2a_bench.a2a.codec import Form, InEvent, InTask, OutMessage, read_event, read_task, write_send
from pytest_a2a_bench.a2a.config import AuthParts, ClientConfig, may_receive
from pytest_a2a_bench.a2a.grpc_channel import Call, Channels, explain_grpc, open_channel
from pytest_a2a_bench.a2a.requests import RequestRecord
from pytest_a2a_bench.a2a.transport import source_of
from pytest_a2a_bench.errors import (
    AuthenticationError,
    EndpointUnreachableError,
    HarnessError,
    InfrastructureError,
    ProtocolError,
    TransportError,
    TurnTimeoutError,
)
from pytest_a2a_bench.redact import hide_secrets

_OWN_DEADLINE = 0.9
"""The share of a request's time after which a deadline that was exceeded may be ours. Before it, a server between here
and the agent, or behind it, had a shorter one, as a gateway that says 504."""

_UNAUTHENTICATED = ("UNAUTHENTICATED", "PERMISSION_DENIED")
# gRPC has fewer codes than A2A (§5.4): the JSON-RPC code that each most often stands for.
_ERROR_CODES = {
    "NOT_FOUND": -32001,
    "UNIMPLEMENTED": -32601,
    "INVALID_ARGUMENT": -32602,
    "INTERNAL": -32603,
    "UNKNOWN": -32603,
}


class GrpcWire:
    """gRPC to one interface."""

    def __init__(self, config: ClientConfig, interface: Interface, auth: AuthParts) -> None:
        self.interface = interface
        self._config = config
        self._form: Form = "1.0" if interface.version == "1.0" else "0.3-proto"
        self._sent_auth = bool(auth) and may_receive(interface.url, config)
        self._metadata = _metadata(auth if self._sent_auth else AuthParts(), self._form)
        self._types = _load(self._form)
        self._target = read_target(interface.url, config.endpoint)
        self._channels = Channels(self._open_channel, config, lambda channel: self._types.stub(_Decoding(channel)))

    def _open_channel(self, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
        network = self._config.network
        if not may_receive(self.interface.url, self._config):
            network = network.without_certificate()
        has_token = any(name == "authorization" and source_of(value) for name, value in self._metadata)
        return open_channel(self._target, network, options, has_token=has_token)

    async def send(self, message: OutMessage, record: RequestRecord, *, stream: bool) -> AsyncGenerator[InEvent, None]:
        """Send a message and yield the events of the answer."""
        request = self._request(message)
        name = "SendStreamingMessage" if stream else "SendMessage"
        record.method, record.endpoint = name, self.interface.url
        try:
            async with self._channels.call(record) as call:
                if not stream:
                    yield self._event(await self._unary(call, name, request, record), record)
                    return
                metadata = self._metadata + tuple(record.headers.items())
                responses = call.stub.SendStreamingMessage(request, metadata=metadata, timeout=self._config.timeout)
                try:
                    async for response in responses:
                        yield self._event(response, record)
                finally:
                    responses.cancel()
                record.status_code = 0
        except grpc.RpcError as error:
            raise self._explained(error, record) from error

    async def get_task(self, task_id: str, record: RequestRecord) -> InTask:
        """Ask for a task."""
        return await self._task("GetTask", task_id, record)

    async def cancel_task(self, task_id: str, record: RequestRecord) -> InTask:
        """Ask the agent to stop a task."""
        return await self._task("CancelTask", task_id, record)

    async def close(self) -> None:
        """Close the channels."""
        await self._channels.close()

    async def _task(self, name: str, task_id: str, record: RequestRecord) -> InTask:
        # 0.3's protobuf calls a task by its resource name; 1.0's by its bare id, as the other bindings do.
        fields = {"name": f"tasks/{task_id}"} if self._form != "1.0" else {"id": task_id}
        if self.interface.tenant and self._form == "1.0":
            fields["tenant"] = self.interface.tenant
        record.method, record.endpoint = name, self.interface.url
        try:
            async with self._channels.call(record) as call:
                response = await self._unary(call, name, self._write(f"{name}Request", fields), record)
                return read_task(self._read(response, record), self._form)
        except grpc.RpcError as error:
            raise self._explained(error, record) from error

    async def _unary(self, call: Call, name: str, request: Any, record: RequestRecord) -> Any:
        method = getattr(call.stub, name)
        metadata = self._metadata + tuple(record.headers.items())
        return await method(request, metadata=metadata, timeout=self._config.timeout)

    def _request(self, message: OutMessage) -> Any:
        fields = write_send(message, self._form, self.interface.tenant)
        return self._write("SendMessageRequest", fields)

    def _write(self, name: str, fields: dict[str, Any]) -> Any:
        try:
            return json_format.ParseDict(fields, getattr(self._types.messages, name)())
        except json_format.ParseError as error:
            raise HarnessError(f"a message to the agent cannot be written as protobuf: {error}") from error

    def _event(self, response: Any, record: RequestRecord) -> InEvent:
        return read_event(self._read(response, record), self._form)

    def _read(self, response: Any, record: RequestRecord) -> Any:
        record.answered, record.status_code = True, 0
        if isinstance(response, _Undecodable):
            what = f"{record.method} {record.endpoint}: the reply cannot be read: {response.reason}"
            raise record.meter.error("depth", what) if response.is_deep else ProtocolError(what)
        record.meter.take(response.ByteSize())
        try:
            with record.meter.reading():
                value = json_format.MessageToDict(response)
                record.keep(json.dumps(value))
            record.meter.check_depth(value)
            return value
        except (ValueError, RecursionError, json_format.Error) as error:
            raise ProtocolError(f"{record.method} {record.endpoint}: the reply cannot be read: {error}") from error

    def _explained(self, error: grpc.RpcError, record: RequestRecord) -> InfrastructureError:
        if not isinstance(error, grpc.aio.AioRpcError):
            return TransportError(f"{record.method} {record.endpoint}: {error}")
        record.status_code = int(error.code().value[0])
        return self._error(error, record)

    def _error(self, error: grpc.aio.AioRpcError, record: RequestRecord) -> InfrastructureError:
        name = error.code().name
        where = f"{record.method} {self.interface.url}"
        details = hide_secrets(error.details() or "no details", self._config.secrets)
        what = f"{where}: gRPC {name}: {details[:500]}"
        retry_after = asked_to_wait(error.trailing_metadata())
        if name == "UNAVAILABLE":
            if record.left:
                return TransportError(what, retry_after=retry_after)
            reason = explain_grpc(details, self._target, self._config.network)
            if reason:
                return EndpointUnreachableError(f"{where}: {reason}")
            return EndpointUnreachableError(f"{what}; the agent card of {self._config.endpoint} names this address")
        if name in _UNAUTHENTICATED:
            explained = explain_refusal(self.interface.url, self._config, self._sent_auth)
            return AuthenticationError(f"{what}; {explained}", refused=True)
        if name == "DEADLINE_EXCEEDED":
            if record.seconds < _OWN_DEADLINE * self._config.timeout:
                record.status = f"gRPC {name}"
                return TransportError(what, status_code=504, retry_after=retry_after)
            return TurnTimeoutError(f"{where}: no answer within {self._config.timeout:g} s")
        if name == "RESOURCE_EXHAUSTED":
            # gRPC uses one code for "too many requests" and for a message above our own size limit.
            large = "larger than max" in (error.details() or "")
            if large:
                return record.meter.error("bytes", what)
            return TransportError(what, status_code=429, retry_after=retry_after)
        return ProtocolError(what, code=_ERROR_CODES.get(name))


def asked_to_wait(trailers: Iterable[tuple[str, str | bytes]] | None) -> float | None:
    """Return the seconds of a ``google.rpc.RetryInfo``: gRPC's ``Retry-After``; None where there is none to be read.

    :param trailers: the metadata that came with the status.
    """
    for name, value in trailers or ():
        if name != "grpc-status-details-bin" or not isinstance(value, bytes):
            continue
        try:
            for detail in status_pb2.Status.FromString(value).details:
                asked = error_details_pb2.RetryInfo()
                if detail.Unpack(asked):
                    seconds = float(asked.retry_delay.seconds) + float(asked.retry_delay.nanos) / 1e9
                    return max(seconds, 0.0)
        except DecodeError:
            continue
    return None


class _Undecodable(NamedTuple):
    """An answer that is no message of its type, or is one that is nested deeper than protobuf reads."""

    reason: str

    @property
    def is_deep(self) -> bool:
        return bool(re.search("depth|nest|recurs", self.reason, re.IGNORECASE))


class _Decoding:
    """A channel as the stubs use it; an answer that cannot be decoded says why (grpc logs that, and gives None)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def unary_unary(self, path: str, *, response_deserializer: Callable[[bytes], Any], **options: Any) -> Any:
        return self._channel.unary_unary(path, response_deserializer=_decode(response_deserializer), **options)

    def unary_stream(self, path: str, *, response_deserializer: Callable[[bytes], Any], **options: Any) -> Any:
        return self._channel.unary_stream(path, response_deserializer=_decode(response_deserializer), **options)


def _decode(deserializer: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def decode(answer: bytes) -> Any:
        try:
            return deserializer(answer)
        except Exception as error:  # protobuf's DecodeError, or a RecursionError of its Python implementation
            return _Undecodable(f"{type(error).__name__}: {error}"[:300])

    return decode


class _Types(NamedTuple):
    messages: Any
    stub: Any


def _load(form: Form) -> _Types:
    # Each only where it is spoken: protobuf registers what is imported.
    if form == "1.0":
        from a2a.types import a2a_pb2, a2a_pb2_grpc

        return _Types(a2a_pb2, a2a_pb2_grpc.A2AServiceStub)
    from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc

    return _Types(a2a_v0_3_pb2, a2a_v0_3_pb2_grpc.A2AServiceStub)


def _metadata(auth: AuthParts, form: Form) -> tuple[tuple[str, str], ...]:
    # Metadata carries what HTTP has as headers (§10.2); there is no place for a query, so its key goes along as well.
    pairs = {**auth.headers, **auth.query}
    if auth.cookies:
        pairs["cookie"] = "; ".join(f"{k}={v}" for k, v in auth.cookies.items())
    if form == "1.0":
        pairs["A2A-Version"] = "1.0"
    return tuple((name.lower(), value) for name, value in pairs.items())
