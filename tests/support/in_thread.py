"""Agents whose brain is a test's own, served in a thread while the test goes on."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any


@contextlib.contextmanager
def served_in_thread(serving: Callable[[], AbstractAsyncContextManager[Any]]) -> Iterator[str]:
    """Serve in a thread of its own, and return the URL.

    :param serving: opens what serves, in the thread's event loop; what it gives has a ``url``.
    """
    url: list[str] = []
    loops: list[asyncio.AbstractEventLoop] = []
    ready = threading.Event()
    done = asyncio.Event()

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        async with serving() as served:
            url.append(served.url)
            ready.set()
            await done.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield url[0]
    finally:
        loops[0].call_soon_threadsafe(done.set)
        thread.join()
