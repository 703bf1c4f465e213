"""A small HTTP receiver for push notifications: it keeps what an agent delivers, within bounds."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import secrets
import socket
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from pytest_a2a_bench.errors import ConfigurationError

_HEAD_LIMIT = 64 * 1024
_BODY_LIMIT = 4 * 1024 * 1024
_READ_SECONDS = 10.0
_MOST_DELIVERIES = 500
_REASONS = {200: "OK", 404: "Not Found", 413: "Content Too Large", 500: "Internal Server Error"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the webhook listens, and what the agent calls it.

    :param url: the address under which the agent reaches it; a path is put after it.
    """

    host: str
    port: int
    url: str


def read_place(bind: str | None, url: str | None) -> Place | None:
    """Return where the user wants the webhook; None for a loopback address of its own choice.

    :param bind: ``HOST:PORT`` to listen on.
    :param url: how the agent reaches that; by default ``http://HOST:PORT``.
    :raises ConfigurationError: if the two do not name a place.
    """
    if not bind:
        if url:
            raise ConfigurationError(f"the webhook's URL is {url}, and nothing says where it listens; give HOST:PORT")
        return None
    host, _, number = bind.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not number.isdecimal() or not 0 < int(number) < 65536:
        raise ConfigurationError(f"the webhook is to listen on {bind!r}; give HOST:PORT, such as 0.0.0.0:8099")
    if not url:
        if host in ("0.0.0.0", "::"):
            raise ConfigurationError(f"the webhook listens on {bind}, which is no address to call; give its URL too")
        return Place(host, int(number), f"http://{_authority(host)}:{number}")
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigurationError(f"the webhook's URL is {url!r}; give an http(s) URL without a query")
    return Place(host, int(number), url.rstrip("/"))


def check_place(place: Place | None) -> None:
    """Refuse a place where this machine cannot listen; a port that is taken may be free later.

    :raises ConfigurationError: saying why.
    """
    if place is None:
        return
    try:
        socket.create_server((place.host, place.port), family=_family(place.host)).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            where = f"{_authority(place.host)}:{place.port}"
            what = f"the webhook cannot listen on {where}: {error}; name an address and port of this machine"
            raise ConfigurationError(what) from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _authority(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request that arrived at a hook.

    :param headers: names in lower case; of a repeated header the last value.
    :param received: ``time.monotonic()`` when the body was complete.
    """

    method: str
    headers: Mapping[str, str]
    body: bytes
    received: float

    @property
    def json(self) -> Any:
        """The body as JSON; None if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


@dataclass
class Hook:
    """One URL that an agent may be told to notify, and what came.

    :param status: the answer to each delivery.
    :param delay: seconds to wait before answering.
    :param late: how many deliveries are answered with that delay; those that follow are answered at once.
    """

    url: str
    status: int = 200
    delay: float = 0.0
    late: int = _MOST_DELIVERIES
    deliveries: list[Delivery] = field(default_factory=list)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, delivery: Delivery) -> None:
        """Keep a delivery, unless there are far too many already."""
        if len(self.deliveries) < _MOST_DELIVERIES:
            self.deliveries.append(delivery)
        self._arrived.set()

    async def wait(self, wanted: Callable[[list[Delivery]], bool] = bool, timeout: float = 5.0) -> bool:
        """Wait until the deliveries so far satisfy ``wanted``; tell whether they did in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not wanted(self.deliveries):
                    self._arrived.clear()
                    await self._arrived.wait()
        return wanted(self.deliveries)


class _BadRequest(Exception):
    """What arrived is no HTTP request, or too large."""


class WebhookReceiver:
    """Listens for what agents deliver; use it as an async context manager on the loop that also makes the calls.

    :param place: where; by default an ephemeral port of the loopback address.
    """

    def __init__(self, place: Place | None = None) -> None:
        self._place = place
        self._hooks: dict[str, Hook] = {}
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> WebhookReceiver:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Start to listen; does nothing if it listens already."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, *self._address(), limit=_HEAD_LIMIT)

    async def close(self) -> None:
        """Stop, and drop the connections that are still open."""
        if self._server is None:
            return
        self._server.close()
        # A connection that was accepted just now has no handler yet, and a handler that is cancelled before its first
        # step would leave its connection open.
        await _rounds()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        # Transports really close one round of the loop after they are told to.
        await _rounds()
        self._server = None

    @property
    def where(self) -> str:
        """``HOST:PORT`` of where it listens, or is to listen."""
        host, port = self._address()
        return f"{_authority(host)}:{port}"

    def _address(self) -> tuple[str, int]:
        return (self._place.host, self._place.port) if self._place is not None else ("127.0.0.1", 0)

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._server is None:
            raise RuntimeError("the webhook receiver was not started")
        return int(self._server.sockets[0].getsockname()[1])

    def hook(self, *, status: int = 200, delay: float = 0.0, late: int = _MOST_DELIVERIES) -> Hook:
        """Return a new hook with a path that nobody can guess."""
        name = secrets.token_urlsafe(12)
        base = self._place.url if self._place is not None else f"http://127.0.0.1:{self.port}"
        self._hooks[name] = Hook(f"{base}/{name}", status, delay, late)
        return self._hooks[name]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._handlers.add(task)
            task.add_done_callback(self._handlers.discard)
        try:
            await self._answer(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            # A sender that goes away, or the end of the run: there is nobody left to answer.
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                path, delivery = await _read_request(reader, writer)
        except (_BadRequest, asyncio.LimitOverrunError, ValueError):
            await _respond(writer, 413)
            return
        # What stands between the agent and this may have changed what comes before the name.
        hook = self._hooks.get(path.partition("?")[0].rpartition("/")[2])
        if hook is None:
            await _respond(writer, 404)
            return
        hook.add(delivery)
        if hook.delay and len(hook.deliveries) <= hook.late:
            await asyncio.sleep(hook.delay)
        await _respond(writer, hook.status)


async def _rounds(count: int = 5) -> None:
    """Let the event loop go round; it takes three to make a connection and start its handler."""
    for _ in range(count):
        await asyncio.sleep(0)


async def _respond(writer: asyncio.StreamWriter, status: int) -> None:
    reason = _REASONS.get(status, "Status")
    writer.write(f"HTTP/1.1 {status} {reason}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, Delivery]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise _BadRequest(first)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
    body = await _read_body(reader, headers)
    return words[1], Delivery(words[0], headers, body, time.monotonic())


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _read_chunks(reader)
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= _BODY_LIMIT:
        raise _BadRequest(f"{length} bytes")
    return await reader.readexactly(length)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        if not 0 <= size <= _BODY_LIMIT - len(body):
            raise _BadRequest(f"{size} bytes more")
        if size == 0:
            return bytes(body)
        body += await reader.readexactly(size)
        await reader.readexactly(2)
