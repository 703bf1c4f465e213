"""The faulty agent in this process, on ephemeral ports of the running event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import uvicorn

from pytest_a2a_bench.agents.faulty.grpc_binding import handlers
from pytest_a2a_bench.agents.faulty.serving import FaultyServer
from pytest_a2a_bench.agents.grpc_server import GrpcServer
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.quiet_server import QuietServer

TOKENS = ("first-token", "second-token")


class Running(NamedTuple):
    """A server that answers.

    :param url: its base URL.
    """

    url: str
    server: FaultyServer


@contextlib.asynccontextmanager
async def serve_app(app: Callable[..., Any], listener: socket.socket | None = None) -> AsyncIterator[str]:
    """Serve an ASGI application and give its URL."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(app, log_level="critical", access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    server = QuietServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.002)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        # Streams that a fault keeps open would hold the shutdown up for its whole grace.
        server.force_exit = True
        await serving


@contextlib.asynccontextmanager
async def serve_faulty(
    fault: str | None = None,
    variant: str = "auto",
    *,
    step: float = 0.2,
    transport: str = "all",
    protocol: str = "both",
) -> AsyncIterator[Running]:
    """Serve the agent with a fault, or correct."""
    options = AgentOptions("faulty", fault=fault, variant=variant, latency=step, transport=transport, protocol=protocol)
    listener = socket.create_server(("127.0.0.1", 0))
    grpc_server = GrpcServer("127.0.0.1", 0, None)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    faulty = FaultyServer(options, url, f"http://127.0.0.1:{grpc_server.port}", ",".join(TOKENS))
    await grpc_server.start_generic(handlers(faulty.agent, faulty.tokens))
    try:
        async with serve_app(faulty.app, listener):
            yield Running(url, faulty)
    finally:
        await grpc_server.stop(grace=0)
