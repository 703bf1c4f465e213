"""Conversations that share a connection to one agent: its connections, and its pace."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable

import httpx
import pytest
from raw_agent import MESSAGE, RawAgent, Request, raw_agent, response, rpc

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.network import USUAL
from pytest_a2a_bench.a2a.transport import Pools, Transport
from pytest_a2a_bench.model import Part

Connect = Callable[..., AgentConnection]
HELLO = [Part.of_text("hello")]


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
        with pytest.raises(Exception, match="busy"):
            connection.session().send(HELLO)
        # As long as a turn may take, not as long as it says.
        assert 50 < connection.pace.book()() <= 100
        other = connection.session()
        turn = other.begin(HELLO)
        other.cancel()
        with pytest.raises(Exception, match="cancelled"):
            turn.result(60)
        assert len(agent.messages) == 1


def test_a_message_that_was_refused_is_sent_again_and_the_pace_recovers(connect: Connect) -> None:
    def answer(request: Request) -> bytes:
        return rpc(MESSAGE, request) if len(found.messages) > 1 else response("busy", "429 Too Many", Retry_After="0")

    with raw_agent(answer) as found:
        connection = connect(found.url, max_retries=2)
        connection.pace.refused(0.01)
        assert connection.session().send(HELLO).text == "fine"
        assert isinstance(found, RawAgent)
        before = connection.pace._gap
        assert connection.session().send(HELLO).text == "fine"
        assert 0 < connection.pace._gap < before


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
