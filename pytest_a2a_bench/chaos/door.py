"""A port that can be shut and opened again, and its connections, which can be broken in every way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from pytest_a2a_bench.errors import ConfigurationError

T = TypeVar("T")

_CHUNK = 65536
_LINGER = 2.0
"""Seconds for which a client may take what was sent before a connection that was ended is closed for good."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ClientLeft(Exception):
    """The client closed its connection."""


class Connection:
    """One client's connection.

    :param delay: seconds between two bytes of the next ``slow`` bytes that are written.
    :param cut: after so many more bytes the connection is ended; None for never.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._early = b""
        self.delay = 0.0
        self.slow = 0
        self.cut: int | None = None
        self.ended = False

    async def read(self) -> bytes:
        """Return the next bytes; none at the end."""
        if self._early:
            early, self._early = self._early, b""
            return early
        try:
            return await self._reader.read(_CHUNK)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Send bytes.

        :raises ClientLeft: if nobody takes them any more.
        """
        if self.cut is not None and not self.ended:
            data = data[: self.cut]
            self.cut -= len(data)
        await self._send(b"" if self.ended else data)
        if self.cut == 0 and not self.ended:
            await self.end()

    async def _send(self, data: bytes) -> None:
        slow, fast = data[: self.slow], data[self.slow :]
        try:
            for at in range(len(slow)):
                self._writer.write(slow[at : at + 1])
                await self._writer.drain()
                self.slow -= 1
                await asyncio.sleep(self.delay)
            if fast:
                self._writer.write(fast)
            await self._writer.drain()
        except OSError as error:
            raise ClientLeft from error

    async def unless_left(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something while the client is there.

        :raises ClientLeft: if it leaves before that is done; the work is canceled.
        """
        working = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(self._until_left())
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientLeft
            return await working
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)

    async def _until_left(self) -> None:
        with contextlib.suppress(OSError):
            while data := await self._reader.read(_CHUNK):
                # The next request, sent before this one is answered.
                self._early += data

    def reset(self) -> None:
        """Break the connection with RST: what was written and not taken is lost."""
        self.ended = True
        with contextlib.suppress(OSError):
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._writer.transport.abort()

    async def end(self) -> None:
        """Send FIN, and close a while later; whoever reads meanwhile sees the client close first."""
        self.ended = True
        with contextlib.suppress(OSError):
            await self._writer.drain()
            self._writer.write_eof()
            await asyncio.sleep(_LINGER)
        self._writer.close()

    def close(self) -> None:
        """Close the connection; what was written is still sent."""
        self._writer.close()


class Door:
    """A listening port whose number stays its own while it refuses connections.

    :param port: 0 for any free one.
    :param serve: called with every connection, which is closed when it returns.
    :raises ConfigurationError: if it cannot be listened on.
    """

    def __init__(self, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]) -> None:
        self._serve = serve
        self._family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._guard = self._take(host, port)
        self.host: str = host
        self.port: int = self._guard.getsockname()[1]
        self._server: asyncio.Server | None = None
        self._connections: dict[Connection, asyncio.Task[None]] = {}
        self._refusals = 0
        self._refusing: set[asyncio.Task[None]] = set()

    def _take(self, host: str, port: int) -> socket.socket:
        try:
            if port:
                # Ports are shared with our own guard below, and must not be with another server.
                socket.create_server((host, port), family=self._family).close()
            return self._bound(host, port)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ConfigurationError(
                f"chaos: cannot listen on {host}:{port}: {reason}; choose another port, or 0 for any free one"
            ) from error

    def _bound(self, host: str, port: int) -> socket.socket:
        sock = socket.socket(self._family, socket.SOCK_STREAM)
        try:
            # The guard is bound and never listens: without a listener beside it connections are refused, and the
            # port is given to nobody who asks for any, a client's own socket included.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            # Connections that ended lately must not keep the port from us.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
        except OSError:
            sock.close()
            raise
        return sock

    async def open(self) -> None:
        """Accept connections. Safe to call again."""
        if self._server is None:
            listener = self._bound(self.host, self.port)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._server = await asyncio.start_server(self._accept, sock=listener, backlog=1024)

    def shut(self) -> None:
        """Refuse connections; those that there are stay. Safe to call again."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def refuse_for(self, seconds: float) -> None:
        """Refuse connections for a while, from now on."""
        self._refusals += 1
        self.shut()
        task = asyncio.ensure_future(self._reopen(self._refusals, seconds))
        self._refusing.add(task)
        task.add_done_callback(self._refusing.discard)

    async def _reopen(self, refusal: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        # A later refusal, or the end, has taken this one's place.
        if refusal == self._refusals:
            await self.open()

    def drop(self) -> None:
        """Break every connection with RST."""
        for connection, task in list(self._connections.items()):
            connection.reset()
            task.cancel()

    async def close(self) -> None:
        """Close the port and every connection."""
        self._refusals += 1
        self.shut()
        tasks = [*self._refusing, *self._connections.values()]
        self.drop()
        for task in self._refusing:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._guard.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        task = asyncio.current_task()
        assert task is not None
        self._connections[connection] = task
        try:
            await self._serve(connection)
        except (ClientLeft, asyncio.CancelledError):
            # Canceled only by `drop` and `close`; asyncio's streams log tasks that end so.
            pass
        finally:
            del self._connections[connection]
            connection.close()
