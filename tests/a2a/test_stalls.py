"""Streams that go silent, and connections that were forgotten on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from raw_agent import MESSAGE, RawAgent, Request, event, fine, rpc, say, scripted, stream_head

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.errors import StreamStalledError, TurnTimeoutError
from pytest_a2a_bench.model import Part

Connect = Callable[..., AgentConnection]
Serve = Callable[..., RawAgent]


def task(state: str, **fields: Any) -> dict[str, Any]:
    return {"id": "t1", "contextId": "c1", "status": {"state": state}, **fields}


DONE = task("TASK_STATE_COMPLETED", artifacts=[{"artifactId": "a", "parts": [{"text": "fine"}]}])


# --- streams that go silent ---


def test_stream_that_stalls_is_left_and_its_task_asked_for(serve: Serve, connect: Connect) -> None:
    asked = threading.Event()

    def stalling(request: Request) -> Iterator[bytes]:
        yield stream_head()
        yield event({"task": task("TASK_STATE_WORKING")}, request)
        asked.wait(60)

    def done(request: Request) -> bytes:
        asked.set()
        return rpc(DONE, request)

    agent = serve(scripted(stalling, done))
    session = connect(agent.url, streaming="on", stall_timeout=0.2).session()
    reply = session.send([Part.of_text("hello")])
    assert reply.text == "fine"
    assert "the stream stalled; the task was asked for instead" in reply.notes
    assert "StreamStalledError" in str(session.metrics[0].error)
    first, second = agent.messages
    assert first.connection != second.connection


def test_stream_that_stalls_without_a_task_says_so(serve: Serve, connect: Connect) -> None:
    over = threading.Event()

    def stalling(request: Request) -> Iterator[bytes]:
        yield stream_head()
        yield event({"statusUpdate": {"contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}}, request)
        over.wait(60)

    agent = serve(stalling)
    session = connect(agent.url, streaming="on", stall_timeout=0.2).session()
    with pytest.raises(StreamStalledError, match=r"nothing came for 0\.2 s after event 1.*stall-timeout") as caught:
        session.send([Part.of_text("hello")])
    over.set()
    assert session.tainted is caught.value
    assert len(agent.messages) == 1


def test_an_agent_that_has_not_begun_to_answer_is_slow_and_not_stalled(serve: Serve, connect: Connect) -> None:
    def slow(request: Request) -> Iterator[bytes]:
        yield stream_head()
        time.sleep(0.5)
        yield event(MESSAGE, request)

    assert say(connect(serve(slow).url, streaming="on", stall_timeout=0.1)).text == "fine"


@pytest.mark.slow
def test_comments_are_signs_of_life(serve: Serve, connect: Connect) -> None:
    def breathing(request: Request) -> Iterator[bytes]:
        yield stream_head()
        yield event({"task": task("TASK_STATE_WORKING")}, request)
        for _ in range(30):
            time.sleep(0.1)
            yield b": still here\n\n"
        yield event({"task": DONE}, request)

    reply = say(connect(serve(breathing).url, streaming="on", stall_timeout=2.0))
    assert (reply.text, reply.notes) == ("fine", ())


# --- connections that were forgotten ---


@pytest.mark.parametrize("kind", ["silence", "in a body", "in a stream"])
@pytest.mark.parametrize("limit", ["timeout", "read_timeout"])
def test_a_connection_that_timed_out_is_not_used_again(serve: Serve, connect: Connect, kind: str, limit: str) -> None:
    over = threading.Event()

    def forgotten(request: Request) -> Iterator[bytes]:
        if kind == "in a body":
            yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
        if kind == "in a stream":
            yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 500\r\n\r\n: hello\n\n"
        over.wait(60)

    agent = serve(scripted(fine, forgotten, fine))
    connection = connect(agent.url, **{limit: 0.3})
    assert say(connection).text == "fine"
    with pytest.raises(TurnTimeoutError):
        say(connection)
    for _ in range(3):
        assert say(connection).text == "fine"
    over.set()
    used = [r.connection for r in agent.messages]
    # The card's connection was still good for the first message, and the next ones share a new one.
    assert used[1] not in used[2:]
    assert used[2] == used[3] == used[4]
