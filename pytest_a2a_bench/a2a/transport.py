"""The one place that makes what requests to an agent are sent with: httpx clients and gRPC channels from a Network.

A client chooses proxy and certificate anew for each URL, puts an access token where one is due, and says in words why a
connection was refused: a certificate that is not trusted, one that is out of date, a proxy that wants a password.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from pytest_a2a_bench.a2a.network import Network, load_certificate, read_directory
from pytest_a2a_bench.a2a.refusals import explain, explain_proxy
from pytest_a2a_bench.a2a.tokens import TokenSource, interceptors, source_of
from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError, MissingExtraError
from pytest_a2a_bench.redact import redact_url

if TYPE_CHECKING:
    import grpc.aio

    from pytest_a2a_bench.a2a.card import GrpcTarget

HEADERS = {
    # What is compressed can be neither bounded nor shown as it came.
    "Accept-Encoding": "identity",
    "Connection": "keep-alive",
    "User-Agent": f"python-httpx/{httpx.__version__}",
}
"""Of requests that are handed to a :class:`Transport` without a client around it."""

parsed_url = functools.lru_cache(maxsize=256)(httpx.URL)
"""The same URLs are called again and again; raises :class:`httpx.InvalidURL`."""

_NO_LIMITS = httpx.Limits()


class RefusedConnection(httpx.ConnectError):
    """No connection came about, and the message says why and what to do."""


@functools.lru_cache(maxsize=16)
def tls_context(network: Network) -> ssl.SSLContext:
    """Return settings of TLS; the same object each time, because reading all authorities takes 35 ms.

    :raises ConfigurationError: if certificate, key and passphrase do not go together.
    """
    if network.system and network.verify:
        import truststore  # for those who ask for it

        context: ssl.SSLContext = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    elif network.verify and (network.ca_file or network.ca_dir):
        context = ssl.create_default_context(cafile=network.ca_file or None, capath=network.ca_dir or None)
    else:
        context = httpx.create_ssl_context(verify=network.verify, trust_env=False)
    if network.roots:
        context.load_verify_locations(cadata=network.roots)
    if network.chain:
        load_certificate(context, network)
    return context


# -- HTTP --


def open_client(
    network: Network,
    *,
    limits: httpx.Limits = _NO_LIMITS,
    timeout: httpx.Timeout | float | None = None,
    may_show: Callable[[str], bool] | None = None,
) -> httpx.AsyncClient:
    """Open a client that follows no redirects and reads nothing from the environment.

    :param may_show: tells whether a URL's origin may see our certificate; by default each one may.
    """
    transport = Transport(network, limits, may_show)
    return httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False, follow_redirects=False)


class Pools(httpx.AsyncBaseTransport):
    """One transport of httpx per request under way: the connection pool behind one compares all its connections.

    It does so for every request, twice, and asks the kernel about the idle ones: with 256 conversations on one
    transport that took nearly all the time of an event loop (5.5 ms a request in place of 0.5).

    :param make: makes a transport with limits of one connection.
    :param limits: of all of them together. A request beyond its connections waits for one.
    """

    def __init__(self, make: Callable[[httpx.Limits], httpx.AsyncHTTPTransport], limits: httpx.Limits) -> None:
        self._make = make
        self._limits = httpx.Limits(
            max_connections=1, max_keepalive_connections=1, keepalive_expiry=limits.keepalive_expiry
        )
        self._slots = None if limits.max_connections is None else asyncio.Semaphore(limits.max_connections)
        self._all: set[httpx.AsyncHTTPTransport] = set()
        # The one that was used last is the least likely to have been closed by the server.
        self._free: list[httpx.AsyncHTTPTransport] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        if self._slots is not None:
            await self._slots.acquire()
        transport = None
        try:
            transport = self._free.pop() if self._free else self._add()
            response = await transport.handle_async_request(request)
        except BaseException:
            await self.release(transport, reuse=False)
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Body(response.stream, transport, self)
        return response

    async def release(self, transport: httpx.AsyncHTTPTransport | None, *, reuse: bool) -> None:
        """End a request. A transport whose request was given up may stay busy for ever, so it is closed."""
        if self._slots is not None:
            self._slots.release()
        if transport in self._all and reuse:
            self._free.append(transport)
        elif transport is not None:
            self._all.discard(transport)
            await transport.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        transports, self._all, self._free = self._all, set(), []
        for transport in transports:
            await transport.aclose()

    def _add(self) -> httpx.AsyncHTTPTransport:
        made = self._make(self._limits)
        self._all.add(made)
        return made


@dataclasses.dataclass(slots=True)
class _Body(httpx.AsyncByteStream):
    """The body of an answer; its connection is free once it is closed."""

    stream: httpx.AsyncByteStream
    transport: httpx.AsyncHTTPTransport
    pools: Pools
    is_open: bool = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.stream.__aiter__()

    async def aclose(self) -> None:
        if self.is_open:
            self.is_open = False
            is_closed = False
            try:
                await self.stream.aclose()
                is_closed = True
            finally:
                await self.pools.release(self.transport, reuse=is_closed)


class _Route(NamedTuple):
    pools: Pools
    network: Network
    proxy: str | None


class Transport(httpx.AsyncBaseTransport):
    """Hands each request to the pools of its route: encrypted or not, through which proxy, with our certificate.

    Parameters are those of :func:`open_client`, which puts a client around it.
    """

    def __init__(
        self, network: Network, limits: httpx.Limits = _NO_LIMITS, may_show: Callable[[str], bool] | None = None
    ) -> None:
        self._network, self._limits, self._may_show = network, limits, may_show or (lambda _: True)
        self._pools: dict[tuple[bool, str | None, bool, str], Pools] = {}
        self._routes: dict[tuple[str, str, int | None], _Route] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        source = source_of(request.headers.get("authorization", ""))
        if source is None:
            return await self._send(request)
        response, is_worth_another = await self._send_with_token(request, source)
        if is_worth_another:  # it was taken back before its time, and whoever refuses a request has not worked on it
            await response.aclose()
            response, _ = await self._send_with_token(request, source)
        return response

    async def _send_with_token(self, request: httpx.Request, source: TokenSource) -> tuple[httpx.Response, bool]:
        token = await source.token()
        response = await self._send(_with_token(request, token))
        if response.status_code == 401:
            return response, source.discard(token)
        source.accept(token)
        return response, False

    async def _send(self, request: httpx.Request) -> httpx.Response:
        pools, network, proxy = self._route(request.url)
        try:
            response = await pools.handle_async_request(await self._vetted(request))
        # In TLS 1.3 a server judges our certificate after the handshake, and httpcore lets that error pass as it is.
        except (httpx.TransportError, ssl.SSLError) as error:
            told = explain(error, str(request.url), network, proxy, withheld=network is not self._network)
            if told:
                raise RefusedConnection(told, request=request) from error
            if isinstance(error, ssl.SSLError):
                raise httpx.ReadError(str(error), request=request) from error
            raise
        if response.status_code == 407 and proxy and request.url.scheme == "http":  # else it comes from the agent
            await response.aclose()
            raise RefusedConnection(explain_proxy(proxy, "407 Proxy Authentication Required"), request=request)
        return response

    async def _vetted(self, request: httpx.Request) -> httpx.Request:
        """Return the request with the address that it goes to in its URL, where not every address may be called."""
        guard, url = self._network.guard, request.url
        if guard is None:
            return request
        try:
            address = await guard.vet(url.host, url.port or (443 if url.scheme == "https" else 80))
        except EndpointUnreachableError as error:
            raise RefusedConnection(str(error), request=request) from error
        # The name stays in the header Host, and is what the certificate is checked for.
        return httpx.Request(
            request.method,
            url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": url.host},
        )

    def _route(self, url: httpx.URL) -> _Route:
        # All that is decided here is the same for all paths of an origin, and conversations have few origins.
        origin = (url.scheme, url.host, url.port)
        known = self._routes.get(origin)
        if known is None:
            text = str(url)
            network = self._network if self._may_show(text) else self._network.without_certificate()
            proxy = self._network.proxy_for(text)
            known = self._routes[origin] = _Route(self._pools_for(url, proxy, network), network, proxy)
        return known

    def _pools_for(self, url: httpx.URL, proxy: str | None, network: Network) -> Pools:
        encrypted = url.scheme == "https"
        # Where hosts are called by their addresses, two of one address must not share a connection: its certificate was
        # checked for one of them.
        host = url.host if network.guard is not None else ""
        route = (encrypted, proxy, encrypted and bool(network.chain), host)
        if route not in self._pools:
            # A transport for http needs no authorities, which take long to read, and shall trust none by accident.
            context = tls_context(network) if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            through = self._through(proxy) if proxy else None

            def make(limits: httpx.Limits) -> httpx.AsyncHTTPTransport:
                return httpx.AsyncHTTPTransport(verify=context, limits=limits, proxy=through, trust_env=False)

            self._pools[route] = Pools(make, self._limits)
        return self._pools[route]

    def _through(self, proxy: str) -> httpx.Proxy:
        if not proxy.lower().startswith("https:"):
            return httpx.Proxy(proxy)
        return httpx.Proxy(proxy, ssl_context=tls_context(self._network.without_certificate()))

    async def aclose(self) -> None:
        """Close all connections."""
        every, self._pools, self._routes = self._pools, {}, {}
        for pools in every.values():
            await pools.aclose()


def _with_token(request: httpx.Request, token: str) -> httpx.Request:
    headers = httpx.Headers(request.headers)
    headers["Authorization"] = f"Bearer {token}"
    return httpx.Request(
        request.method, request.url, headers=headers, stream=request.stream, extensions=request.extensions
    )


# -- gRPC --


def open_channel(
    target: GrpcTarget, network: Network, options: list[tuple[str, Any]], *, has_token: bool = False
) -> grpc.aio.Channel:
    """Open a channel; grpcio is imported here.

    :param options: further ones of gRPC's.
    :param has_token: whether metadata name an access token that is to be filled in.
    :raises ConfigurationError: if gRPC cannot do what the network asks for.
    """
    import grpc
    import grpc.aio

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
    through = interceptors() if has_token else None
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
    import grpc

    if not network.verify:
        raise ConfigurationError(
            f"gRPC always verifies certificates ({target.address}): give the authority that signed the agent's with "
            "--a2a-ca FILE (PEM), or use --a2a-transport=jsonrpc or rest with --a2a-no-verify-ssl"
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
