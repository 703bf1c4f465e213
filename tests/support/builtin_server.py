"""Servers on the loop thread of the client, while the test goes on: a built-in agent starts in a tenth of the time."""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TypeVar

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.agents.brain import Brain
from pytest_a2a_bench.agents.options import parse_spec
from pytest_a2a_bench.agents.server import Served, running

T = TypeVar("T")


@contextlib.contextmanager
def on_loop(serving: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter a context there, give what it gives, and leave it there."""

    async def leave() -> None:
        await serving.__aexit__(None, None, None)

    entered = loop.run(serving.__aenter__())
    try:
        yield entered
    finally:
        loop.run(leave())


def served(spec: str, brain: Brain | None = None) -> AbstractContextManager[Served]:
    """Serve an agent that a spec names, on the loop thread of the client.

    :param brain: thinks in place of that which the spec names.
    """
    return on_loop(running(parse_spec(spec), brain))
