"""A small HTTP receiver for push notifications: it keeps what an agent delivers, within bounds."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import client
from typing import Any

import h11

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.listener import BindAddress, authority, family

# Each of these bounds is one that an agent could otherwise use to fill memory or to hold a connection for ever.
_HEAD_LIMIT = 64 * 1024
_BODY_LIMIT = 4 * 1024 * 1024
_READ_SECONDS = 10.0
# A check looks at a few; an agent that repeats itself must not grow the list for the whole run.
_MOST_DELIVERIES = 500
# Small beside the limit of a head, which h11 looks at between two reads only.
_READ_BYTES = 8 * 1024


def check_place(place: BindAddress | None) -> None:
    """Refuse a place where this machine cannot listen; a port that is taken may be free later.

    :raises ConfigurationError: saying why.
    """
    if place is None:
        return
    try:
        socket.create_server((place.host, place.port), family=family(place.host)).close()
    except OSError as error:
        # Workers of one run share the user's port: each waits for its turn, so a taken one is no mistake of the user's.
        if error.errno != errno.EADDRINUSE:
            where = f"{authority(place.host)}:{place.port}"
            what = f"the webhook cannot listen on {where}: {error}; name an address and port of this machine"
            raise ConfigurationError(what) from error


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request that arrived at a hook.

    :param headers: names in lower case; of a repeated header the last value.
    :param received: ``time.monotonic()`` when the body was complete.
    :param query: of the URL that was called.
    """

    method: str
    headers: Mapping[str, str]
    body: bytes
    received: float
    query: str = ""

    @property
    def json(self) -> Any:
        """The body as JSON; None if it is not JSON."""
        try:
            return json.loads(self.body)
        # RecursionError is what Python raises for brackets a hundred thousand deep.
        except (ValueError, RecursionError):
            return None


@dataclass
class Hook:
    """One URL for an agent to notify, and its deliveries.

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
        """Wait until the deliveries so far satisfy ``wanted``; return whether they did in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not wanted(self.deliveries):
                    # Cleared before waiting and after looking: what arrives between the two sets it again.
                    self._arrived.clear()
                    await self._arrived.wait()
        return wanted(self.deliveries)


class WebhookReceiver:
    """Listens for what agents deliver; use it as an async context manager on the loop that also makes the calls.

    :param place: where; by default an ephemeral port of the loopback address.
    :param everything: gets the requests to any path that no other hook has.
    """

    def __init__(self, place: BindAddress | None = None, *, everything: Hook | None = None) -> None:
        self._place = place
        self._everything = everything
        self._hooks: dict[str, Hook] = {}
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> WebhookReceiver:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start to listen; does nothing if it listens already."""
        if self._server is None:
            # On the loop that makes the calls too: no threads, and a delivery is there when the answer is.
            self._server = await asyncio.start_server(self._serve, *self._address())

    async def close(self) -> None:
        """Stop, and drop the connections that are still open."""
        if self._server is None:
            return
        # First no new connections, then the handlers of those that there are.
        self._server.close()
        # A connection that was accepted just now has no handler yet, and a handler that is cancelled before its first
        # step would leave its connection open.
        await _rounds()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        # Transports close one round of the loop after close() is called.
        await _rounds()
        self._server = None

    @property
    def where(self) -> str:
        """``HOST:PORT`` of where it listens, or is to listen."""
        host, port = self._address()
        return f"{authority(host)}:{port}"

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
        # Everything on a shared network can call this port; what is not from the agent must not be counted for it.
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
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_LIMIT)

        async def send(event: h11.Event) -> None:
            writer.write(http.send(event) or b"")
            await writer.drain()

        async def respond(status: int) -> None:
            reason = client.responses.get(status, "Status").encode("ascii")
            # One delivery a connection: whether an agent can send a second one on it is no question of A2A's.
            headers = [("Content-Length", "0"), ("Connection", "close")]
            await send(h11.Response(status_code=status, headers=headers, reason=reason))

        try:
            async with asyncio.timeout(_READ_SECONDS):
                arrived = await read_request(http, reader, send)
        except h11.RemoteProtocolError as error:
            await respond(error.error_status_hint)
            return
        if arrived is None:
            return
        path, delivery = arrived
        # A proxy between the agent and this may have changed what comes before the name.
        hook = self._hooks.get(path.rpartition("/")[2], self._everything)
        if hook is None:
            await respond(404)
            return
        hook.add(delivery)
        if hook.delay and len(hook.deliveries) <= hook.late:
            await asyncio.sleep(hook.delay)
        # After the delay, which stands for a receiver that is slow.
        await respond(hook.status)


async def read_request(
    http: h11.Connection, reader: asyncio.StreamReader, send: Callable[[h11.Event], Awaitable[None]]
) -> tuple[str, Delivery] | None:
    """Return a request's path and what it delivers; None where the peer goes without asking.

    :raises h11.RemoteProtocolError: if it is no request, or too large.
    """

    async def next_event() -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while (event := http.next_event()) is h11.NEED_DATA:
            http.receive_data(await reader.read(_READ_BYTES))
        return event

    request = await next_event()
    if not isinstance(request, h11.Request):
        return None
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    too_large = h11.RemoteProtocolError(f"the body is larger than {_BODY_LIMIT} bytes", error_status_hint=413)
    # h11 has made sure that it is a number; a body that is announced as too large is not waited for.
    if int(headers.get("content-length", "0")) > _BODY_LIMIT:
        raise too_large
    if http.they_are_waiting_for_100_continue:
        # A sender that asks waits for this answer before its body; without it the delivery would be late or lost.
        await send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
    body = bytearray()
    while isinstance(event := await next_event(), h11.Data):
        body += event.data
        if len(body) > _BODY_LIMIT:
            raise too_large
    path, _, query = request.target.decode("latin-1").partition("?")
    return path, Delivery(request.method.decode("ascii"), headers, bytes(body), time.monotonic(), query)


async def _rounds(count: int = 5) -> None:
    """Let the event loop go round; it takes three to make a connection and start its handler."""
    for _ in range(count):
        await asyncio.sleep(0)
