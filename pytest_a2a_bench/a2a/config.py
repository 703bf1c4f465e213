"""What a connection to an agent is asked to do: a frozen, validated value."""

from __future__ import annotations

import dataclasses
import math
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_a2a_bench import env_file
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model.bounds import DEFAULT_BOUNDS, Bounds
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.settings import PROTOCOLS, STREAMING, TRANSPORTS

if TYPE_CHECKING:
    from pytest_a2a_bench.settings import Settings

ALLOWED_ORIGINS_ENV = "A2A_ALLOWED_ORIGINS"
"""Environment variable: origins, separated by commas, to which credentials may also go."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A secret for the agent; where it goes in a request is decided by the agent card's security schemes.

    :param token: a bearer token, an API key, or ``user:password`` for HTTP basic.
    :param source: the environment variable that it was read from, for messages.
    """

    token: str = dataclasses.field(repr=False)
    source: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not leave this package: the token, and the password in it if it is ``user:password``."""
        password = self.token.partition(":")[2]
        return (self.token, password) if password else (self.token,)

    def __repr__(self) -> str:
        return f"Credentials(token='***', source={self.source!r})"


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How to reach and to drive one agent.

    :param endpoint: base URL of the agent, or the URL of its card.
    :param streaming: ``auto`` sends blocking messages, and streams only after the agent refused a blocking one.
    :param timeout: seconds for one whole turn: retries, streaming and polling included.
    :param read_timeout: most seconds without a byte; None leaves it to ``timeout``.
    :param max_retries: repetitions of one request after trouble of the transport.
    :param poll_interval: seconds before the first GetTask of an unfinished a2a_task; grows to ``poll_max_interval``.
    :param bounds: how much of the agent's answers is read; one that is beyond it ends the conversation.
    :param hidden: other secrets than the agent's that must not be shown: of the language models' providers.
    :param allowed_origins: origins beside the endpoint's own to which credentials may go.
    :param wait: seconds to wait until a freshly started agent answers.
    """

    endpoint: str
    protocol: str = "auto"
    transport: str = "auto"
    streaming: str = "auto"
    timeout: float = 300.0
    connect_timeout: float = 10.0
    read_timeout: float | None = None
    verify_ssl: bool = True
    auth: Credentials | None = None
    max_retries: int = 3
    backoff_base: float = 0.5
    backoff_max: float = 30.0
    poll_interval: float = 0.05
    poll_max_interval: float = 5.0
    bounds: Bounds = DEFAULT_BOUNDS
    hidden: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    allowed_origins: tuple[str, ...] = ()
    wait: float = 0.0
    max_connections: int = 512

    def __post_init__(self) -> None:
        problems = [*_endpoint_problems(self.endpoint), *self._choice_problems(), *self._number_problems()]
        problems += _token_problems(self.auth)
        for origin in self.allowed_origins:
            problems += [f"allowed_origins: {p}" for p in _url_problems(origin, ("http", "https", "grpc", "grpcs"))]
        if problems:
            raise ConfigurationError("client configuration: " + "; ".join(problems))

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not leave this package: the token, a password in it, and what is hidden besides."""
        return (*(self.auth.secrets if self.auth is not None else ()), *self.hidden)

    def _choice_problems(self) -> Iterator[str]:
        for name, choices in (("protocol", PROTOCOLS), ("transport", TRANSPORTS), ("streaming", STREAMING)):
            value = getattr(self, name)
            if value not in choices:
                yield f"{name} is {value!r}; use one of {', '.join(choices)}"

    def _number_problems(self) -> Iterator[str]:
        positive = ("timeout", "connect_timeout", "read_timeout", "poll_interval", "poll_max_interval")
        for name in (*positive, "max_connections"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                yield f"{name} is {value!r}; use a number above 0"
        for name in ("max_retries", "backoff_base", "backoff_max", "wait"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                yield f"{name} is {value!r}; use 0 or a number above it"

    @classmethod
    def from_settings(cls, settings: Settings, environ: Mapping[str, str]) -> ClientConfig:
        """Make the configuration that a run's settings ask for; the token is read from the environment here.

        :raises ConfigurationError: if there is no endpoint, or something is wrong with a value.
        """
        if not settings.endpoint:
            raise ConfigurationError("no agent to talk to; give --a2a-endpoint URL")
        token = environ.get(settings.auth_env, "").strip()
        origins = tuple(o.strip() for o in environ.get(ALLOWED_ORIGINS_ENV, "").split(",") if o.strip())
        return cls(
            endpoint=settings.endpoint,
            protocol=settings.protocol,
            transport=settings.transport,
            streaming=settings.streaming,
            timeout=settings.timeout,
            verify_ssl=settings.verify_ssl,
            auth=Credentials(token, settings.auth_env) if token else None,
            allowed_origins=origins,
            wait=settings.wait,
            hidden=env_file.secrets(settings.env_file),
            bounds=Bounds.of(settings.reply_limits),
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


def _token_problems(auth: Credentials | None) -> list[str]:
    if auth is None:
        return []
    where = auth.source or "auth"
    if not auth.token:
        return [f"{where} is empty"]
    if not auth.token.isascii() or not auth.token.isprintable():
        return [f"{where} holds a character that no HTTP header can carry (a line break?)"]
    return []
