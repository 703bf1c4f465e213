"""An HTTP proxy before an agent that injects faults into chosen requests. Each connection carries one request."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import struct
import urllib.parse
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from http.client import responses

import h11
import httpx

from pytest_a2a_bench.a2a.network import USUAL, Network
from pytest_a2a_bench.a2a.proxying import NOT_REQUESTED, Parts, rewrite_card
from pytest_a2a_bench.a2a.transport import open_client
from pytest_a2a_bench.chaos.faults import Call, distort, origin_of, read_call, split_events
from pytest_a2a_bench.listener import listen, local_url

Choose = Callable[[Call], str | None]
Headers = list[tuple[bytes, bytes]]

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class Faults:
    """Chooses faults, and counts and reports those that were injected.

    :param choose: returns the fault of a request, or None.
    :param hang: seconds of silence of ``hang-before`` and ``hang-after``.
    :param retry_after: seconds that 429 and ``503-late`` ask the client to wait.
    :param report: called with each fault that is injected, and with what went wrong at the agent itself.
    """

    choose: Choose
    hang: float = 600.0
    retry_after: int = 1
    report: Callable[[str, Call], None] = lambda fault, call: None
    injected: Counter[str] = field(default_factory=Counter)

    def inject(self, fault: str, call: Call) -> None:
        """Count a fault as injected."""
        self.injected[fault] += 1
        self.report(fault, call)


@contextlib.asynccontextmanager
async def proxy_before(
    card_url: str,
    faults: Faults,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    public: str | None = None,
    network: Network = USUAL,
) -> AsyncIterator[str]:
    """Serve the proxy as long as the context lasts, and give the URL of the card that it shows.

    :param card_url: of the agent's card; requests go to its origin.
    :param port: 0 for any free one.
    :param public: base URL that the card shows; None for the address that it listens on.
    :param network: how connections to the agent are made.
    :raises ConfigurationError: if the address cannot be listened on.
    """
    listener = listen(host, port)
    ours = (public or local_url(host, listener.getsockname()[1])).rstrip("/")
    # A connection that is kept alive may be closed at the moment of its reuse, which would be a fault of its own.
    client = open_client(network, limits=httpx.Limits(max_connections=None, max_keepalive_connections=0))
    for name in ("accept", "user-agent", "connection"):
        del client.headers[name]
    proxy = _Proxy(origin_of(card_url), ours, faults, client)
    server = await asyncio.start_server(proxy.serve, sock=listener, backlog=1024)
    try:
        yield ours + urllib.parse.urlsplit(card_url).path
    finally:
        server.close()
        for task in list(proxy.tasks):
            task.cancel()
        await asyncio.gather(*proxy.tasks, return_exceptions=True)
        await client.aclose()


class _Proxy:
    def __init__(self, origin: str, ours: str, faults: Faults, client: httpx.AsyncClient) -> None:
        self._origin, self._ours, self._faults, self._client = origin, ours, faults, client
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection's request."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            if (request := await _read(reader)) is not None:
                await self._exchange(_Client(writer), *request)
        except (OSError, asyncio.CancelledError):
            pass  # the client left, or the proxy ends: asyncio logs connections that end by either
        finally:
            self.tasks.discard(task)
            writer.close()

    async def _exchange(self, client: _Client, method: str, target: str, headers: Headers, body: bytes) -> None:
        call = read_call(method, target, body)
        fault = self._faults.choose(call)
        # The first answer gives a conversation its id: there is no other that it could differ from.
        fault = None if fault == "wrong-context" and call.begins else fault
        status, _, late = (fault or "").partition("-")
        if fault == "reset" or (status.isdecimal() and not late):
            self._faults.inject(fault or "", call)
            await self._refuse(client, fault or "")
            return
        try:
            async with self._client.stream(
                method,
                self._origin + target,
                headers=[*headers, (b"accept-encoding", b"identity")],
                content=body,
            ) as response:
                if fault == "after-delivery" or status.isdecimal():
                    await response.aread()
                    self._faults.inject(fault or "", call)
                    await self._refuse(client, fault or "")
                else:
                    await self._answer(client, response, fault, call)
        except httpx.HTTPError as error:
            reason = f"the agent at {self._origin} gave no answer: {type(error).__name__}: {error}".rstrip(": ")
            self._faults.report(reason, call)
            if client.started:
                client.reset()
            else:
                await client.whole(502, [], f"fault proxy: {reason}\n".encode())

    def _is_agent(self, parts: Parts) -> bool:
        return origin_of(parts.geturl()) == self._origin

    async def _refuse(self, client: _Client, fault: str) -> None:
        if fault in ("reset", "after-delivery"):
            client.reset()
            return
        wait = [(b"retry-after", b"%d" % self._faults.retry_after)] if fault in ("429", "503-late") else []
        await client.whole(int(fault[:3]), wait, f"{fault}: injected by the fault proxy\n".encode())

    async def _answer(self, client: _Client, response: httpx.Response, fault: str | None, call: Call) -> None:
        if fault == "hang-before":
            await self._hang(fault, call)
        head = (response.status_code, [h for h in response.headers.raw if h[0].lower() not in NOT_REQUESTED])
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            await self._stream(client, head, split_events(response.aiter_raw()), fault, call)
            return
        body = await response.aread()
        if call.kind == "card":
            body = rewrite_card(body, self._ours, self._is_agent, proxied_only=True)
        if fault == "hang-after":
            await client.start(*head, len(body))
            await self._hang(fault, call)
            await client.data(body)
        elif fault == "half-close":
            await client.start(*head, len(body))
            await self._half(client, body, call)
        elif response.request.method == "HEAD" or response.status_code in (204, 304):
            await client.start(*head, 0)
        else:
            await client.whole(*head, b"".join(self._distort(fault, [body], call, is_stream=False)))

    async def _stream(
        self,
        client: _Client,
        head: tuple[int, Headers],
        events: AsyncIterator[bytes],
        fault: str | None,
        call: Call,
    ) -> None:
        await client.start(*head, None)
        if fault is not None and fault.partition("-")[0] not in ("hang", "half"):
            # An event's place depends on those after it: the client gets all of them when the agent has sent the last.
            for event in self._distort(fault, [event async for event in events], call, is_stream=True):
                await client.data(event)
        else:
            async for event in events:
                if fault == "half-close":
                    await self._half(client, event, call)
                    return
                await client.data(event)
                if fault == "hang-after":
                    await self._hang(fault, call)
                    fault = None
        await client.finish()

    def _distort(self, fault: str | None, pieces: list[bytes], call: Call, *, is_stream: bool) -> list[bytes]:
        changed = distort(fault or "", pieces, is_stream=is_stream)
        if changed != pieces:
            self._faults.inject(fault or "", call)
        return changed

    async def _hang(self, fault: str, call: Call) -> None:
        self._faults.inject(fault, call)
        await asyncio.sleep(self._faults.hang)

    async def _half(self, client: _Client, piece: bytes, call: Call) -> None:
        self._faults.inject("half-close", call)
        await client.data(piece[: len(piece) // 2])
        client.end()


class _Client:
    """The connection to the client, for one answer."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._chunked = False
        self.started = False

    async def start(self, status: int, headers: Headers, length: int | None) -> None:
        """Send the headers, with a length or, for None, as chunks."""
        self._chunked = length is None
        framing = (b"transfer-encoding", b"chunked") if length is None else (b"content-length", b"%d" % length)
        lines = [b"%s: %s\r\n" % header for header in (*headers, framing, (b"connection", b"close"))]
        phrase = responses.get(status, "")
        self.started = True
        await self._write(f"HTTP/1.1 {status} {phrase}\r\n".encode() + b"".join(lines) + b"\r\n")

    async def data(self, data: bytes) -> None:
        """Send a piece of the body."""
        if data:
            await self._write(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    async def finish(self) -> None:
        """End the body."""
        if self._chunked:
            await self._write(b"0\r\n\r\n")

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send an answer that is known as a whole."""
        await self.start(status, headers, len(body))
        await self.data(body)

    def end(self) -> None:
        """Send FIN."""
        self._writer.write_eof()

    def reset(self) -> None:
        """Break the connection with RST: what was written and not read is lost."""
        with contextlib.suppress(OSError):
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._writer.transport.abort()

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


async def _read(reader: asyncio.StreamReader) -> tuple[str, str, Headers, bytes] | None:
    """Read one request: method, path, headers and body; None for anything else."""
    http = h11.Connection(h11.SERVER)
    head, body = None, bytearray()
    with contextlib.suppress(h11.RemoteProtocolError):
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = [
                    (name, value) for name, value in head.headers.raw_items() if name.lower() not in NOT_REQUESTED
                ]
                return head.method.decode(), head.target.decode("latin-1"), headers, bytes(body)
            else:
                return None
    return None


async def until_stopped() -> None:
    """Wait for SIGINT or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
