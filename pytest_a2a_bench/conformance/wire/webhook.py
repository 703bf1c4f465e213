"""A small HTTP server, and the receiver of push notifications on it, which keeps deliveries within bounds."""

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
from typing import Any, NamedTuple

import h11

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.listener import LOOPBACK, BindAddress, authority, family

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


class HttpAnswer(NamedTuple):
    """An answer of HTTP: its body in pieces, which are cut off before their end; no status for no answer."""

    status: int
    headers: Mapping[str, str] = {}
    pieces: tuple[bytes, ...] = ()
    cut: bool = False


class HttpServer:
    """Answers one request on each connection, on the event loop that starts it: no threads.

    :param route: returns the answer to a request to a path.
    :param place: where it listens; by default an ephemeral port of the loopback address.
    :ivar answering: the requests that are being answered.
    """

    def __init__(
        self, route: Callable[[str, Delivery], Awaitable[HttpAnswer]], place: BindAddress | None = None
    ) -> None:
        self._route, self.place = route, place or LOOPBACK
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()
        self.answering: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._server is None:
            raise RuntimeError("the server was not started")
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def where(self) -> str:
        """``HOST:PORT`` of where it listens, or is to listen."""
        return f"{authority(self.place.host)}:{self.place.port}"

    async def start(self) -> None:
        """Start to listen; does nothing if it listens already."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, self.place.host, self.place.port)

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

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_LIMIT)
        task = asyncio.current_task()
        assert task is not None
        for tasks in (self._handlers, self.answering):
            task.add_done_callback(tasks.discard)
        self._handlers.add(task)

        async def send(event: h11.Event) -> None:
            writer.write(http.send(event) or b"")
            await writer.drain()

        try:
            try:
                async with asyncio.timeout(_READ_SECONDS):
                    arrived = await read_request(http, reader, send)
                if arrived is None:
                    return
                self.answering.add(task)
                answer = await self._route(*arrived)
            except h11.RemoteProtocolError as error:
                answer = HttpAnswer(error.error_status_hint)
            if answer.status:
                await _write(answer, send)
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            # A sender that goes away, or the end of the run: there is nobody left to answer.
            pass
        finally:
            writer.close()


async def _write(answer: HttpAnswer, send: Callable[[h11.Event], Awaitable[None]]) -> None:
    """Send an answer, as far as it goes."""
    is_stream = answer.headers.get("Content-Type") == "text/event-stream"
    length = {} if is_stream or answer.status in (204, 304) else {"Content-Length": str(sum(map(len, answer.pieces)))}
    # One request a connection: whether a peer can send a second one on it is no question of A2A's.
    headers = {**answer.headers, **length, "Connection": "close"}
    reason = client.responses.get(answer.status, "Status").encode("ascii")
    await send(h11.Response(status_code=answer.status, headers=list(headers.items()), reason=reason))
    for piece in answer.pieces:
        await send(h11.Data(data=piece))
    if not answer.cut:
        await send(h11.EndOfMessage())


class WebhookReceiver(HttpServer):
    """Receives notifications of agents; use it as an async context manager on the loop that also makes the calls.

    :param everything: gets the requests to any path that no other hook has.
    """

    def __init__(self, place: BindAddress | None = None, *, everything: Hook | None = None) -> None:
        super().__init__(self._deliver, place)
        self._everything = everything
        self._hooks: dict[str, Hook] = {}

    async def __aenter__(self) -> WebhookReceiver:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    def hook(self, *, status: int = 200, delay: float = 0.0, late: int = _MOST_DELIVERIES) -> Hook:
        """Return a new hook with a random path that cannot be guessed."""
        # Everything on a shared network can call this port; what is not from the agent must not be counted for it.
        name = secrets.token_urlsafe(12)
        self._hooks[name] = Hook(f"{self.place.url_at(self.port)}/{name}", status, delay, late)
        return self._hooks[name]

    async def _deliver(self, path: str, delivery: Delivery) -> HttpAnswer:
        # A proxy between the agent and this may have changed what comes before the name.
        hook = self._hooks.get(path.rpartition("/")[2], self._everything)
        if hook is None:
            return HttpAnswer(404)
        hook.add(delivery)
        if hook.delay and len(hook.deliveries) <= hook.late:
            await asyncio.sleep(hook.delay)
        # After the delay, which stands for a receiver that is slow.
        return HttpAnswer(hook.status)


async def read_request(
    http: h11.Connection, reader: asyncio.StreamReader, send: Callable[[h11.Event], Awaitable[None]]
) -> tuple[str, Delivery] | None:
    """Return a request's path and its delivery; None if the peer closes without a request.

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
