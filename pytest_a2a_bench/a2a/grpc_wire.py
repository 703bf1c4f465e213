"""The gRPC binding, protocol 1.0 and 0.3, on a2a-sdk's protobuf types; grpcio is imported only when this is used.

Messages cross as protobuf's JSON, so that one codec serves every binding. Channels are shared by the conversations of a
connection, and tell whether a message can have left.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import ssl
import urllib.parse
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from pytest_a2a_bench.a2a.auth import explain_refusal
from pytest_a2a_bench.a2a.card import GrpcTarget, Interface, read_target
from pytest_a2a_bench.a2a.codec import Form, InEvent, InTask, OutMessage, read_event, read_task, write_send
from pytest_a2a_bench.a2a.config import AuthParts, ClientConfig, may_receive
from pytest_a2a_bench.a2a.network import Network, read_directory
from pytest_a2a_bench.a2a.requests import RequestRecord
from pytest_a2a_bench.a2a.transport import (
    EXPIRED,
    NOT_YET_VALID,
    WRONG_NAME,
    explain_certificate,
    explain_handshake,
    explain_proxy,
    source_of,
    tls_context,
)
from pytest_a2a_bench.errors import (
    AuthenticationError,
    ConfigurationError,
    EndpointUnreachableError,
    HarnessError,
    InfrastructureError,
    MissingExtraError,
    ProtocolError,
    TransportError,
    TurnTimeoutError,
)
from pytest_a2a_bench.redact import hide_secrets, redact_url

OpenChannel = Callable[[list[tuple[str, Any]]], grpc.aio.Channel]

_PING_MS = 330_000
"""Unless configured otherwise, servers answer pings that come more often than every 5 minutes with GOAWAY
(``too_many_pings``), and take every one amiss while no call is under way: so there are none then, and few else."""

_PING_TIMEOUT_MS = 20_000
"""How long a ping may go unanswered, and on Linux also how long anything that was sent may go unacknowledged
(``TCP_USER_TIMEOUT``): this ends a call on a dead connection long before the next ping would."""

_NEVER_CONNECTED = ("failed to connect to all addresses", "DNS resolution failed")
"""How gRPC's own UNAVAILABLE begins where there was no connection to send anything over."""


@dataclass(slots=True)
class Call:
    """The channel and the metadata of one request.

    :param stub: of a2a-sdk's generated code.
    :param users: requests that are under way on this channel.
    """

    channel: grpc.aio.Channel
    stub: Any
    users: int = 0


class Channels:
    """The channel in use, and older ones that only finish their requests; lives on one event loop.

    :param open_channel: opens one, with options.
    :param make_stub: makes the stub of a channel.
    :raises ConfigurationError: if gRPC cannot do what the network asks for.
    """

    def __init__(self, open_channel: OpenChannel, config: ClientConfig, make_stub: Callable[[Any], Any]) -> None:
        self._open_channel = open_channel
        self._config = config
        self._make_stub = make_stub
        self._current = self._open()
        self._old: list[Call] = []
        self._closed = False

    @contextlib.asynccontextmanager
    async def call(self, record: RequestRecord) -> AsyncIterator[Call]:
        """Lend the channel for one request, and note whether it can have left.

        :raises EndpointUnreachableError: if there is no connection within the configured time.
        """
        call = self._current
        call.users += 1
        try:
            connected = await self._connect(call.channel, record)
            record.left = True
            try:
                yield call
            except grpc.aio.AioRpcError as error:
                record.left = connected or not _never_left(error, call.channel)
                if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    self._replace(call)
                raise
        # A turn whose time is up, and a stream that stalled, end their request by cancelling it.
        except (asyncio.CancelledError, EndpointUnreachableError):
            self._replace(call)
            raise
        finally:
            call.users -= 1
            await self._close_unused()

    async def close(self) -> None:
        """Close all channels, with the requests that are under way on them."""
        self._closed = True
        for call in (self._current, *self._old):
            await call.channel.close()
        self._old.clear()

    async def _connect(self, channel: grpc.aio.Channel, record: RequestRecord) -> bool:
        """Wait until the channel is connected (True), or has failed to connect (False).

        Only after this it is known whether a request was sent.
        """
        over = (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE)
        record.left = False
        if channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:  # nearly always
            return True
        try:
            async with asyncio.timeout(self._config.connect_timeout):
                while (state := channel.get_state(try_to_connect=True)) not in over:
                    await channel.wait_for_state_change(state)
        except TimeoutError as error:
            raise EndpointUnreachableError(
                f"{record.method} {record.endpoint}: no connection within {self._config.connect_timeout:g} s; "
                f"the agent card of {self._config.endpoint} names this address"
            ) from error
        return state is grpc.ChannelConnectivity.READY

    def _replace(self, call: Call) -> None:
        """Begin the next requests on a new channel; requests under way on the old one go on."""
        if call is self._current and not self._closed:
            self._old.append(call)
            self._current = self._open()

    async def _close_unused(self) -> None:
        unused = [call for call in self._old if not call.users]
        self._old = [call for call in self._old if call.users]
        for call in unused:
            await call.channel.close()

    def _open(self) -> Call:
        channel = self._open_channel(_options(self._config))
        return Call(channel, self._make_stub(channel))


