"""Where credentials go, and where they must not (pure).

The RPC URL is the agent card's choice, so a card could name any host: a token only ever goes to the origin (scheme,
host, port) of the endpoint that the user gave, and to those that the user allowed.
"""

from __future__ import annotations

import base64
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.a2a.card import AgentCard, host_of, is_bare, read_target
from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.a2a.network import ALLOWED_ORIGINS_ENV
from pytest_a2a_bench.secret import SecretValues

Origin = tuple[str, str, int | None]

_DEFAULT_PORTS = {"http": 80, "https": 443, "grpc": 80, "grpcs": 443}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class AuthParts:
    """What authentication adds to a request; it shows names only."""

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("headers", "query", "cookies"):
            object.__setattr__(self, name, SecretValues(getattr(self, name)))

    def __bool__(self) -> bool:
        return bool(self.headers or self.query or self.cookies)


def origin_of(url: str, endpoint: str = "") -> Origin:
    """Return scheme, host and port of a URL; the names of the loopback interface count as one host.

    gRPC's schemes count as http and https; so do its bare addresses, according to whether they are called with TLS.

    :param endpoint: the user's, which has a say in that.
    :raises ValueError: if it names no host, or none to rely on.
    """
    scheme, host, port = _read_origin(url, endpoint)
    return scheme, "localhost" if host in _LOOPBACK else host, port


def _read_origin(url: str, endpoint: str) -> Origin:
    if is_bare(url):
        host, number = host_of(url)
        return "https" if read_target(url, endpoint).tls else "http", host.lower().rstrip("."), number
    parts = urllib.parse.urlsplit(url)
    scheme = parts.scheme.lower()
    port = parts.port or _DEFAULT_PORTS.get(scheme)
    scheme = {"grpc": "http", "grpcs": "https"}.get(scheme, scheme)
    return scheme, (parts.hostname or "").lower().rstrip("."), port


def may_receive(url: str, config: ClientConfig) -> bool:
    """Tell whether credentials may be sent to a URL."""
    allowed = {origin_of(config.endpoint), *map(origin_of, config.allowed_origins)}
    try:
        return origin_of(url, config.endpoint) in allowed
    except ValueError:
        return False


def place(credentials: Credentials, card: AgentCard | None) -> AuthParts:
    """Put a token where the card's security schemes want it; a bearer token is the default.

    The first requirement that one token can meet decides; a card without requirements lets its first scheme decide.
    """
    token = credentials.token.reveal()
    for scheme in _candidates(card) if card is not None else ():
        parts = _for_scheme(token, scheme)
        if parts is not None:
            return parts
    return _bearer(token)


def explain_refusal(url: str, config: ClientConfig, sent: bool) -> str:
    """Say, for a 401 or 403, what was sent and what to do."""
    if not config.has_credentials:
        return f"no credentials are configured; {config.token_advice}"
    if config.auth is None and not sent and may_receive(url, config):
        return (
            "the agent card offers no OAuth 2 client credentials flow, so no token was asked for; name the token "
            "endpoint with --a2a-oauth-token-url, or put a token in A2A_AUTH_TOKEN"
        )
    source = (config.auth.source if config.auth is not None else "an OAuth 2 token") or "the configured credentials"
    if sent:
        return f"{source} was sent and refused; check its value" + ("" if config.oauth is None else " and scopes")
    what = f"{source} was withheld: the agent card names an interface at another origin than the endpoint"
    try:
        origin = _show_origin(_read_origin(url, config.endpoint))
    except ValueError as error:
        return f"{what} {config.endpoint}, and none that could be allowed ({error}); fix the agent card"
    return f"{what} {config.endpoint}; if you trust it, set {ALLOWED_ORIGINS_ENV}={origin}"


def _show_origin(origin: Origin) -> str:
    """Write an origin as the configuration takes it."""
    scheme, host, port = origin
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}" + ("" if port in (None, _DEFAULT_PORTS.get(scheme)) else f":{port}")


def _candidates(card: AgentCard) -> list[Mapping[str, Any]]:
    # Requirements are alternatives, the schemes within one are needed together (§4.4.1): one token can meet only those
    # that name a single scheme.
    single = [names[0] for names in card.security if len(names) == 1]
    named = [card.security_schemes[n] for n in single if n in card.security_schemes]
    return named or list(card.security_schemes.values())


def _for_scheme(token: str, scheme: Mapping[str, Any]) -> AuthParts | None:
    kind = str(scheme.get("type") or "")
    if kind == "apiKey":
        return _api_key(token, str(scheme.get("in") or "header").lower(), str(scheme.get("name") or ""))
    if kind == "http":
        if str(scheme.get("scheme") or "").lower() != "basic":
            return _bearer(token)
        return AuthParts(headers={"Authorization": f"Basic {_base64(token)}"}) if ":" in token else None
    return _bearer(token) if kind in ("oauth2", "openIdConnect") else None


def _api_key(token: str, location: str, name: str) -> AuthParts | None:
    if not name.isascii() or not name.isprintable() or not name or any(c in name for c in " :;=,"):
        return None
    if location == "query":
        return AuthParts(query={name: token})
    if location == "cookie":
        return AuthParts(cookies={name: token})
    return AuthParts(headers={name: token})


def _bearer(token: str) -> AuthParts:
    return AuthParts(headers={"Authorization": f"Bearer {token}"})


def _base64(token: str) -> str:
    return base64.b64encode(token.encode()).decode()
