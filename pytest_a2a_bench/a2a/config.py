"""How to reach and to drive an agent: endpoint, credentials, limits; read from settings and validated."""

from __future__ import annotations

import dataclasses
import math
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.a2a.card import origin_of
from pytest_a2a_bench.a2a.network import USUAL, Network, read_variable
from pytest_a2a_bench.config.settings import AUTH_ENV, OAUTH_METHODS, PROTOCOLS, STREAMING, TRANSPORTS, Settings
from pytest_a2a_bench.errors import ConfigurationError, collect_errors, raise_errors
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, Bounds
from pytest_a2a_bench.redact import KNOWN, KnownSecret, Secret, SecretUrl, SecretValues, in_url, redact_url

ALLOWED_ORIGINS_ENV = "A2A_ALLOWED_ORIGINS"
"""Environment variable: origins, separated by commas, to which credentials may also go."""


@dataclass(frozen=True, slots=True, init=False)
class Credentials:
    """A secret for the agent; the agent card's security schemes decide where it goes in a request.

    :param token: a bearer token, an API key, or ``user:password`` for HTTP basic.
    :param source: the environment variable that it was read from, for messages.
    """

    token: Secret
    source: str

    def __init__(self, token: str | Secret, source: str = "") -> None:
        object.__setattr__(self, "token", token if isinstance(token, Secret) else Secret(token))
        object.__setattr__(self, "source", source)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The strings to redact: the token, and the password in it if it is ``user:password``."""
        token = self.token.reveal()
        password = token.partition(":")[2]
        return (token, password) if password else (token,)

    def problems(self) -> Iterator[str]:
        """Yield the reasons why a request cannot carry it."""
        if not self.token:
            yield f"{self.source or 'auth'} is empty"
        elif not _is_header_value(self.token.reveal()):
            yield f"{self.source or 'auth'} holds a character that no HTTP header can carry (a line break?)"


@dataclass(frozen=True, slots=True)
class AuthParts:
    """The headers and parameters of authentication; it shows names only."""

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("headers", "query"):
            object.__setattr__(self, name, SecretValues(getattr(self, name)))

    def __bool__(self) -> bool:
        return bool(self.headers or self.query)


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """An OAuth 2 client at an authorization server (RFC 6749 §2.3.1), and the scope of its tokens.

    :param token_url: the token endpoint; empty uses the one on the agent's card.
    :param scopes: the requested scopes; empty uses those on the card.
    :param method: how the client authenticates: ``basic`` (in a header) or ``post`` (in the form).
    :param id_source: the environment variables that both were read from, for messages.
    """

    client_id: str
    client_secret: str = field(repr=False)
    token_url: str = ""
    scopes: tuple[str, ...] = ()
    method: str = "basic"
    id_source: str = "the client's id"
    secret_source: str = "its secret"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The strings to redact: the secret, alone and as HTTP's basic credentials."""
        return (self.client_secret, f"{self.client_id}:{self.client_secret}")

    def problems(self) -> Iterator[str]:
        """Yield the reasons why no token can be requested with it."""
        for source, value in ((self.id_source, self.client_id), (self.secret_source, self.client_secret)):
            if not value or not _is_header_value(value):
                yield f"{source} is empty, or holds a character that no HTTP header can carry (a line break?)"
        if self.method not in OAUTH_METHODS:
            yield f"oauth.method is {self.method!r}; use one of {', '.join(OAUTH_METHODS)}"
        if self.token_url:
            yield from (f"oauth.token_url: {p}" for p in _url_problems(self.token_url, ("https", "http")))


def _is_header_value(text: str) -> bool:
    return text.isascii() and text.isprintable()


_KEPT_TOKENS = 8
_issued: deque[tuple[KnownSecret, Callable[[], None]]] = deque()


def remember_token(token: str) -> None:
    """Redact an access token from now on. Only the latest are kept: one from hours ago has expired."""
    known = KnownSecret("the access token", token)
    _issued.append((known, KNOWN.remember([known])))
    forget_tokens(_KEPT_TOKENS)


