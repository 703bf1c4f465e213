"""How long turns took, as a session tells it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from raw_agent import Request, event, raw_agent, response, rpc, stream_head

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.errors import AgentOutcomeError, AuthenticationError, TransportError
from pytest_a2a_bench.model import Part

Connect = Callable[..., AgentConnection]

HELLO = [Part.of_text("hello")]
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "fine"}]}}


def task(state: str) -> dict[str, Any]:
    return {"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}


def test_repetitions_and_polls_belong_to_the_turn(connect: Connect) -> None:
    turn = itertools.count()

    def handler(request: Request) -> bytes:
        time.sleep(0.1)
        number = next(turn)
        if number == 0:
            return response("busy", "429 Too Many Requests", "text/plain", Retry_After="0")
        if number == 1:
            return rpc({"task": task("WORKING")}, request)
        done = task("COMPLETED") | {"artifacts": [{"artifactId": "a", "parts": [{"text": "fine"}]}]}
        return rpc(done if number == 2 else MESSAGE, request)

    with raw_agent(handler) as agent:
        session = connect(agent.url, max_retries=1).session()
        assert session.turn_seconds == []
        begun = time.perf_counter()
        session.send(HELLO)
        between = time.perf_counter()
        session.send(HELLO)
        end = time.perf_counter()
    first, second = session.turn_seconds
    assert 0.3 <= first <= between - begun
    assert 0.1 <= second <= end - between


def test_a_task_that_failed_took_its_time_too(connect: Connect) -> None:
    with raw_agent(lambda request: rpc({"task": task("FAILED")}, request)) as agent:
        session = connect(agent.url).session()
        with pytest.raises(AgentOutcomeError):
            session.send(HELLO)
    assert len(session.turn_seconds) == 1
    assert session.turn_seconds[0] > 0


def test_infrastructure_errors_are_no_turns(connect: Connect) -> None:
    answers = iter([response("down", "500 Internal Server Error", "text/plain"), task("AUTH_REQUIRED")])

    def handler(request: Request) -> bytes:
        answer = next(answers)
        return answer if isinstance(answer, bytes) else rpc({"task": answer}, request)

    with raw_agent(handler) as agent:
        session = connect(agent.url).session()
        with pytest.raises(TransportError):
            session.send(HELLO)
        with pytest.raises(AuthenticationError):
            session.send(HELLO)
    assert session.turn_seconds == []
    assert len(session.metrics) == 2


def test_a_stream_that_stays_open_adds_nothing(connect: Connect) -> None:
    def handler(request: Request) -> Iterator[bytes]:
        yield stream_head()
        yield event(MESSAGE, request)
        time.sleep(1)

    with raw_agent(handler) as agent:
        session = connect(agent.url, streaming="on").session()
        started = time.monotonic()
        session.send(HELLO)
        assert session.turn_seconds[0] < time.monotonic() - started - 0.15
