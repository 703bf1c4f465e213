"""Connections of one route, each in a pool of its own: httpcore looks at every connection of a pool for every request.

It does so twice, compares each with each, and asks the kernel about the idle ones: with 256 conversations in one pool
that was nearly all that an event loop had time for, and with 16 still a fifth of a turn.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable

import httpx


class Pools(httpx.AsyncBaseTransport):
    """Hands each request to the connection that was given back last, which is the least likely to have been closed.

    :param make: makes the transport of one connection, within limits.
    :param limits: of all of them together. A request beyond its connections waits for one.
    """

    def __init__(self, make: Callable[[httpx.Limits], httpx.AsyncHTTPTransport], limits: httpx.Limits) -> None:
        self._make = make
        keep, most = limits.max_keepalive_connections, limits.max_connections
        self._limits = httpx.Limits(
            max_connections=1,
            max_keepalive_connections=1 if keep is None else min(keep, 1),
            keepalive_expiry=limits.keepalive_expiry,
        )
        self._places = None if most is None else asyncio.Semaphore(most)
        # In the order in which they were made.
        self._all: dict[httpx.AsyncHTTPTransport, None] = {}
        self._free: list[httpx.AsyncHTTPTransport] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        if self._places is not None:
            await self._places.acquire()
        transport = None
        try:
            transport = self._free.pop() if self._free else self._one_more()
            response = await transport.handle_async_request(request)
        except BaseException:
            await self.take_back(transport)
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Body(response.stream, transport, self)
        return response

    async def take_back(self, transport: httpx.AsyncHTTPTransport | None) -> None:
        """Have a connection used again whose request is over, if httpcore takes it for free."""
        if self._places is not None:
            self._places.release()
        if transport is None:
            return
        # Closed meanwhile, with all others.
        is_known = transport in self._all
        if is_known and all(c.is_idle() or c.is_closed() for c in transport._pool.connections):
            self._free.append(transport)
            return
        # What was given up while it connected may stay busy for ever there, and whoever is next would wait for it.
        self._all.pop(transport, None)
        await transport.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        transports, self._all, self._free = self._all, {}, []
        for transport in transports:
            await transport.aclose()

    def _one_more(self) -> httpx.AsyncHTTPTransport:
        made = self._make(self._limits)
        self._all[made] = None
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
            try:
                await self.stream.aclose()
            finally:
                await self.pools.take_back(self.transport)
