"""``python -m pytest_a2a_bench.chaos URL``: an HTTP proxy before an agent that injects named faults, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import struct
import sys
import urllib.parse
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http.client import responses
from typing import Any

import h11
import httpx

from pytest_a2a_bench.a2a.card import CARD_METHODS, CARD_PATHS, NOT_REQUESTED, Parts, rewrite_card
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.network import USUAL, Network
from pytest_a2a_bench.a2a.transport import open_client
from pytest_a2a_bench.config.load import of_command
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.listener import listen, local_url
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.text import did_you_mean, one_line

FAULTS = {
    "reset": "resets the connection before the agent gets the request",
    "after-delivery": "lets the agent answer, drops its answer and resets the connection",
    "half-close": "ends the connection (FIN) in the middle of the answer",
    "hang-before": "delivers the request and is silent before the answer's headers",
    "hang-after": "is silent after the answer's headers, or after a stream's first event",
    "429": "429 Too Many Requests with Retry-After; the agent does not get the request",
    "503": "503 Service Unavailable; the agent does not get the request",
    "500-late": "500 Internal Server Error after the agent got the request",
    "503-late": "503 Service Unavailable with Retry-After after the agent got the request",
    "504-late": "504 Gateway Timeout after the agent got the request",
    "truncate": "cuts the answer (of a stream: its last event) in the middle and ends it properly",
    "duplicate": "sends every event of a stream twice",
    "reorder": "swaps the first two events of a stream",
    "wrong-id": "answers with another JSON-RPC id",
    "wrong-context": "answers with other contextIds, once the conversation has one",
    "wrong-task": "answers with other task ids",
}

# What the parties say is theirs: only the envelope's ids are changed.
_CONTENT = frozenset({"parts", "content", "metadata", "data"})
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_SENDS = ("SendMessage", "SendStreamingMessage", "message/send", "message/stream")
_TASKS = ("GetTask", "SubscribeToTask", "tasks/get", "tasks/resubscribe")
_REST = (("send", re.compile(r"/message:(send|stream)$")), ("task", re.compile(r"/tasks/[^/:]+(:subscribe)?$")))


def parse_faults(texts: Iterable[str]) -> dict[str, float]:
    """Read ``NAME=PROBABILITY`` for each fault.

    :raises ConfigurationError: for unknown names, and probabilities that are none or sum to more than 1.
    """
    rates: dict[str, float] = {}
    for name, _, text in (text.partition("=") for text in texts):
        if name not in FAULTS:
            raise ConfigurationError(f"there is no fault {name!r}{did_you_mean(name, tuple(FAULTS))} (see --help)")
        try:
            rates[name] = float(text)
        except ValueError:
            rates[name] = -1.0
        if not 0 <= rates[name] <= 1:
            raise ConfigurationError(f"--fault {name}={text}: give a probability from 0 to 1")
    # Ten rates of 0.1 are 1, whatever binary fractions make of it.
    if sum(rates.values()) > 1 + 1e-9:
        raise ConfigurationError(f"the probabilities sum to {sum(rates.values()):g}; a request meets one fault at most")
    return rates


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a client.

    :param method: JSON-RPC's name, or HTTP's method and path.
    :param kind: ``send``, ``task``, ``card`` or ``other``.
    :param begins: whether it sends a message that names no conversation, so that the answer does.
    """

    method: str
    kind: str
    message_id: str = ""
    begins: bool = False


def read_call(method: str, target: str, body: bytes) -> Call:
    """Read an HTTP request.

    :param target: the request's path with its query.
    """
    path = target.partition("?")[0]
    content = _read_json(body)
    name, params = f"{method} {path}", content
    kind = next((kind for kind, pattern in _REST if pattern.search(path)), "other")
    if path.endswith(CARD_PATHS):
        kind = "card"
    elif isinstance(content, dict) and isinstance(content.get("method"), str):
        name, params = content["method"], content.get("params")
        kinds = (("send", _SENDS), ("task", _TASKS), ("card", CARD_METHODS))
        kind = next((kind for kind, names in kinds if name in names), "other")
    message = params.get("message") if isinstance(params, dict) else None
    message = message if isinstance(message, dict) else {}
    return Call(name, kind, str(message.get("messageId", "")), kind == "send" and not message.get("contextId"))


class Draws:
    """Chooses a fault for each request: the n-th meets the same one for the same seed.

    :param rates: fault -> probability.
    :param kinds: of the requests that may meet one.
    """

    def __init__(self, rates: dict[str, float], seed: int = 0, kinds: tuple[str, ...] = ("send", "task")) -> None:
        self._rates, self._seed, self._kinds = rates, seed, kinds
        self.requests = 0

    def __call__(self, call: Call) -> str | None:
        """Return the fault of the next request, or None."""
        if call.kind not in self._kinds:
            return None
        self.requests += 1
        digest = hashlib.blake2b(f"{self._seed}\0{self.requests}".encode(), digest_size=8).digest()
        left = int.from_bytes(digest) / 2**64
        for name, rate in self._rates.items():
            if left < rate:
                return name
            left -= rate
        return None


