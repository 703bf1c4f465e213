"""A built-in agent in this process, where it is not the process that is tested: it starts in a tenth of the time."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator

from faulty_server import serve_app

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.a2a.card import CARD_PATH
from pytest_a2a_bench.agents.brains import make_brain
from pytest_a2a_bench.agents.card import addresses
from pytest_a2a_bench.agents.grpc_server import GrpcServer
from pytest_a2a_bench.agents.options import parse_spec
from pytest_a2a_bench.agents.server import Served, start_brain


@contextlib.contextmanager
def served(spec: str) -> Iterator[Served]:
    """Serve an agent that a spec names, on the loop thread of the client."""
    server = _serve(spec)
    found = loop.run(server.__aenter__())
    try:
        yield found
    finally:
        loop.run(_leave(server))


async def _leave(server: contextlib.AbstractAsyncContextManager[Served]) -> None:
    await server.__aexit__(None, None, None)


@contextlib.asynccontextmanager
async def _serve(spec: str) -> AsyncIterator[Served]:
    options = parse_spec(spec)
    listener = socket.create_server((options.host, 0))
    grpc_server = GrpcServer(options.host, 0, None) if "grpc" in options.transports else None
    where = addresses(options, listener.getsockname()[1], grpc_server.port if grpc_server else None)
    app = await start_brain(make_brain(options), options, where, None, grpc_server)
    try:
        async with serve_app(app, listener) as url:
            yield Served(url, url.rstrip("/") + CARD_PATH, os.getpid())
    finally:
        if grpc_server:
            await grpc_server.stop(grace=0)
