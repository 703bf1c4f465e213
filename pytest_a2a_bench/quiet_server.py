"""An HTTP server that is one of several things in its process. Needs ``uvicorn``."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator
from typing import Any

import uvicorn


class QuietServer(uvicorn.Server):  # type: ignore[misc]
    """Leaves the signals of its process alone.

    uvicorn raises the signal that stopped it again when it has ended, before anything else can be put away. And of
    several servers on the main thread each puts back the handler that it found, maybe that of another which has ended;
    sse-starlette ends every event stream of a process whose SIGTERM is handled by a server that has ended.

    :ivar ended: the task that serves; it is done when the server has ended.
    """

    should_exit: bool
    ended: asyncio.Task[None]

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:
        """Capture none."""
        return contextlib.nullcontext()

    async def until_signal(self) -> None:
        """Serve until SIGINT or SIGTERM; after a second one, open requests are not waited for."""

        def stop() -> None:
            self.force_exit = self.should_exit
            self.should_exit = True

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop)
        await self.ended


@contextlib.asynccontextmanager
async def serving(app: Any, listener: socket.socket, *, grace: int = 1, **options: Any) -> AsyncIterator[QuietServer]:
    """Serve an ASGI application as long as the context lasts; when it is entered, requests are answered.

    :param grace: seconds that open requests have at the end.
    :param options: further ones of ``uvicorn.Config``.
    """
    usual = {"log_config": None, "access_log": False, "lifespan": "off", "server_header": False}
    server = QuietServer(uvicorn.Config(app, timeout_graceful_shutdown=grace, **{**usual, **options}))
    server.ended = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started and not server.ended.done():
            await asyncio.sleep(0.005)
        yield server
    finally:
        server.should_exit = True
        server.force_exit = server.force_exit or not grace
        await asyncio.gather(server.ended, return_exceptions=True)