def _never_left(error: grpc.aio.AioRpcError, channel: grpc.aio.Channel) -> bool:
    """Return whether a request cannot have been sent: gRPC says so, and is still without a connection."""
    return (
        error.code() is grpc.StatusCode.UNAVAILABLE
        and (error.details() or "").startswith(_NEVER_CONNECTED)
        and channel.get_state() is not grpc.ChannelConnectivity.READY
    )


def _options(config: ClientConfig) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", min(config.bounds.bytes, 2**31 - 1)),
        # Retries are the session's, where they are counted and recorded.
        ("grpc.enable_retries", 0),
        # Channels to one target share their connections otherwise, and a new one would get the dead one's.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.keepalive_time_ms", _PING_MS),
        ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 0),
    ]


# --- opening a channel ---


def open_channel(
    target: GrpcTarget, network: Network, options: list[tuple[str, Any]], *, has_token: bool = False
) -> grpc.aio.Channel:
    """Open a channel.

    :param options: further ones of gRPC's.
    :param has_token: whether metadata name an access token that is to be filled in.
    :raises ConfigurationError: if gRPC cannot do what the network asks for.
    """
    target, options = _vetted_target(target, network, options)
    proxy = network.proxy_for(target.url)
    if proxy and not proxy.lower().startswith("http:"):
        raise ConfigurationError(
            f"gRPC goes through http:// proxies only, and {redact_url(proxy)} is to be used for {target.address}; "
            "name another with --a2a-proxy, or use --a2a-transport=jsonrpc or rest"
        )
    # gRPC would read proxies from the environment by rules of its own, and call this machine through them, too.
    options = [*options, ("grpc.enable_http_proxy", int(proxy is not None))]
    if proxy:
        options.append(("grpc.http_proxy", proxy))
    through = [_Unary(), _Stream()] if has_token else None
    if not target.tls:
        return grpc.aio.insecure_channel(target.address, options=options, interceptors=through)
    return grpc.aio.secure_channel(target.address, _credentials(target, network), options=options, interceptors=through)


def _vetted_target(
    target: GrpcTarget, network: Network, options: list[tuple[str, Any]]
) -> tuple[GrpcTarget, list[tuple[str, Any]]]:
    """Return a target by the address that it goes to, where not every address may be called."""
    if network.guard is None:
        return target, options
    parts = urllib.parse.urlsplit(target.url)
    host, port = parts.hostname or "", parts.port or (443 if target.tls else 80)
    address = network.guard.vet_now(host, port)
    place = f"ipv6:[{address}]:{port}" if ":" in address else f"ipv4:{address}:{port}"
    named = [("grpc.default_authority", f"{host}:{port}")]
    if target.tls:
        named.append(("grpc.ssl_target_name_override", host))
    return target._replace(address=place), [*options, *named]


def _credentials(target: GrpcTarget, network: Network) -> grpc.ChannelCredentials:
    if not network.verify:
        raise ConfigurationError(
            f"gRPC always verifies certificates ({target.address}): give the authority that signed the agent's with "
            "--a2a-ca FILE (PEM), or use --a2a-transport=jsonrpc or rest with --a2a-set verify-ssl=off"
        )
    key = _plain_key(network) if network.chain else None
    chain = network.chain.encode() if network.chain else None
    return grpc.ssl_channel_credentials(root_certificates=_roots(network), private_key=key, certificate_chain=chain)


