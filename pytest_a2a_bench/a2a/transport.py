"""httpx clients for requests to agents, made from a Network: proxies, certificates, access tokens, pooled connections.

A client chooses proxy and certificate anew for each URL, puts an access token where one is due, and explains why a
connection was refused: a certificate that is not trusted, one that has expired, a proxy that wants a password.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import secrets
import ssl
import time
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import httpx

from pytest_a2a_bench.a2a.config import ALLOWED_ORIGINS_ENV
from pytest_a2a_bench.a2a.network import Network, load_certificate
from pytest_a2a_bench.errors import EndpointUnreachableError, InfrastructureError
from pytest_a2a_bench.redact import redact_url

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
    """No connection came about; the message has the reason and the remedy."""


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


# --- access tokens ---

_BEARER = "Bearer "
_MARGIN = 60.0
"""Seconds before its expiry at which a token is renewed; at most a fifth of its lifetime."""

_DEFAULT_LIFETIME = 600.0
"""Seconds that a token is used for if the server does not say."""

_RETRY_AFTER = 5.0
"""Seconds until the next try, where renewing failed and the old token has not expired."""


class Issued(NamedTuple):
    """A token as the server issued it.

    :param lifetime: seconds from now; None where the server does not say.
    """

    token: str
    lifetime: float | None


class TokenSource:
    """The current access token of one client at one authorization server, issued once per process and renewed in time.

    A wire is made once and its headers with it, so they carry a placeholder, and the transport puts the token there.
    For use on one event loop at a time.

    :param fetch: asks for a new token, and raises InfrastructureError where it gets none.
    :param clock: seconds, monotonic.
    :ivar placeholder: stands for the token in headers.
    """

    def __init__(self, fetch: Callable[[], Awaitable[Issued]], clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch, self._clock = fetch, clock
        self._token = self._proven = ""
        self._renew_at = self._ends_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self.placeholder: str = f"a2a-token-{secrets.token_hex(16)}"
        _sources[self.placeholder] = self

    async def token(self) -> str:
        """Return a token that has not expired; raises InfrastructureError if none can be obtained."""
        if self._token and self._clock() < self._renew_at:
            return self._token
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # one that was shut down, or a forked process's parent's
            self._loop, self._lock = loop, asyncio.Lock()
        async with self._lock:
            if not self._token or self._clock() >= self._renew_at:
                await self._renew()
            return self._token

    async def _renew(self) -> None:
        try:
            issued = await self._fetch()
        except InfrastructureError:
            if not self._token or self._clock() >= self._ends_at:
                self._token = ""
                raise
            self._renew_at = min(self._clock() + _RETRY_AFTER, self._ends_at)
            return
        lifetime = _DEFAULT_LIFETIME if issued.lifetime is None else max(issued.lifetime, 0.0)
        self._token = issued.token
        self._ends_at = self._clock() + lifetime
        self._renew_at = self._ends_at - min(_MARGIN, lifetime / 5)

    def accept(self, token: str) -> None:
        """Note that a token was not refused."""
        self._proven = token

    def discard(self, token: str) -> bool:
        """Forget a refused token, and return whether to request another: the refused one was accepted before."""
        if self._token == token:
            self._token = ""
        return token == self._proven


_sources: dict[str, TokenSource] = {}


def bearer(source: TokenSource) -> str:
    """Return the value of an Authorization header that stands for a source's token."""
    return _BEARER + source.placeholder


def source_of(value: str) -> TokenSource | None:
    """Return the source whose placeholder an Authorization header holds."""
    return _sources.get(value.removeprefix(_BEARER)) if value.startswith(_BEARER) else None


# --- HTTP ---


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
        """Send a request; once more with a new access token if one was refused that had been accepted before."""
        source, is_retry = source_of(request.headers.get("authorization", "")), False
        pools, network, proxy = self._route(request.url)
        while True:
            token = await source.token() if source is not None else ""
            sent = request if source is None else _with_token(request, token)
            try:
                response = await pools.handle_async_request(await self._vetted(sent))
            # In TLS 1.3 a server judges our certificate after the handshake; httpcore does not convert that error.
            except (httpx.TransportError, ssl.SSLError) as error:
                reason = explain(error, str(request.url), network, proxy, withheld=network is not self._network)
                if reason:
                    raise RefusedConnection(reason, request=request) from error
                if isinstance(error, ssl.SSLError):
                    raise httpx.ReadError(str(error), request=request) from error
                raise
            if response.status_code == 407 and proxy and request.url.scheme == "http":  # else it comes from the agent
                await response.aclose()
                raise RefusedConnection(explain_proxy(proxy, "407 Proxy Authentication Required"), request=request)
            if source is None:
                return response
            if response.status_code != 401:
                source.accept(token)
                return response
            # The token was revoked before its time, and a server that refuses a request has not processed it.
            if not source.discard(token) or is_retry:
                return response
            is_retry = True
            await response.aclose()

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


# --- why a connection was refused, and what to do ---

