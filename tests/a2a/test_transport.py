"""Conversations that share a connection to one agent: its connections, and its pace."""

import asyncio
import contextlib
import gc
import json
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from connections import Connect, Serve
from raw_agent import (
    DONE,
    HELLO,
    MESSAGE,
    Request,
    event,
    fine,
    raw_agent,
    response,
    rpc,
    say,
    scripted,
    stream_head,
    task,
)

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.network import USUAL
from pytest_a2a_bench.a2a.transport import Pools, Transport, open_client
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import CardError, StreamStalledError, TurnTimeoutError
from pytest_a2a_bench.model import Part


def test_each_conversation_has_a_connection_and_a_later_one_takes_it_over(connect: Connect) -> None:
    together = threading.Barrier(40, timeout=60)

    def answer(request: Request) -> bytes:
        if "hello" in json.dumps(request.json):
            together.wait()
        return rpc(MESSAGE, request)

    with raw_agent(answer) as agent:
        connection = connect(agent.url)
        turns = [connection.session().begin(HELLO) for _ in range(40)]
        assert {turn.result(60).text for turn in turns} == {"fine"}
        first = {request.connection for request in agent.messages}
        assert len(first) == 40
        for _ in range(5):
            connection.session().send([Part.of_text("again")])
        assert {request.connection for request in agent.messages[40:]} <= first


def test_more_requests_than_connections_wait_for_one() -> None:
    with raw_agent(lambda request: rpc(MESSAGE, request)) as agent:

        async def ask(transport: Transport) -> int:
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}).encode()
            answer = await transport.handle_async_request(httpx.Request("POST", agent.url, content=body))
            await answer.aread()
            await answer.aclose()
            return answer.status_code

        async def ask_many() -> list[int]:
            transport = Transport(USUAL, httpx.Limits(max_connections=3))
            try:
                return await asyncio.gather(*(ask(transport) for _ in range(30)))
            finally:
                await transport.aclose()

        assert asyncio.run(ask_many()) == [200] * 30
        assert len({request.connection for request in agent.messages}) <= 3


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_a_busy_agent_is_left_alone_by_all_conversations(connect: Connect, status: str) -> None:
    def answer(request: Request) -> bytes:
        return response("busy", status, "text/plain", Retry_After="200")

    with raw_agent(answer) as agent:
        connection = connect(agent.url, max_retries=0, timeout=100.0)
        with pytest.raises(Exception, match="busy.*run later" if "429" in status else "busy"):
            connection.session().send(HELLO)
        # As long as a turn may take, not as long as it says.
        assert 50 < connection.pace.book()() <= 100
        other = connection.session()
        turn = other.begin(HELLO)
        other.cancel()
        with pytest.raises(Exception, match="cancelled"):
            turn.result(60)
        assert len(agent.messages) == 1


def test_a_connection_that_failed_halfway_is_not_waited_for() -> None:
    """httpcore takes a tunnel whose TLS failed for busy for ever: who is next must not get that one."""

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.drain()
        writer.close()

    async def ask(times: int) -> list[str]:
        server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
        proxy = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        pools = Pools(lambda limits: httpx.AsyncHTTPTransport(proxy=proxy, limits=limits), httpx.Limits())
        failed = []
        for _ in range(times):
            try:
                # Not a measure: without an answer it would wait for ever.
                async with asyncio.timeout(60):
                    await pools.handle_async_request(httpx.Request("GET", "https://agent.test/"))
            except (httpx.HTTPError, TimeoutError) as error:
                failed.append(type(error).__name__)
        await pools.aclose()
        server.close()
        return failed

    assert asyncio.run(ask(3)) == ["ConnectError"] * 3


# A connection that nobody closed, or that was given up while it was made, leaves no socket behind.


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers one request after the other, and keeps the connection until the other side closes it."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.was_closed = threading.Event()
        self.answered = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self.listening, self.listening.accept()[0] as connection:
            while connection.recv(65536):
                self.answered += 1
                connection.sendall(ANSWER)
            self.was_closed.set()


@pytest.mark.slow
@pytest.mark.parametrize("in_a_cycle", [False, True])
def test_a_dropped_connection_is_closed(in_a_cycle: bool) -> None:
    server = Server()
    settings = Settings(endpoint=f"http://127.0.0.1:{server.listening.getsockname()[1]}")
    connection = AgentConnection(ClientConfig.from_settings(settings, os.environ))
    with pytest.raises(CardError):
        connection.card()
    assert server.answered
    assert not server.was_closed.is_set()
    if in_a_cycle:
        connection.itself = connection  # type: ignore[attr-defined]
    del connection
    # What is left to the collector is warned of here, and pytest makes an error of that.
    # The loop's thread may still hold its last step: then a later collection finds the connection.
    assert any(gc.collect() >= 0 and server.was_closed.wait(0.1) for _ in range(600))


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_connection_canceled_while_connecting_is_closed(host: str) -> None:
    """At whichever step of the event loop that happens."""

    async def give_up(port: int, steps: int) -> None:
        async with open_client(USUAL) as client:
            asking = asyncio.create_task(client.get(f"http://{host}:{port}/"))
            for _ in range(steps):
                await asyncio.sleep(0)
            if steps > 20:
                await asyncio.sleep((steps - 20) / 2000)  # a name is looked up in a thread
            asking.cancel()
            await asyncio.wait([asking])

    async def give_up_at_each_step(port: int) -> None:
        for steps in range(40):
            await give_up(port, steps)

    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening, warnings.catch_warnings():
        warnings.simplefilter("error")  # pytest makes a failure of what the collector cannot raise
        asyncio.run(give_up_at_each_step(listening.getsockname()[1]))
        gc.collect()