@functools.lru_cache(maxsize=4)
def _roots(network: Network) -> bytes | None:
    """Return the certificates that are trusted, as PEM; None leaves it to gRPC, which comes with its own."""
    if not (network.roots or network.system or network.ca_file or network.ca_dir):
        return None
    # What truststore does cannot be handed to gRPC, and a context does not tell what it would find in a directory.
    base = ssl.create_default_context() if network.system else tls_context(network.without_certificate())
    paths = ssl.get_default_verify_paths()
    directory = (paths.capath if network.system else network.ca_dir) or ""
    found = {ssl.DER_cert_to_PEM_cert(c) for c in base.get_ca_certs(binary_form=True)}
    found.update(pem for place in directory.split(os.pathsep) if place for pem in read_directory(place))
    if not found:
        raise ConfigurationError(
            "gRPC cannot read the trust store of this machine (its certificates are in no file); give the authority "
            "that signed the agent's certificate with --a2a-ca FILE (PEM), or use --a2a-transport=jsonrpc or rest"
        )
    return "\n".join([*sorted(found), network.roots]).encode()


def _plain_key(network: Network) -> bytes:
    if not network.passphrase or "ENCRYPTED" not in network.key:
        return network.key.encode()
    try:
        from cryptography.hazmat.primitives import serialization as pem
    except ImportError as error:
        raise MissingExtraError("cryptography, which gRPC's keys are decrypted with", "grpc", str(error)) from error
    key = pem.load_pem_private_key(network.key.encode(), network.passphrase.encode())
    return key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())


class _Unary(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    """Puts access tokens into the metadata of calls."""

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return await continuation(await _with_token(details), request)


class _Stream(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]
    """Puts access tokens into the metadata of calls whose answer is a stream."""

    async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return await continuation(await _with_token(details), request)


async def _with_token(details: Any) -> Any:
    pairs = []
    for name, value in details.metadata or ():
        source = source_of(value) if name == "authorization" and isinstance(value, str) else None
        pairs.append((name, f"Bearer {await source.token()}" if source is not None else value))
    return grpc.aio.ClientCallDetails(
        details.method, details.timeout, grpc.aio.Metadata(*pairs), details.credentials, details.wait_for_ready
    )


def explain_grpc(details: str, target: GrpcTarget, network: Network) -> str:
    """Return the reason of a failed connection and the remedy, from a gRPC error; empty if its text says it all."""
    text = details.upper().replace(" ", "_")
    host = target.address.rpartition(":")[0] or target.address
    if "CERTIFICATE_HAS_EXPIRED" in text:
        return explain_certificate(EXPIRED[0], "certificate has expired", host)
    if "NOT_YET_VALID" in text:
        return explain_certificate(NOT_YET_VALID[0], "certificate is not yet valid", host)
    if "IS_NOT_IN_PEER_CERTIFICATE" in text or "HOSTNAME_VERIFICATION" in text:
        return explain_certificate(WRONG_NAME[0], "it has no such name", host)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = details.rpartition("CERTIFICATE_VERIFY_FAILED")[2].strip(" :") or "it cannot be verified"
        return explain_certificate(0, reason[:120], host)
    if "ALERT" in text or "WRONG_VERSION_NUMBER" in text:
        return explain_handshake(text, host, has_certificate=bool(network.chain))
    proxy = network.proxy_for(target.url)
    if proxy and "PROXY" in text:
        return explain_proxy(proxy, details[:200])
    is_closed = "FAILED_TO_CONNECT" in text and "SOCKET_CLOSED" in text
    if is_closed and not target.tls:
        return f"{host} closed the connection at once; if it speaks TLS, its address is {target._replace(tls=True).url}"
    if is_closed and not network.chain:
        # gRPC does not pass on the server's alert.
        return (
            f"{host} closed the connection at once; if it asks for a client certificate, give that with "
            "--a2a-client-cert FILE and its key with --a2a-set client-key=FILE or --a2a-set client-key-env=NAME"
        )
    return ""


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
        self._types = load_types(self._form)
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


def load_types(form: Form) -> _Types:
    """Return the messages and the stub of one form of the protocol."""
    # Each only where it is spoken: protobuf registers what is imported.
    if form == "1.0":
        from a2a.types import a2a_pb2, a2a_pb2_grpc

        return _Types(a2a_pb2, a2a_pb2_grpc.A2AServiceStub)
    from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc

    return _Types(a2a_v0_3_pb2, a2a_v0_3_pb2_grpc.A2AServiceStub)


def _metadata(auth: AuthParts, form: Form) -> tuple[tuple[str, str], ...]:
    # Metadata carries what HTTP has as headers (§10.2); there is no place for a query, so its key goes along as well.
    pairs = {**auth.headers, **auth.query}
    if form == "1.0":
        pairs["A2A-Version"] = "1.0"
    return tuple((name.lower(), value) for name, value in pairs.items())
