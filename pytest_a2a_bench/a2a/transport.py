"""The one place that makes what requests to an agent are sent with: httpx clients and gRPC channels from a Network.

A client chooses proxy and certificate anew for each URL, puts an access token where one is due, and says in words why a
connection was refused: a certificate that is not trusted, one that is out of date, a proxy that wants a password.
"""

from __future__ import annotations

import functools
import os
import re
import ssl
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx

from pytest_a2a_bench.a2a.network import ALLOWED_ORIGINS_ENV, Network, load_certificate, read_directory
from pytest_a2a_bench.a2a.tokens import TokenSource, interceptors, source_of
from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError, MissingExtraError
from pytest_a2a_bench.redact import redact_url

if TYPE_CHECKING:
    import grpc.aio

    from pytest_a2a_bench.a2a.card import GrpcTarget

_NO_LIMITS = httpx.Limits()
_LAST_RESORT = "as the last resort, --a2a-no-verify-ssl accepts any certificate"
_UNTRUSTED = (
    "give the authority that signed it with --a2a-ca FILE (PEM), or trust what this machine trusts with "
    f"--a2a-ca system; {_LAST_RESORT}"
)
# X509_V_ERR_* of OpenSSL.
_ASKS_FOR_CERTIFICATE = ("certificate required", "handshake failure", "bad certificate")
_WANTS_US_NOT = ("certificate", "unknown ca", "handshake failure", "access denied")
_NOT_YET_VALID, _EXPIRED, _WRONG_NAME = (9,), (10,), (62, 64)


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

    :param may_show: tells whether a URL may see our certificate; by default each one may.
    """
    transport = _Transport(network, limits, may_show or (lambda _: True))
    return httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False, follow_redirects=False)


class _Transport(httpx.AsyncBaseTransport):
    """Hands each request to the transport of its route: encrypted or not, through which proxy, with our certificate."""

    def __init__(self, network: Network, limits: httpx.Limits, may_show: Callable[[str], bool]) -> None:
        self._network, self._limits, self._may_show = network, limits, may_show
        self._routes: dict[tuple[bool, str | None, bool, str], httpx.AsyncHTTPTransport] = {}

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
        url = str(request.url)
        proxy = self._network.proxy_for(url)
        network = self._network if self._may_show(url) else self._network.without_certificate()
        route = self._route(url, proxy, network)
        try:
            response = await route.handle_async_request(await self._vetted(request))
        # In TLS 1.3 a server judges our certificate after the handshake, and httpcore lets that error pass as it is.
        except (httpx.TransportError, ssl.SSLError) as error:
            told = explain(error, url, network, proxy, withheld=network is not self._network)
            if told:
                raise RefusedConnection(told, request=request) from error
            if isinstance(error, ssl.SSLError):
                raise httpx.ReadError(str(error), request=request) from error
            raise
        if response.status_code == 407 and proxy and url.lower().startswith("http:"):  # else it comes from the agent
            await response.aclose()
            raise RefusedConnection(_proxy_refused(proxy, "407 Proxy Authentication Required"), request=request)
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

    def _route(self, url: str, proxy: str | None, network: Network) -> httpx.AsyncHTTPTransport:
        encrypted = url.lower().startswith("https:")
        # Where hosts are called by their addresses, two of one address must not share a connection: its certificate was
        # checked for one of them.
        host = httpx.URL(url).host if network.guard is not None else ""
        route = (encrypted, proxy, encrypted and bool(network.chain), host)
        if route not in self._routes:
            # A transport for http needs no authorities, which take long to read, and shall trust none by accident.
            context = tls_context(network) if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._routes[route] = httpx.AsyncHTTPTransport(
                verify=context,
                limits=self._limits,
                proxy=self._through(proxy) if proxy else None,
                trust_env=False,
            )
        return self._routes[route]

    def _through(self, proxy: str) -> httpx.Proxy:
        if not proxy.lower().startswith("https:"):
            return httpx.Proxy(proxy)
        return httpx.Proxy(proxy, ssl_context=tls_context(self._network.without_certificate()))

    async def aclose(self) -> None:
        """Close all connections."""
        routes, self._routes = self._routes, {}
        for transport in routes.values():
            await transport.aclose()


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
    proxy = _proxy_of(target, network)
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
    parts = urllib.parse.urlsplit(f"//{_authority(target.address)}")
    host, port = parts.hostname or "", parts.port or (443 if target.tls else 80)
    address = network.guard.vet_now(host, port)
    place = f"ipv6:[{address}]:{port}" if ":" in address else f"ipv4:{address}:{port}"
    named = [("grpc.default_authority", f"{host}:{port}")]
    if target.tls:
        named.append(("grpc.ssl_target_name_override", host))
    return target._replace(address=place), [*options, *named]


def _proxy_of(target: GrpcTarget, network: Network) -> str | None:
    return network.proxy_for(f"{'https' if target.tls else 'http'}://{_authority(target.address)}")


def _authority(address: str) -> str:
    """Return host and port of an address, without the name of a resolver."""
    place = re.sub(r"^(?:dns|ipv4|ipv6):(?://[^/]*/)?", "", address)
    return place.strip("/") or address


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


# -- why a connection was refused --


def explain(error: BaseException, url: str, network: Network, proxy: str | None, *, withheld: bool = False) -> str:
    """Say why there is no connection and what to do; empty where the error says all that is known.

    :param withheld: whether our certificate is one that this URL may not see.
    """
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or url
    refused = _handshake_error(error)
    if isinstance(refused, ssl.SSLCertVerificationError):
        return _explain_certificate(refused.verify_code, refused.verify_message, host)
    if refused is not None:
        if not isinstance(error, httpx.ConnectError) and not _is_about_us(refused):
            return ""  # the request was on its way, and may have arrived
        told = _explain_handshake(str(refused.reason or refused), host, has_certificate=bool(network.chain))
        return f"{told}; {_withheld(f'{parts.scheme}://{parts.netloc}')}" if withheld else told
    if isinstance(error, httpx.ProxyError) and proxy:
        return _proxy_refused(proxy, str(error))
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) and proxy:
        return (
            f"the proxy {redact_url(proxy)} cannot be reached ({str(error) or type(error).__name__}); correct "
            "--a2a-proxy or HTTPS_PROXY, or except the agent's host from it with NO_PROXY or --a2a-proxy none"
        )
    return ""


def explain_grpc(details: str, target: GrpcTarget, network: Network) -> str:
    """Do what :func:`explain` does with the text that gRPC has for an error."""
    text = details.upper().replace(" ", "_")
    host = target.address.rpartition(":")[0] or target.address
    if "CERTIFICATE_HAS_EXPIRED" in text:
        return _explain_certificate(_EXPIRED[0], "certificate has expired", host)
    if "NOT_YET_VALID" in text:
        return _explain_certificate(_NOT_YET_VALID[0], "certificate is not yet valid", host)
    if "IS_NOT_IN_PEER_CERTIFICATE" in text or "HOSTNAME_VERIFICATION" in text:
        return _explain_certificate(_WRONG_NAME[0], "it has no such name", host)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = details.rpartition("CERTIFICATE_VERIFY_FAILED")[2].strip(" :") or "it cannot be verified"
        return _explain_certificate(0, reason[:120], host)
    if "ALERT" in text or "WRONG_VERSION_NUMBER" in text:
        return _explain_handshake(text, host, has_certificate=bool(network.chain))
    proxy = _proxy_of(target, network)
    if proxy and "PROXY" in text:
        return _proxy_refused(proxy, details[:200])
    if "FAILED_TO_CONNECT" in text and "SOCKET_CLOSED" in text and target.tls and not network.chain:
        # gRPC keeps what the server said to itself.
        return (
            f"{host} closed the connection at once; if it asks for a client certificate, give that with "
            "--a2a-client-cert FILE and its key with --a2a-client-key FILE or --a2a-client-key-env NAME"
        )
    return ""


def _explain_certificate(code: int, message: str, host: str) -> str:
    if code in _EXPIRED:
        return f"the certificate of {host} has expired; renew it, or correct this machine's clock; {_LAST_RESORT}"
    if code in _NOT_YET_VALID:
        return f"the certificate of {host} is not valid yet; correct this machine's clock; {_LAST_RESORT}"
    if code in _WRONG_NAME:
        return (
            f"the certificate is for another host than {host} ({message.rstrip('.')}); call the agent by a name that "
            f"is in its certificate, or let it be issued for this one; {_LAST_RESORT}"
        )
    return f"the certificate of {host} is not trusted ({message.rstrip('.')}); {_UNTRUSTED}"


def _is_about_us(error: ssl.SSLError) -> bool:
    """Tell whether a server does not want to deal with us: whatever we sent, it did not work on that."""
    words = str(error.reason or error).replace("_", " ").lower()
    return "alert" in words and any(w in words for w in _WANTS_US_NOT)


def _explain_handshake(reason: str, host: str, *, has_certificate: bool) -> str:
    words = reason.replace("_", " ").lower()
    if "wrong version number" in words or "record layer failure" in words:
        return f"{host} does not speak TLS there ({words}); is it http:// instead of https://?"
    if "alert" not in words:
        return f"TLS with {host} failed ({words})"
    if not has_certificate and any(w in words for w in _ASKS_FOR_CERTIFICATE):
        return (
            f"{host} asks for a client certificate ({words}); give it with --a2a-client-cert FILE and its key with "
            "--a2a-client-key FILE or --a2a-client-key-env NAME"
        )
    if has_certificate:
        return f"{host} refuses our certificate ({words}); see who signed that of --a2a-client-cert, and until when"
    return f"{host} refuses the TLS handshake ({words})"


def _withheld(origin: str) -> str:
    return (
        "that of --a2a-client-cert is withheld: the agent card names another origin than the endpoint; if you trust "
        f"it, set {ALLOWED_ORIGINS_ENV}={origin}"
    )


def _proxy_refused(proxy: str, answer: str) -> str:
    what = f"the proxy {redact_url(proxy)} refuses the connection ({answer})"
    if "407" in answer:
        return f"{what}; put user and password into its URL in HTTPS_PROXY (http://USER:PASSWORD@HOST:PORT)"
    return f"{what}; correct --a2a-proxy or HTTPS_PROXY, or except the agent's host with NO_PROXY or --a2a-proxy none"


def _handshake_error(error: BaseException | None) -> ssl.SSLError | None:
    """Return the trouble with TLS behind an error; that a handshake needs more bytes, or has ended, is none."""
    for _ in range(8):
        if error is None:
            break
        if isinstance(error, ssl.SSLError) and not isinstance(
            error, ssl.SSLWantReadError | ssl.SSLWantWriteError | ssl.SSLEOFError | ssl.SSLZeroReturnError
        ):
            return error
        error = error.__cause__ or error.__context__
    return None
