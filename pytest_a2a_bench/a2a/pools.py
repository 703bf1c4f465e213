"""Connections of one route, in pools of at most 16: httpx's looks at every connection of a pool for every request.

Two times it does so, and asks the kernel about each idle one: with 256 conversations in one pool that is nearly all
that an event loop has time for, with 16 it is nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable

import httpx

POOL_SIZE = 16


class _Pool:
    """One pool, and how many requests are under way in it, their answers' bodies included."""

    def __init__(self, transport: httpx.AsyncHTTPTransport) -> None:
        self.transport = transport
        self.users = 0


class Pools(httpx.AsyncBaseTransport):
    """Hands each request to the first pool that has room, so that connections are used again as soon as may be.

    :param make: makes the transport of a pool, within limits.
    :param limits: of all pools together. What is beyond its connections waits for one of them.
    """

    def __init__(self, make: Callable[[httpx.Limits], httpx.AsyncHTTPTransport], limits: httpx.Limits) -> None:
        self._make = make
        most = limits.max_connections
        self._most = None if most is None else -(-most // POOL_SIZE)
        self._limits = httpx.Limits(
            max_connections=POOL_SIZE if most is None else min(most, POOL_SIZE),
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
        )
        self._pools: list[_Pool] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        pool = self._choose()
        pool.users += 1
        try:
            response = await pool.transport.handle_async_request(request)
        except BaseException:
            pool.users -= 1
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Body(response.stream, pool)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        pools, self._pools = self._pools, []
        for pool in pools:
            await pool.transport.aclose()

    def _choose(self) -> _Pool:
        for pool in self._pools:
            if pool.users < POOL_SIZE:
                return pool
        if self._most is not None and len(self._pools) >= self._most:
            return min(self._pools, key=lambda pool: pool.users)
        self._pools.append(_Pool(self._make(self._limits)))
        return self._pools[-1]


@dataclasses.dataclass(slots=True)
class _Body(httpx.AsyncByteStream):
    """The body of an answer; its pool has room again once it is closed."""

    stream: httpx.AsyncByteStream
    pool: _Pool
    is_open: bool = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.stream.__aiter__()

    async def aclose(self) -> None:
        if self.is_open:
            self.is_open = False
            self.pool.users -= 1
            await self.stream.aclose()
