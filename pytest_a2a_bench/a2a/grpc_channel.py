"""The channels under a gRPC interface: how they are opened, and a new one after each broken connection.

gRPC mends a channel that it knows to be broken. It does not know that of a connection that a firewall forgot, and would
send one request after another into it; so a channel is replaced after each timeout or UNAVAILABLE.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from pytest_a2a_bench.a2a.card import GrpcTarget
from pytest_a2a_bench.a2a.config import ClientConfig
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
from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError, MissingExtraError
from pytest_a2a_bench.redact import redact_url

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
    """What one request is made with.

    :param stub: of a2a-sdk's generated code.
    :param users: requests that are under way on this channel.
    """

    channel: grpc.aio.Channel
    stub: Any
    users: int = 0


class Channels:
    """The channel in use, and those that only finish what was begun on them; lives on one event loop.

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
        """Close all channels, and what is under way on them."""
        self._closed = True
        for call in (self._current, *self._old):
            await call.channel.close()
        self._old.clear()

    async def _connect(self, channel: grpc.aio.Channel, record: RequestRecord) -> bool:
        """Wait until the channel is connected, or has failed to; tell which.

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
        """Let whatever comes next begin on a new channel; what others have under way on the old one goes on."""
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
    """Return why there is no connection and what to do, from the text of a gRPC error; empty where it says all."""
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
    if "FAILED_TO_CONNECT" in text and "SOCKET_CLOSED" in text and target.tls and not network.chain:
        # gRPC does not pass on the server's alert.
        return (
            f"{host} closed the connection at once; if it asks for a client certificate, give that with "
            "--a2a-client-cert FILE and its key with --a2a-set client-key=FILE or --a2a-set client-key-env=NAME"
        )
    return ""
