"""Authentication of requests to an agent: where a token goes, and OAuth 2's client credentials.

The agent chooses its card, and so the RPC URL and the token URL in it. A token only goes to the origin (scheme, host,
port) of the endpoint that the user gave, and to those that the user allowed (:func:`.config.may_receive`); an OAuth
client's secret to the URL of ``oauth-token-url``, or to a URL on the card at one of these origins (RFC 6749 §4.4).
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from pytest_a2a_bench.a2a.bodies import as_object, as_objects, excerpt, parse_json
from pytest_a2a_bench.a2a.card import DEFAULT_PORTS, AgentCard, Origin, read_origin
from pytest_a2a_bench.a2a.config import (
    ALLOWED_ORIGINS_ENV,
    AuthParts,
    ClientConfig,
    Credentials,
    OAuthClient,
    may_receive,
    remember_token,
)
from pytest_a2a_bench.a2a.network import Network
from pytest_a2a_bench.a2a.transport import Issued, TokenSource, bearer, open_client, source_of
from pytest_a2a_bench.errors import AuthenticationError, MissingExtraError, ProtocolError, TransportError
from pytest_a2a_bench.redact import hide_secrets, redact_url


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
    """Describe, for a 401 or 403, the credentials that were sent, and the remedy."""
    if not config.has_credentials:
        return f"no credentials are configured; {config.token_advice}"
    if config.auth is None and not sent and may_receive(url, config):
        return (
            "the agent card offers no OAuth 2 client credentials flow, so no token was asked for; name the token "
            "endpoint with oauth-token-url, or put a token in A2A_AUTH_TOKEN"
        )
    source = (config.auth.source if config.auth is not None else "an OAuth 2 token") or "the configured credentials"
    if sent:
        return f"{source} was sent and refused; check its value" + ("" if config.oauth is None else " and scopes")
    what = f"{source} was withheld: the agent card names an interface at another origin than the endpoint"
    try:
        origin = _show_origin(read_origin(url, config.endpoint))
    except ValueError as error:
        return f"{what} {config.endpoint}, and none that could be allowed ({error}); fix the agent card"
    return f"{what} {config.endpoint}; if you trust it, set {ALLOWED_ORIGINS_ENV}={origin}"


def _show_origin(origin: Origin) -> str:
    """Write an origin as the configuration takes it."""
    scheme, host, port = origin
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}" + ("" if port in (None, DEFAULT_PORTS.get(scheme)) else f":{port}")


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
        return AuthParts(headers={"Cookie": f"{name}={token}"})
    return AuthParts(headers={name: token})


def _bearer(token: str) -> AuthParts:
    return AuthParts(headers={"Authorization": f"Bearer {token}"})


def _base64(token: str) -> str:
    return base64.b64encode(token.encode()).decode()


# --- OAuth 2 client credentials ---

_SECONDS = 30.0
_MAX_BODY = 256 * 1024


@dataclass(frozen=True, slots=True)
class Grant:
    """The request for a token: endpoint, client, scopes."""

    client: OAuthClient
    token_url: str
    scopes: tuple[str, ...] = ()


def authentication(config: ClientConfig, card: AgentCard | None) -> AuthParts:
    """Return the authentication of requests to an agent: a token to be issued, the configured one, or none.

    :param card: decides where it goes; None before it is known.
    :raises AuthenticationError: if the card names a token URL that the client's secret must not go to.
    :raises MissingExtraError: if OAuth is to be used and its extra is not installed.
    """
    grant = find_grant(config, card)
    if grant is not None:
        return AuthParts(headers={"Authorization": bearer(_source(grant, config.network))})
    return place(config.auth, card) if config.auth is not None else AuthParts()


async def obtain(config: ClientConfig, card: AgentCard) -> None:
    """Request the token that a card asks for, if any, so that a refusal is raised before it is needed.

    :raises AuthenticationError: if there is none to be had.
    :raises TransportError: if the token endpoint fails.
    """
    source = source_of(authentication(config, card).headers.get("Authorization", ""))
    if source is not None:
        await source.token()


def find_grant(config: ClientConfig, card: AgentCard | None) -> Grant | None:
    """Return the grant that a card asks for and that the configuration can meet; None where there is none.

    :raises AuthenticationError: if it names a token URL that the client's secret must not go to.
    """
    client = config.oauth
    if client is None:
        return None
    flow, required = next(_flows(card), (None, ())) if card is not None else (None, ())
    scopes = client.scopes or required
    who = dataclasses.replace(client, token_url="", scopes=())  # one grant, whether the user or the card named its URL
    if client.token_url:
        return Grant(who, client.token_url, scopes)
    if flow is None:
        return None
    url = str(flow.get("tokenUrl") or "")
    if not may_receive(url, config):
        raise AuthenticationError(
            f"the agent card of {config.endpoint} names the token URL {redact_url(url)[:300]!r}, at another "
            "origin: the client's secret does not go there on the card's word. If it is right, say so with "
            f"--a2a-set oauth-token-url={redact_url(url)[:300]} (or allow its origin in {ALLOWED_ORIGINS_ENV})"
        )
    return Grant(who, url, scopes)


def _flows(card: AgentCard) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Yield the client credentials flows of a card, with the scopes that its requirements name."""
    required = _required_scopes(card.raw)
    for name, scheme in card.security_schemes.items():
        flow = as_object(as_object(scheme.get("flows")).get("clientCredentials"))
        if scheme.get("type") == "oauth2" and flow.get("tokenUrl"):
            # Without requirements nothing says which of its scopes are needed: all of them, then.
            yield flow, required.get(name, ()) if card.security else tuple(map(str, as_object(flow.get("scopes"))))


