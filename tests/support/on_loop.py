"""Servers on the loop thread of the client, while the test goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from pytest_a2a_bench.a2a import loop

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
