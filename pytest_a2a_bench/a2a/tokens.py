"""Access tokens that end while a connection lives: issued once for all conversations of a process, and renewed in time.

A wire is made once and its headers with it, so they carry a placeholder; what sends the request puts the token there.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pytest_a2a_bench.errors import InfrastructureError
from pytest_a2a_bench.secret import KNOWN, KnownSecret

_BEARER = "Bearer "
_MARGIN = 60.0
"""Seconds before its end at which a token is renewed; of a short life a fifth."""

_UNTOLD = 600.0
"""Seconds that a token is taken to live for if the server does not say."""

_AGAIN = 5.0
"""Seconds until the next try, where renewing failed and the old token has not ended."""


class Issued(NamedTuple):
    """A token as the server gave it.

    :param lifetime: seconds from now; None where it does not say.
    """

    token: str
    lifetime: float | None


_LATEST = 8
_remembered: deque[tuple[KnownSecret, Callable[[], None]]] = deque()


def remember(token: str) -> None:
    """Hide a token wherever secrets are hidden. The latest are kept; one from hours ago opens nothing."""
    known = KnownSecret("the access token", token)
    _remembered.append((known, KNOWN.remember([known])))
    forget_tokens(_LATEST)


def forget_tokens(keep: int = 0) -> None:
    """Hide no tokens any more but the latest."""
    while len(_remembered) > keep:
        _remembered.popleft()[1]()


def issued_tokens() -> tuple[KnownSecret, ...]:
    """Return the latest tokens that this process was given."""
    return tuple(known for known, _ in _remembered)


class TokenSource:
    """The current token of one client at one authorization server. For use on one event loop at a time.

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
        """Return a token that has not ended.

        :raises InfrastructureError: if there is none to be had.
        """
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
            self._renew_at = min(self._clock() + _AGAIN, self._ends_at)
            return
        lifetime = _UNTOLD if issued.lifetime is None else max(issued.lifetime, 0.0)
        self._token = issued.token
        self._ends_at = self._clock() + lifetime
        self._renew_at = self._ends_at - min(_MARGIN, lifetime / 5)

    def accept(self, token: str) -> None:
        """Note that a token was not refused."""
        self._proven = token

    def discard(self, token: str) -> bool:
        """Forget a token that was refused, and tell whether it is worth asking for another: it was good before."""
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


def interceptors() -> list[Any]:
    """Return what puts tokens into the metadata of gRPC calls."""
    import grpc.aio

    class Unary(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]
        async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            return await continuation(await _filled(details), request)

    class Stream(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]
        async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
            return await continuation(await _filled(details), request)

    return [Unary(), Stream()]


async def _filled(details: Any) -> Any:
    import grpc.aio

    pairs = []
    for name, value in details.metadata or ():
        source = source_of(value) if name == "authorization" and isinstance(value, str) else None
        pairs.append((name, _BEARER + await source.token() if source is not None else value))
    return grpc.aio.ClientCallDetails(
        details.method, details.timeout, grpc.aio.Metadata(*pairs), details.credentials, details.wait_for_ready
    )
