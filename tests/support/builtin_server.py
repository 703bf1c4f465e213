"""A built-in agent in this process, where it is not the process that is tested: it starts in a tenth of the time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.agents.brain import Brain
from pytest_a2a_bench.agents.options import parse_spec
from pytest_a2a_bench.agents.server import Served, running


@contextlib.contextmanager
def served(spec: str, brain: Brain | None = None) -> Iterator[Served]:
    """Serve an agent that a spec names, on the loop thread of the client.

    :param brain: thinks in place of that which the spec names.
    """
    server = running(parse_spec(spec), brain)
    found = loop.run(server.__aenter__())
    try:
        yield found
    finally:
        loop.run(_leave(server))


async def _leave(server: contextlib.AbstractAsyncContextManager[Served]) -> None:
    await server.__aexit__(None, None, None)
