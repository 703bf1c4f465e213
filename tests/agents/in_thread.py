"""Servers in a thread of their own, while the test goes on."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def served_in_thread(serving: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Serve in a thread with its own event loop, and give what ``serving`` gives there.

    :raises Exception: that ended the server before it had started.
    """
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, T]] = Future()

    async def serve() -> None:
        done = asyncio.Event()
        try:
            async with serving() as served:
                started.set_result((asyncio.get_running_loop(), done, served))
                await done.wait()
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name=f"server of {serving!r}", daemon=True)
    thread.start()
    loop, done, served = started.result()
    try:
        yield served
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
