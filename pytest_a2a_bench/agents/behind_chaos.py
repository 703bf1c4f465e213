"""Serving a built-in agent as its options say, behind injected faults where they ask for these."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

from pytest_a2a_bench.a2a.card import AgentCard
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.agents.server import Served, running, serve
from pytest_a2a_bench.chaos.doorplate import find_places
from pytest_a2a_bench.chaos.journal import Journal
from pytest_a2a_bench.chaos.proxy import Listen, standing_before, until_stopped
from pytest_a2a_bench.chaos.spec import parse_chaos


async def serve_agent(options: AgentOptions, on_ready: Callable[[Served], None]) -> None:
    """Serve until SIGINT or SIGTERM; at the end, where there was chaos, its summary goes to stderr.

    :param on_ready: called once, when requests are answered, or refused by a slow start.
    :raises ConfigurationError: if the agent cannot be served as the options say.
    """
    if options.chaos is None:
        await serve(options, on_ready)
        return
    journal = Journal(options.chaos_log)
    try:
        async with behind_chaos(options, journal) as served:
            on_ready(served)
            await until_stopped()
    finally:
        journal.close()
    print(journal.summary(parse_chaos(options.chaos)), file=sys.stderr)


@contextlib.asynccontextmanager
async def behind_chaos(options: AgentOptions, journal: Journal) -> AsyncIterator[Served]:
    """Serve an agent and stand before it, as long as the context lasts. Its ``chaos`` must be set.

    :raises ConfigurationError: if the agent cannot be served as the options say.
    """
    spec = parse_chaos(options.chaos or "")
    hidden = _Hidden(options)
    listen = Listen(options.host, options.port, options.grpc_port, options.card_url)
    try:
        served = await hidden.start()
        connection = AgentConnection(ClientConfig(served.url))
        try:
            card = await connection.acard()
        finally:
            await connection.aclose()
        hidden.stay(card)
        async with standing_before(card, spec, journal, listen, on_restart=hidden.restart) as standing:
            yield Served(standing.url, standing.card_url, os.getpid())
    finally:
        await hidden.stop()


class _Hidden:
    """The agent itself, on loopback ports that only the proxy is told."""

    def __init__(self, options: AgentOptions) -> None:
        self._options = dataclasses.replace(
            options, host="127.0.0.1", port=0, grpc_port=0, card_url=None, chaos=None, chaos_log=None
        )
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> Served:
        """Serve it."""
        return await self._stack.enter_async_context(running(self._options))

    def stay(self, card: AgentCard) -> None:
        """Keep to the ports that the card names, so that the proxy finds it there after a restart."""
        places = find_places(card)
        ports = [int(target.address.rpartition(":")[2]) for target in places.targets]
        self._options = dataclasses.replace(
            self._options, port=urlsplit(card.url).port or 0, grpc_port=ports[0] if ports else 0
        )

    async def restart(self) -> None:
        """Serve it anew: it remembers nothing."""
        await self.stop()
        await self.start()

    async def stop(self) -> None:
        """End it."""
        await self._stack.aclose()