@contextlib.contextmanager
def full(host: str, port: int) -> Iterator[None]:
    """Listen at an address, and leave connections waiting there until further ones get no answer."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(socket.create_server((host, port), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        yield


def test_an_address_that_refuses_or_is_silent_keeps_nobody_from_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up = socket.getaddrinfo
    refusing, silent, answering = "127.0.0.3", "127.0.0.2", "127.0.0.1"
    addresses: list[str] = []

    def known(host: str | bytes, port: int, *arguments: Any, **named: Any) -> Any:
        if host not in ("several.test", b"several.test"):
            return look_up(host, port, *arguments, **named)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", known)

    async def get(port: int) -> int:
        async with open_client(USUAL, timeout=60) as client:
            return (await client.get(f"http://several.test:{port}/")).status_code

    for first in (refusing, silent):
        server = Server()
        port = server.listening.getsockname()[1]
        with full(silent, port):
            addresses[:] = [first, answering]
            assert asyncio.run(get(port)) == 200
        assert server.was_closed.wait(60)
    addresses[:] = [refusing, refusing]
    with pytest.raises(httpx.ConnectError, match=r"Connect|refused|failed"):
        asyncio.run(get(port))


# Streams that go silent, and connections that were forgotten on the way.


def test_an_agent_that_has_not_begun_to_answer_is_slow_and_not_stalled(serve: Serve, connect: Connect) -> None:
    def slow(request: Request) -> Iterator[bytes]:
        yield stream_head()
        time.sleep(0.5)
        yield event(MESSAGE, request)

    assert say(connect(serve(slow).url, streaming="on", stall_timeout=0.1)).text == "fine"


def stalling(*events: dict[str, Any], pings: bool) -> tuple[Callable[[Request], Iterator[bytes]], threading.Event]:
    """Return a stream that has some events and then comments or nothing, until it is left or the event is set."""
    over = threading.Event()

    def stream(request: Request) -> Iterator[bytes]:
        yield stream_head()
        yield from (event(each, request) for each in events)
        while not over.wait(0.02):
            if pings:
                yield b": ping\n\n"

    return stream, over


# Half of a turn's time is left to ask for the task, where the longest silence is longer than that.
@pytest.mark.parametrize(
    ("pings", "limits"), [(False, {"stall_timeout": 1.0}), (True, {"stall_timeout": 1.0}), (True, {"timeout": 4.0})]
)
def test_a_stalled_stream_is_left(serve: Serve, connect: Connect, pings: bool, limits: dict[str, Any]) -> None:
    stream, over = stalling({"task": task("WORKING")}, pings=pings)
    agent = serve(scripted(stream, lambda request: rpc(DONE, request)))
    session = connect(agent.url, streaming="on", **limits).session()
    reply = session.send(HELLO)
    over.set()
    assert reply.text == "fine"
    assert reply.notes == ("the stream stalled; the task was asked for instead: GetTask says completed",)
    assert "StreamStalledError" in str(session.metrics[0].error)
    first, second = agent.messages
    assert first.connection != second.connection


@pytest.mark.parametrize(
    ("events", "pings", "told"),
    [
        (
            [{"statusUpdate": {"contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}}],
            False,
            r"no event came for 1 s after event 1.*stall-timeout",
        ),
        ([], True, r"no event came for 1 s after it was opened"),
    ],
)
def test_a_stream_that_stalls_without_a_task_says_so(
    serve: Serve, connect: Connect, events: list[dict[str, Any]], pings: bool, told: str
) -> None:
    stream, over = stalling(*events, pings=pings)
    agent = serve(stream)
    session = connect(agent.url, streaming="on", stall_timeout=1.0).session()
    with pytest.raises(StreamStalledError, match=told) as caught:
        session.send(HELLO)
    over.set()
    assert session.tainted is caught.value
    assert len(agent.messages) == 1


# --- connections that were forgotten ---


FORGOTTEN = {
    "silence": b"",
    "in a body": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
    "in a stream": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 500\r\n\r\n: hello\n\n",
}


@pytest.mark.parametrize(("limit", "told"), [("timeout", "longer than 3 s"), ("read_timeout", "no byte for 3 s")])
def test_a_connection_that_timed_out_is_not_used_again(serve: Serve, connect: Connect, limit: str, told: str) -> None:
    over = threading.Event()

    def forgetting(said: bytes) -> Callable[[Request], Iterator[bytes]]:
        def answer(_: Request) -> Iterator[bytes]:
            if said:
                yield said
            over.wait(60)

        return answer

    agents = [serve(scripted(fine, forgetting(said), fine)) for said in FORGOTTEN.values()]
    # In these seconds a busy machine gives the other answers.
    connections = [connect(agent.url, **{limit: 3.0}) for agent in agents]
    assert [say(connection).text for connection in connections] == ["fine"] * len(FORGOTTEN)
    turns = [connection.session().begin(HELLO) for connection in connections]
    for turn in turns:
        with pytest.raises(TurnTimeoutError, match=told):
            turn.result(60)
    for connection in connections:
        assert [say(connection).text for _ in range(3)] == ["fine"] * 3
    over.set()
    for kind, agent in zip(FORGOTTEN, agents, strict=True):
        used = [r.connection for r in agent.messages]
        # The card's connection was still good for the first message, and the next ones share a new one.
        assert used[1] not in used[2:], kind
        assert used[2] == used[3] == used[4], kind