async def split_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split an event stream into its events, each with the empty line that ends it."""
    rest = b""
    async for chunk in chunks:
        rest += chunk
        while end := _EVENT_END.search(rest):
            yield rest[: end.end()]
            rest = rest[end.end() :]
    if rest:
        yield rest


def distort(fault: str, pieces: Sequence[bytes], *, is_stream: bool) -> list[bytes]:
    """Return an answer as a fault leaves it; the same pieces where there is nothing that it could change.

    :param pieces: the events of a stream, or the one body of another answer.
    """
    if fault == "duplicate" and is_stream:
        return [piece for piece in pieces for _ in range(2)]
    if fault == "reorder" and is_stream:
        return [*pieces[1:2], *pieces[:1], *pieces[2:]]
    if fault == "truncate" and pieces:
        return [*pieces[:-1], pieces[-1][: len(pieces[-1]) // 2]]
    if fault.startswith("wrong-"):
        return [change_ids(fault, piece) for piece in pieces]
    return list(pieces)


def change_ids(fault: str, piece: bytes) -> bytes:
    """Return a JSON body, or a server-sent event with JSON, with the ids changed that the fault is about."""
    lines = [line for line in piece.splitlines() if line.startswith(b"data:")]
    text = b"\n".join(line[5:].strip() for line in lines) if lines else piece
    value = _read_json(text)
    if fault == "wrong-id":
        is_rpc = isinstance(value, dict) and "jsonrpc" in value and value.get("id") is not None
        changed = {**value, "id": f"chaos-{value['id']}"} if is_rpc else value
    else:
        changed = _change(fault, value)
    if changed == value:
        return piece
    written = json.dumps(changed).encode()
    return b"data: " + written + b"\n\n" if lines else written


def _change(fault: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_change(fault, item) for item in value]
    if not isinstance(value, dict):
        return value
    wrong = {"contextId"} if fault == "wrong-context" else {"taskId"}
    if fault == "wrong-task" and isinstance(value.get("status"), dict):
        wrong.add("id")
    return {
        key: f"chaos-{item}" if key in wrong else item if key in _CONTENT else _change(fault, item)
        for key, item in value.items()
    }


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL; of a relative one ``://``."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def _read_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


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
                method, self._origin + target, headers=[*headers, (b"accept-encoding", b"identity")], content=body
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
        self, client: _Client, head: tuple[int, Headers], events: AsyncIterator[bytes], fault: str | None, call: Call
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
        """Break the connection with RST: data that was written and not read is lost."""
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


# --- the command ---

DEFAULT = ("reset=0.05", "after-delivery=0.02", "half-close=0.02", "503=0.05", "429=0.02")
"""The faults where none is named."""

KINDS = {"messages": ("send", "task"), "sends": ("send",), "all": ("send", "task", "card", "other")}


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_a2a_bench.chaos",
        description="An HTTP proxy before an A2A agent that injects faults. Give its URL to the client.",
        epilog="faults:\n" + "\n".join(f"  {name:<15} {text}" for name, text in FAULTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("url", metavar="URL", help="the agent's base URL, or its card's")
    add("--fault", action="append", metavar="NAME=RATE", help=f"a fault and its probability ({' '.join(DEFAULT)})")
    add("--seed", type=int, default=0, metavar="N", help="the same seed gives the same faults (0)")
    add("--on", choices=KINDS, default="messages", help="requests that may meet a fault (messages and task reads)")
    add("--hang", type=float, default=600.0, metavar="SECONDS", help="silence of hang-before and hang-after (600)")
    add("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    add("--port", type=int, default=0, choices=range(65536), metavar="N", help="port to listen on (any free one)")
    add("--public-url", metavar="URL", help="base URL that the card shows (the address that it listens on)")
    add("--wait", type=float, default=0.0, metavar="SECONDS", help="wait so long for the agent to answer (0)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the proxy, and return the exit code."""
    arguments = make_parser().parse_args(argv)
    try:
        draws = Draws(parse_faults(arguments.fault or DEFAULT), arguments.seed, KINDS[arguments.on])
        faults = Faults(draws, arguments.hang, report=lambda fault, call: _report(draws, fault, call))
        asyncio.run(_serve(arguments, faults))
    except A2ABenchError as error:
        options = [f"--{name.replace('_', '-')}" for name in vars(arguments)]
        print(f"chaos: {one_line(of_command(options).words(str(error)))}", file=sys.stderr)
        return 2
    counts = ", ".join(f"{name} {count}" for name, count in sorted(faults.injected.items()))
    print(f"chaos: {draws.requests} requests, {faults.injected.total()} faults ({counts or 'none'})", file=sys.stderr)
    return 0


def _report(draws: Draws, fault: str, call: Call) -> None:
    about = f"{call.method} {call.message_id}".rstrip()
    print(one_line(f"request {draws.requests}: {fault} ({about})"), flush=True)


async def _serve(arguments: argparse.Namespace, faults: Faults) -> None:
    network = Network.from_settings(Settings(), os.environ)
    connection = AgentConnection(ClientConfig(endpoint=arguments.url, network=network, wait=arguments.wait))
    try:
        card = await connection.await_until_ready()
    finally:
        await connection.aclose()
    async with proxy_before(
        card.url, faults, arguments.host, arguments.port, public=arguments.public_url, network=network
    ) as url:
        print(
            f"chaos before {redact_url(arguments.url, query=False)} (Ctrl-C stops it)\n"
            f"try: pytest --a2a-endpoint {url} -k airline",
            flush=True,
        )
        await until_stopped()


if __name__ == "__main__":
    sys.exit(main())
