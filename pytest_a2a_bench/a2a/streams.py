"""Connections of httpcore's on asyncio itself.

httpcore's own run on any event loop and take a fifth of a turn's CPU for it; there is only one loop here. A request's
head waits for its body, so that both leave in one write: one call of the kernel less, and one wake-up of the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import select
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore

_ENOUGH = 1024 * 1024
"""Bytes that arrived and were not asked for, above which no more are taken from the socket."""

_DELAY = 0.25
"""Seconds after which the next address is tried, too: as RFC 8305 has it, and as browsers do."""

_Address = tuple[Any, ...]
"""As ``socket.getaddrinfo`` has them."""


class Backend(httpcore.AsyncNetworkBackend):
    """Opens connections over TCP."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect. Neither of the last two options is used by anybody here."""
        with _told(httpcore.ConnectTimeout, httpcore.ConnectError):
            async with asyncio.timeout(timeout):
                return _Stream(await _connect(host, port))


class _Buffer(asyncio.Protocol):
    """What arrived and was not read yet.

    :ivar is_over: whether nothing more will arrive.
    :ivar error: why not, if there was trouble.
    :ivar may_write: set while the kernel takes what is written.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_over = False
        self.error: Exception | None = None
        self.transport: asyncio.Transport
        self._reader: asyncio.Future[None] | None = None
        self._is_full = False
        self.may_write = asyncio.Event()
        self.may_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        if len(self.data) > _ENOUGH:
            self._is_full = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self.is_over = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over, self.error = True, self.error or exc
        self.may_write.set()
        self._wake()

    def pause_writing(self) -> None:
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.may_write.set()

    async def take(self, most: int) -> bytes:
        """Wait for bytes and return them; none at the end."""
        if not self.data and not self.is_over:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        taken = bytes(self.data[:most])
        del self.data[:most]
        if self._is_full and len(self.data) < _ENOUGH and not self.is_over:
            self._is_full = False
            self.transport.resume_reading()
        return taken

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class _Stream(httpcore.AsyncNetworkStream):
    """One connection, encrypted or not."""

    def __init__(self, buffer: _Buffer) -> None:
        self._buffer = buffer
        self._held = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has arrived, or will."""
        buffer = self._buffer
        if self._held and not buffer.is_over:
            buffer.transport.write(self._held)
        self._held = b""
        if timeout is None:
            taken = await buffer.take(max_bytes)
        else:
            with _told(httpcore.ReadTimeout, httpcore.ReadError):
                async with asyncio.timeout(timeout):
                    taken = await buffer.take(max_bytes)
        if not taken and isinstance(buffer.error, ssl.SSLError):
            raise buffer.error  # the transport knows what to make of it
        if not taken and buffer.error is not None:
            raise httpcore.ReadError(str(buffer.error)) from buffer.error
        return taken

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write, or keep for the next write, or reading, if this is a first one."""
        if not buffer:
            return
        if self._buffer.is_over or self._buffer.transport.is_closing():
            raise httpcore.WriteError(str(self._buffer.error or "the connection was closed")) from self._buffer.error
        if not self._held:
            self._held = buffer
            return
        held, self._held = self._held, b""
        with _told(httpcore.WriteTimeout, httpcore.WriteError):
            self._buffer.transport.write(held + buffer)
            if not self._buffer.may_write.is_set():
                async with asyncio.timeout(timeout):
                    await self._buffer.may_write.wait()

    async def aclose(self) -> None:
        """Close at once: what was asked for is read by now, or not wanted any more."""
        self._buffer.transport.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Encrypt what follows."""
        loop = asyncio.get_running_loop()
        buffer = _Buffer()
        try:
            with _told(httpcore.ConnectTimeout, httpcore.ConnectError):
                async with asyncio.timeout(timeout):
                    transport = await loop.start_tls(
                        self._buffer.transport, buffer, ssl_context, server_hostname=server_hostname
                    )
        except BaseException:
            self._buffer.transport.abort()
            raise
        assert transport is not None
        buffer.connection_made(transport)
        return _Stream(buffer)

    def get_extra_info(self, info: str) -> Any:
        """Tell what httpcore asks for."""
        if info == "is_readable":
            return self._buffer.is_over or bool(self._buffer.data) or self._is_ready()
        return self._buffer.transport.get_extra_info({"server_addr": "peername"}.get(info, info))

    def _is_ready(self) -> bool:
        """Ask the kernel, too: the event loop may not have come to it yet that the agent closed the connection."""
        # Of a TLS connection that was reset it is gone a moment before the connection is known to be.
        ours = self._buffer.transport.get_extra_info("socket")
        descriptor = ours.fileno() if ours is not None else -1
        if descriptor < 0:
            return True
        if not hasattr(select, "poll"):  # Windows
            return False
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))


# asyncio's own race (happy_eyeballs_delay) forgets the socket of the winner where it is cancelled just then: nothing
# closes that but the garbage collector.


async def _connect(host: str, port: int) -> _Buffer:
    """Connect to the first address of a host that answers; the next one is tried beside it after a moment.

    :raises OSError: if none does.
    """
    addresses = await _look_up(host, port)
    trying: list[asyncio.Task[_Buffer]] = []
    found: asyncio.Task[_Buffer] | None = None
    try:
        while found is None:
            if len(trying) < len(addresses):
                trying.append(asyncio.create_task(_connect_to(addresses[len(trying)])))
            waiting = [task for task in trying if not task.done()]
            if not waiting and len(trying) == len(addresses):
                raise _trouble([error for task in trying if (error := task.exception())])
            if waiting:
                delay = _DELAY if len(trying) < len(addresses) else None
                await asyncio.wait(waiting, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
            found = next((task for task in trying if task.done() and task.exception() is None), None)
        return found.result()
    finally:
        for task in trying:
            if task is not found:
                task.cancel()
                task.add_done_callback(_drop)


async def _look_up(host: str, port: int) -> list[_Address]:
    """Return a host's addresses, the families in turn."""
    with contextlib.suppress(socket.gaierror):  # a number needs nobody to be asked
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[:1]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    families: dict[int, list[_Address]] = {}
    for address in found:
        families.setdefault(address[0], []).append(address)
    turns = itertools.zip_longest(*families.values())
    return [address for turn in turns for address in turn if address is not None]


async def _connect_to(address: _Address) -> _Buffer:
    loop = asyncio.get_running_loop()
    family, kind, protocol, _, where = address
    connected = socket.socket(family, kind, protocol)
    try:
        connected.setblocking(False)
        await loop.sock_connect(connected, where)
        _, buffer = await loop.create_connection(_Buffer, sock=connected)
    except BaseException:
        connected.close()
        raise
    return buffer


def _drop(task: asyncio.Task[_Buffer]) -> None:
    """Close what was connected all the same."""
    if not task.cancelled() and task.exception() is None:
        task.result().transport.abort()


def _trouble(errors: list[BaseException]) -> BaseException:
    if len({str(error) for error in errors}) == 1:
        return errors[0]
    return OSError(f"Multiple exceptions: {', '.join(map(str, errors))}")


@contextlib.contextmanager
def _told(late: type[Exception], broken: type[Exception]) -> Iterator[None]:
    """Make httpcore's errors of asyncio's."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except OSError as error:  # among them errors of TLS, and of looking up a name
        raise broken(str(error)) from error
