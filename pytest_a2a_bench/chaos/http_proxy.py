"""The HTTP side: requests read by h11, sent on by httpx, and their answers given as their fate will have it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

import h11
import httpx

from pytest_a2a_bench.chaos.calls import read_http_call
from pytest_a2a_bench.chaos.distort import Pieces, distorted, edit_event, edit_json, sse_events
from pytest_a2a_bench.chaos.door import Connection, Door
from pytest_a2a_bench.chaos.monkey import Fate, Monkey
from pytest_a2a_bench.chaos.spec import STATUSES, StatusFault

Headers = list[tuple[bytes, bytes]]

_MAX_BODY = 64 * 1024 * 1024
_HOP_BY_HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
# Distorting needs plain text, and what is asked for once more by httpx would be there twice.
_OWN_REQUEST = {*_HOP_BY_HOP, b"host", b"content-length", b"accept-encoding", b"expect"}
_OWN_ANSWER = {*_HOP_BY_HOP, b"content-length"}


class Request(NamedTuple):
    """A request that was read as a whole."""

    method: str
    target: str
    headers: Headers
    body: bytes


class HttpProxy:
    """Stands before one origin.

    :param origin: where requests go, such as ``https://agent.example``.
    :param rewrite: what is done to answers that are or hold the agent's card.
    """

    def __init__(
        self,
        monkey: Monkey,
        client: httpx.AsyncClient,
        origin: str,
        rewrite: Callable[[bytes], bytes],
        listen: tuple[str, int],
    ) -> None:
        self._monkey = monkey
        self._client = client
        self._origin = origin
        self._rewrite = rewrite
        self.door = Door(*listen, self._serve)

    async def _serve(self, connection: Connection) -> None:
        http = h11.Connection(h11.SERVER)
        while True:
            try:
                request = await _read(http, connection)
            except h11.RemoteProtocolError as error:
                await _refuse(http, connection, error)
                return
            if request is None:
                return
            call = read_http_call(request.method, request.target, request.body)
            fate = self._monkey.meet(call)
            try:
                await connection.unless_left(self._exchange(_Exchange(http, connection, fate), request))
            finally:
                fate.settle()
            if connection.ended or http.our_state is not h11.DONE or http.their_state is not h11.DONE:
                return
            http.start_next_cycle()

    async def _exchange(self, exchange: _Exchange, request: Request) -> None:
        fate, connection = exchange.fate, exchange.connection
        if fate.is_restart:
            fate.note()
            self._monkey.restart()
        elif fate.fault == "reset":
            fate.note()
            connection.reset()
        elif fate.status and not fate.status.late:
            fate.note()
            await exchange.answer_status(fate.status)
        else:
            await self._forward(exchange, request)

    async def _forward(self, exchange: _Exchange, request: Request) -> None:
        try:
            async with self._client.stream(
                request.method,
                self._origin + request.target,
                headers=[*request.headers, (b"accept-encoding", b"identity")],
                content=request.body,
            ) as response:
                await self._answer(exchange, response)
        except httpx.HTTPError as error:
            exchange.fate.trouble(error)
            await exchange.answer_trouble(error, self._origin)

    async def _answer(self, exchange: _Exchange, response: httpx.Response) -> None:
        fate, connection = exchange.fate, exchange.connection
        if fate.fault == "after-delivery":
            await response.aread()
            fate.note()
            connection.reset()
            return
        if fate.status:
            await response.aread()
            fate.note()
            await exchange.answer_status(fate.status)
            return
        if fate.fault == "hang-before":
            await fate.hang()
        if fate.fault == "dribble":
            fate.note()
            connection.delay, connection.slow = self._monkey.spec.dribble_delay, sys.maxsize
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            await self._stream(exchange, response)
        else:
            await self._whole(exchange, response)
        connection.slow = 0

    async def _whole(self, exchange: _Exchange, response: httpx.Response) -> None:
        fate = exchange.fate
        body = await response.aread()
        if fate.call.kind == "card":
            body = self._rewrite(body)
        if fate.fault == "half-close" and len(body) > 1:
            await exchange.start(response, len(body))
            await exchange.end_in(body)
            return
        if fate.fault == "hang-after":
            await exchange.start(response, len(body))
            await fate.hang()
            await exchange.data(body)
            await exchange.finish()
            return
        pieces = [piece async for piece in exchange.distort(_one(body), edit_json, stream=False)]
        # A client has its answer with the last byte, and its next connection must be refused then.
        self._refuse_if_asked(fate)
        await exchange.send_whole(response, b"".join(pieces))

    async def _stream(self, exchange: _Exchange, response: httpx.Response) -> None:
        fate = exchange.fate
        await exchange.start(response, None)
        async with contextlib.aclosing(_raw(response)) as chunks:
            pieces = chunks if fate.fault is None else exchange.distort(sse_events(chunks), edit_event, stream=True)
            async for piece in pieces:
                if fate.fault == "half-close":
                    await exchange.end_in(piece)
                    return
                await exchange.data(piece)
        self._refuse_if_asked(fate)
        await exchange.finish()

    def _refuse_if_asked(self, fate: Fate) -> None:
        if fate.fault == "refuse":
            fate.note()
            self.door.refuse_for(self._monkey.spec.refuse_for)


class _Exchange:
    """One answer on its way to the client."""

    def __init__(self, http: h11.Connection, connection: Connection, fate: Fate) -> None:
        self._http = http
        self.connection = connection
        self.fate = fate

    async def start(self, response: httpx.Response, length: int | None) -> None:
        """Send the agent's headers, with a length of our own, or chunks."""
        headers = _kept(response.headers.raw, _OWN_ANSWER)
        if length is not None:
            headers.append((b"content-length", b"%d" % length))
        if self.fate.fault == "refuse":
            headers.append((b"connection", b"close"))
        await self._send(
            h11.Response(status_code=response.status_code, headers=headers, reason=response.reason_phrase.encode())
        )

    async def data(self, data: bytes) -> None:
        """Send a piece of the body."""
        if data:
            await self._send(h11.Data(data=data))

    async def finish(self) -> None:
        """End the answer."""
        await self._send(h11.EndOfMessage())

    async def end_in(self, piece: bytes) -> None:
        """Send the first half of a piece, and FIN."""
        self.fate.note()
        await self.data(piece[: len(piece) // 2])
        await self.connection.end()

    async def send_whole(self, response: httpx.Response, body: bytes) -> None:
        """Send the agent's answer with this body."""
        # What has no body by its status or method must not have a length of nothing either.
        bodiless = response.status_code in (204, 304) or response.request.method == "HEAD"
        await self.start(response, None if bodiless else len(body))
        if not bodiless:
            await self.data(body)
        await self.finish()

    def distort(self, pieces: Pieces, edit: Callable[[str, bytes], bytes], *, stream: bool) -> Pieces:
        """Return the pieces of the answer as the fault leaves them."""
        fate = self.fate
        return distorted(
            fate.in_content,
            pieces,
            stream=stream,
            edit=lambda piece: edit(fate.fault or "", piece),
            note=fate.note,
            hang=fate.monkey.hang,
        )

    async def answer_status(self, fault: StatusFault) -> None:
        """Answer with an error status."""
        retry = str(self.fate.monkey.spec.retry_after) if fault.retry else None
        await self._plain(fault.status, f"{fault.name}: injected by a2a-bench chaos\n", retry)

    async def answer_trouble(self, error: httpx.HTTPError, origin: str) -> None:
        """Say that the agent cannot be reached, or break off as it did."""
        if self._http.our_state is not h11.SEND_RESPONSE:
            self.connection.reset()
            return
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        await self._plain(502, f"a2a-bench chaos: the agent at {origin} gave no answer: {reason}\n")

    async def _plain(self, status: int, text: str, retry_after: str | None = None) -> None:
        body = text.encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
        if retry_after is not None:
            headers.append((b"retry-after", retry_after.encode()))
        await self._send(h11.Response(status_code=status, headers=headers, reason=STATUSES[status].encode()))
        await self.data(body)
        await self.finish()

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            await self.connection.write(data)


async def _read(http: h11.Connection, connection: Connection) -> Request | None:
    """Read one request; None when the client is done."""
    head, body = None, bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            if http.they_are_waiting_for_100_continue:
                await connection.write(http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            http.receive_data(await connection.read())
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > _MAX_BODY:
                raise h11.RemoteProtocolError(f"a request of more than {_MAX_BODY} bytes", 413)
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = _kept(list(head.headers.raw_items()), _OWN_REQUEST)
            return Request(head.method.decode(), head.target.decode("latin-1"), headers, bytes(body))
        else:
            return None


async def _refuse(http: h11.Connection, connection: Connection, error: h11.RemoteProtocolError) -> None:
    if http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
        body = f"a2a-bench chaos: {error}\n".encode()
        headers = [(b"content-length", b"%d" % len(body)), (b"connection", b"close")]
        await connection.write(
            http.send(h11.Response(status_code=error.error_status_hint, headers=headers, reason=b"")) or b""
        )
        await connection.write(http.send(h11.Data(data=body)) or b"")


def _kept(headers: Headers, own: set[bytes]) -> Headers:
    return [(name, value) for name, value in headers if name.lower() not in own]


async def _raw(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    async for chunk in response.aiter_raw():
        yield chunk


async def _one(body: bytes) -> Pieces:
    yield body
