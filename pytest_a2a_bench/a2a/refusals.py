"""Why a connection was refused, in words, and what to do (pure): httpx, OpenSSL and gRPC tell it to programmers."""

from __future__ import annotations

import ssl
import urllib.parse
from typing import TYPE_CHECKING

import httpx

from pytest_a2a_bench.a2a.network import ALLOWED_ORIGINS_ENV, Network
from pytest_a2a_bench.redact import redact_url

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.card import GrpcTarget

_LAST_RESORT = "as the last resort, --a2a-no-verify-ssl accepts any certificate"
_UNTRUSTED = (
    "give the authority that signed it with --a2a-ca FILE (PEM), or trust what this machine trusts with "
    f"--a2a-ca system; {_LAST_RESORT}"
)
# X509_V_ERR_* of OpenSSL.
_ASKS_FOR_CERTIFICATE = ("certificate required", "handshake failure", "bad certificate")
_WANTS_US_NOT = ("certificate", "unknown ca", "handshake failure", "access denied")
_NOT_YET_VALID, _EXPIRED, _WRONG_NAME = (9,), (10,), (62, 64)


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
        return explain_proxy(proxy, str(error))
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
    proxy = network.proxy_for(target.url)
    if proxy and "PROXY" in text:
        return explain_proxy(proxy, details[:200])
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


def explain_proxy(proxy: str, answer: str) -> str:
    """Say what to do where a proxy refused with an answer."""
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