_LAST_RESORT = "as the last resort, --a2a-set verify-ssl=off accepts any certificate"
_UNTRUSTED = (
    "give the authority that signed it with --a2a-ca FILE (PEM), or trust what this machine trusts with "
    f"--a2a-ca system; {_LAST_RESORT}"
)
# X509_V_ERR_* of OpenSSL.
_ASKS_FOR_CERTIFICATE = ("certificate required", "handshake failure", "bad certificate")
_WANTS_US_NOT = ("certificate", "unknown ca", "handshake failure", "access denied")
NOT_YET_VALID, EXPIRED, WRONG_NAME = (9,), (10,), (62, 64)


def explain(error: BaseException, url: str, network: Network, proxy: str | None, *, withheld: bool = False) -> str:
    """Return the reason of a failed connection and the remedy; empty if the error itself says all that is known.

    :param withheld: whether our certificate is one that this URL may not see.
    """
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or url
    refused = _handshake_error(error)
    if isinstance(refused, ssl.SSLCertVerificationError):
        return explain_certificate(refused.verify_code, refused.verify_message, host)
    if refused is not None:
        if not isinstance(error, httpx.ConnectError) and not _is_about_us(refused):
            return ""  # the request was on its way, and may have arrived
        reason = explain_handshake(str(refused.reason or refused), host, has_certificate=bool(network.chain))
        return f"{reason}; {_withheld(f'{parts.scheme}://{parts.netloc}')}" if withheld else reason
    if isinstance(error, httpx.ProxyError) and proxy:
        return explain_proxy(proxy, str(error))
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) and proxy:
        return (
            f"the proxy {redact_url(proxy)} cannot be reached ({str(error) or type(error).__name__}); correct "
            "--a2a-proxy or HTTPS_PROXY, or except the agent's host from it with NO_PROXY or --a2a-proxy none"
        )
    return ""


def explain_certificate(code: int, message: str, host: str) -> str:
    """Return the problem of a server's certificate (``code``: one of OpenSSL's X509_V_ERR_*)."""
    if code in EXPIRED:
        return f"the certificate of {host} has expired; renew it, or correct this machine's clock; {_LAST_RESORT}"
    if code in NOT_YET_VALID:
        return f"the certificate of {host} is not valid yet; correct this machine's clock; {_LAST_RESORT}"
    if code in WRONG_NAME:
        return (
            f"the certificate is for another host than {host} ({message.rstrip('.')}); call the agent by a name that "
            f"is in its certificate, or let it be issued for this one; {_LAST_RESORT}"
        )
    return f"the certificate of {host} is not trusted ({message.rstrip('.')}); {_UNTRUSTED}"


def _is_about_us(error: ssl.SSLError) -> bool:
    """Return whether a server refuses us: it did not process the request then."""
    words = str(error.reason or error).replace("_", " ").lower()
    return "alert" in words and any(w in words for w in _WANTS_US_NOT)


def explain_handshake(reason: str, host: str, *, has_certificate: bool) -> str:
    """Return why a TLS handshake failed, from OpenSSL's reason."""
    words = reason.replace("_", " ").lower()
    if "wrong version number" in words or "record layer failure" in words:
        return f"{host} does not speak TLS there ({words}); is it http:// instead of https://?"
    if "alert" not in words:
        return f"TLS with {host} failed ({words})"
    if not has_certificate and any(w in words for w in _ASKS_FOR_CERTIFICATE):
        return (
            f"{host} asks for a client certificate ({words}); give it with --a2a-client-cert FILE and its key with "
            "--a2a-set client-key=FILE or --a2a-set client-key-env=NAME"
        )
    if has_certificate:
        return f"{host} refuses our certificate ({words}); see who signed that of --a2a-client-cert, and until when"
    return f"{host} refuses the TLS handshake ({words})"


def _withheld(origin: str) -> str:
    return (
        "that of --a2a-client-cert is withheld: the agent card names another origin than the endpoint; if you trust "
        f"it, set {ALLOWED_ORIGINS_ENV}={origin}"
    )


def explain_proxy(proxy: str, answer: str) -> str:
    """Return the remedy for a refusal by a proxy."""
    what = f"the proxy {redact_url(proxy)} refuses the connection ({answer})"
    if "407" in answer:
        return f"{what}; put user and password into its URL in HTTPS_PROXY (http://USER:PASSWORD@HOST:PORT)"
    return f"{what}; correct --a2a-proxy or HTTPS_PROXY, or except the agent's host with NO_PROXY or --a2a-proxy none"


def _handshake_error(error: BaseException | None) -> ssl.SSLError | None:
    """Return the TLS error behind an error; that a handshake needs more bytes, or has ended, is none."""
    for _ in range(8):
        if error is None:
            break
        if isinstance(error, ssl.SSLError) and not isinstance(
            error, ssl.SSLWantReadError | ssl.SSLWantWriteError | ssl.SSLEOFError | ssl.SSLZeroReturnError
        ):
            return error
        error = error.__cause__ or error.__context__
    return None