def forget_tokens(keep: int = 0) -> None:
    """Redact no access tokens any more but the latest."""
    while len(_issued) > keep:
        _issued.popleft()[1]()


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How to reach and to drive one agent.

    :param endpoint: base URL of the agent, or the URL of its card.
    :param auth: a token, used where no OAuth 2 token can be requested.
    :param oauth: the OAuth client, used where the card offers OAuth 2's client credentials.
    :param network: certificates, authorities and proxies of every connection.
    :param streaming: ``auto`` streams where the card says that the agent can, until the agent refuses that.
    :param timeout: seconds for one whole turn: retries, streaming and polling included.
    :param read_timeout: most seconds without a byte; None leaves it to ``timeout``.
    :param stall_timeout: most seconds of silence within a streamed answer, from its first event on.
    :param max_retries: repetitions of one request after a transport error.
    :param poll_interval: seconds before the first GetTask of an unfinished task; grows to ``poll_max_interval``.
    :param bounds: how much of the agent's answers is read; an answer beyond it ends the conversation.
    :param allowed_origins: origins beside the endpoint's own to which credentials may go.
    :param wait: seconds to wait until a freshly started agent answers.
    :param token_advice: how to give it a token, for the message after a refusal.
    :param max_connections: most connections at a time; None for as many as there are requests under way.
    :param rate: most messages to the agent in a second, of all conversations of a connection; None for any number.
    """

    endpoint: str
    protocol: str = "auto"
    transport: str = "auto"
    streaming: str = "auto"
    timeout: float = 300.0
    connect_timeout: float = 10.0
    read_timeout: float | None = None
    stall_timeout: float = 120.0
    auth: Credentials | None = None
    oauth: OAuthClient | None = None
    network: Network = USUAL
    max_retries: int = 3
    backoff_base: float = 0.5
    backoff_max: float = 30.0
    poll_interval: float = 0.05
    poll_max_interval: float = 5.0
    bounds: Bounds = DEFAULT_BOUNDS
    allowed_origins: tuple[str, ...] = ()
    wait: float = 0.0
    max_connections: int | None = None
    rate: float | None = None
    token_advice: str = f"put a token in {AUTH_ENV} (or name another with --a2a-auth-env)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoint", SecretUrl(self.endpoint))
        problems = [*_endpoint_problems(self.endpoint), *self._choice_problems(), *self._number_problems()]
        for credentials in (self.auth, self.oauth):
            problems += credentials.problems() if credentials is not None else ()
        for origin in self.allowed_origins:
            problems += [f"allowed_origins: {p}" for p in _url_problems(origin, ("http", "https", "grpc", "grpcs"))]
        if problems:
            raise ConfigurationError("client configuration: " + "; ".join(problems))

    @property
    def secrets(self) -> tuple[str, ...]:
        """The strings to redact."""
        return tuple(dict.fromkeys(secret.text for secret in self.known))

    @property
    def has_credentials(self) -> bool:
        """Whether there is anything to authenticate with."""
        return self.auth is not None or self.oauth is not None

    @property
    def known(self) -> tuple[KnownSecret, ...]:
        """The strings to redact, by name: of token, OAuth client, key, proxies, and the endpoint's query."""
        found: list[KnownSecret] = []
        if self.auth is not None:
            found += [KnownSecret(self.auth.source or "the token", text) for text in self.auth.secrets]
        if self.oauth is not None:
            found += [KnownSecret(self.oauth.secret_source, text) for text in self.oauth.secrets]
        found += [KnownSecret("the key's passphrase, or a proxy's password", text) for text in self.network.secrets]
        return (*found, *(known for known, _ in _issued), *in_url("the endpoint", self.endpoint))

    def _choice_problems(self) -> Iterator[str]:
        for name, choices in (("protocol", PROTOCOLS), ("transport", TRANSPORTS), ("streaming", STREAMING)):
            value = getattr(self, name)
            if value not in choices:
                yield f"{name} is {value!r}; use one of {', '.join(choices)}"

    def _number_problems(self) -> Iterator[str]:
        positive = ("timeout", "connect_timeout", "read_timeout", "stall_timeout", "poll_interval", "poll_max_interval")
        for name in (*positive, "max_connections", "rate"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                yield f"{name} is {value!r}; use a number above 0"
        for name in ("max_retries", "backoff_base", "backoff_max", "wait"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                yield f"{name} is {value!r}; use 0 or a number above it"

    @classmethod
    def from_settings(cls, settings: Settings, environ: Mapping[str, str]) -> ClientConfig:
        """Make the configuration of a run; secrets and files are read here.

        :raises ConfigurationError: if there is no endpoint, or values are wrong, naming all that are.
        """
        if not settings.endpoint:
            raise ConfigurationError("no agent to talk to; give --a2a-endpoint URL")
        found: dict[str, Any] = {}
        # Recordings need no credentials.
        from_where = (Settings(), {}) if settings.replay is not None else (settings, environ)
        raise_errors(*_connection_steps(*from_where, found))
        origins = tuple(o.strip() for o in environ.get(ALLOWED_ORIGINS_ENV, "").split(",") if o.strip())
        return cls(
            endpoint=settings.endpoint,
            protocol=settings.protocol,
            transport=settings.transport,
            streaming=settings.streaming,
            timeout=settings.timeout,
            stall_timeout=settings.stall_timeout,
            **found,
            allowed_origins=origins,
            wait=settings.wait,
            rate=settings.rate,
            bounds=Bounds.of(settings.reply_limits),
        )


def may_receive(url: str, config: ClientConfig) -> bool:
    """Return whether credentials may be sent to a URL."""
    allowed = {origin_of(config.endpoint), *map(origin_of, config.allowed_origins)}
    try:
        return origin_of(url, config.endpoint) in allowed
    except ValueError:
        return False


def party_config(
    settings: Settings, environ: Mapping[str, str], endpoint: str, auth_env: str | None, option: str
) -> ClientConfig:
    """Make the configuration for an agent beside the one under test, which gets none of that one's credentials.

    :param auth_env: the environment variable that holds its token; None for no token.
    :param option: the option that names it.
    :raises ConfigurationError: naming all that is wrong.
    """
    plain = dataclasses.replace(
        settings, client_cert=None, client_key=None, client_key_env=None, client_passphrase_env=None
    )
    found: dict[str, Any] = {}

    def read_token() -> None:
        if auth_env is not None:
            found["auth"] = Credentials(read_variable(option, auth_env, environ), auth_env)

    raise_errors(read_token, lambda: found.update(network=Network.from_settings(plain, environ)))
    return ClientConfig(
        endpoint=endpoint,
        timeout=settings.timeout,
        stall_timeout=settings.stall_timeout,
        wait=settings.wait,
        bounds=Bounds.of(settings.reply_limits),
        token_advice=f"name the environment variable that holds its token with {option}",
        **found,
    )


def environ_of_party(auth_env: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for an agent beside the one under test, without that one's usual credentials.

    :param auth_env: the variable of its own token, which it keeps whatever its name is.
    """
    usual = Settings()
    hidden = {AUTH_ENV, usual.oauth_client_id_env, usual.oauth_client_secret_env} - {auth_env}
    return {name: value for name, value in environ.items() if name not in hidden}


def connection_problems(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Return the problems of the variables and files that settings name, except for the endpoint."""
    return collect_errors(*_connection_steps(settings, environ, {}))


def _connection_steps(
    settings: Settings, environ: Mapping[str, str], found: dict[str, Any]
) -> Iterator[Callable[[], object]]:
    """Yield the steps that read credentials and network, each file once, into members of a :class:`ClientConfig`."""
    yield lambda: found.update(auth=_read_token(settings, environ))
    yield lambda: found.update(oauth=_read_oauth(settings, environ))
    yield lambda: found.update(network=Network.from_settings(settings, environ))


def _read_token(settings: Settings, environ: Mapping[str, str]) -> Credentials | None:
    # One of several agents need not want any.
    if settings.auth_env is None or settings.agent is not None:
        name = settings.auth_env or AUTH_ENV
        token = environ.get(name, "")
        if token.isspace():
            raise ConfigurationError(f"{name} has nothing but blanks; give it the agent's token, or unset it")
        return Credentials(token.strip(), name) if token else None
    return Credentials(read_variable("--a2a-auth-env", settings.auth_env, environ), settings.auth_env)


def _read_oauth(settings: Settings, environ: Mapping[str, str]) -> OAuthClient | None:
    """Read the OAuth client; there is one where both variables are set, or where an option asks for one."""
    id_env, secret_env = settings.oauth_client_id_env, settings.oauth_client_secret_env
    is_set = [bool(environ.get(name, "").strip()) for name in (id_env, secret_env)]
    if not any(is_set) and settings.oauth_token_url is None:
        return None
    found: list[str] = []
    raise_errors(
        lambda: found.append(read_variable("oauth-client-id-env", id_env, environ)),
        lambda: found.append(read_variable("oauth-client-secret-env", secret_env, environ)),
    )
    return OAuthClient(
        client_id=found[0],
        client_secret=found[1],
        token_url=settings.oauth_token_url or "",
        scopes=settings.oauth_scopes,
        method=settings.oauth_method,
        id_source=id_env,
        secret_source=secret_env,
    )


def _endpoint_problems(endpoint: str) -> list[str]:
    if endpoint.startswith("builtin:"):
        return [f"endpoint is {endpoint!r}: a built-in agent must be started first, and its URL given here"]
    return [f"endpoint is {redact_url(endpoint)!r}: {p}" for p in _url_problems(endpoint, ("http", "https"))]


def _url_problems(url: str, schemes: tuple[str, ...]) -> list[str]:
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return [f"not a URL ({error}); use {schemes[0]}://HOST:PORT"]
    if parts.scheme.lower() not in schemes or not host:
        return [f"not an absolute URL; use {' or '.join(schemes)}, such as {schemes[0]}://127.0.0.1:9999"]
    problems = []
    if parts.username or parts.password:
        problems.append("credentials do not belong in a URL; put the token in the environment (A2A_AUTH_TOKEN)")
    if any(c <= " " for c in url):
        problems.append("a URL has no spaces or control characters")
    return problems