def _required_scopes(raw: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the scopes of each scheme's first requirement: a list in 0.3, a list in an object in 1.0 (§4.5.1)."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in as_objects(raw.get("securityRequirements") or raw.get("security")):
        schemes = entry["schemes"] if isinstance(entry.get("schemes"), Mapping) else entry
        for name, scopes in schemes.items():
            listed = scopes.get("list") if isinstance(scopes, Mapping) else scopes
            found.setdefault(str(name), tuple(map(str, listed)) if isinstance(listed, list) else ())
    return found


# -- asking for a token --


@functools.lru_cache(maxsize=64)
def _source(grant: Grant, network: Network) -> TokenSource:
    """Return the one source of a grant's tokens in this process."""
    try:
        import authlib.oauth2  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("authlib", "oauth", str(error)) from error
    return TokenSource(functools.partial(request_token, grant, network))


async def request_token(grant: Grant, network: Network) -> Issued:
    """Ask for a token.

    :raises AuthenticationError: if the server refuses.
    :raises TransportError: if it cannot be reached, or fails.
    """
    from authlib.oauth2.auth import ClientAuth
    from authlib.oauth2.rfc6749.parameters import prepare_token_request

    client = grant.client
    scope = {"scope": " ".join(grant.scopes)} if grant.scopes else {}
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    prepare = ClientAuth(client.client_id, client.client_secret, f"client_secret_{client.method}").prepare
    url, headers, body = prepare(
        "POST", grant.token_url, headers, prepare_token_request("client_credentials", "", **scope)
    )
    where = f"token endpoint {redact_url(grant.token_url, query=False)}"
    try:
        async with asyncio.timeout(_SECONDS), open_client(network, timeout=_SECONDS) as http:
            status, answer = await _post(http, url, headers, body)
    except (TimeoutError, httpx.TimeoutException) as error:
        raise TransportError(f"{where}: no answer within {_SECONDS:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise TransportError(f"{where}: cannot be asked ({str(error) or type(error).__name__})") from error
    return _read(where, client, status, answer)


async def _post(http: httpx.AsyncClient, url: str, headers: Mapping[str, str], body: str) -> tuple[int, bytes]:
    async with http.stream("POST", url, headers=headers, content=body.encode()) as response:
        answer = bytearray()
        async for chunk in response.aiter_bytes():
            answer += chunk
            if len(answer) > _MAX_BODY:
                break
        return response.status_code, bytes(answer[:_MAX_BODY])


def _read(where: str, client: OAuthClient, status: int, body: bytes) -> Issued:
    try:
        answer = as_object(parse_json(body))
    except ProtocolError:
        answer = {}
    token = answer.get("access_token")
    if status == 200 and isinstance(token, str) and token.isascii() and token.isprintable() and token.strip():
        remember_token(token)
        return Issued(token, _seconds(answer.get("expires_in")))
    error, description = answer.get("error"), answer.get("error_description")
    said = ": ".join(str(s) for s in (error, description) if s) or (excerpt(body) if body else "nothing")
    message = hide_secrets(f"{where}: HTTP {status}, saying {said[:400]}", client.secrets)
    if status == 429 or status >= 500:
        raise TransportError(message, status_code=status)
    if status == 200:
        raise AuthenticationError(
            f"{message}; expected an access_token (RFC 6749 §5.1); is it the token endpoint's URL?"
        )
    other = "post" if client.method == "basic" else "basic"
    raise AuthenticationError(
        f"{message}; check {client.id_source} and {client.secret_source}, the scopes (oauth-scopes), and whether "
        f"the server wants --a2a-set oauth-method={other}"
    )


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < 1e9 else None
