"""An endpoint that accepts the connection and says nothing when it is asked for its card."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from raw_agent import Answer, RawAgent, Request, raw_agent, response, rpc

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.errors import EndpointUnreachableError
from pytest_a2a_bench.model import Part

Connect = Callable[..., AgentConnection]

SILENCE = r"GET http://127\.0\.0\.1:\d+/\.well-known/agent-card\.json: no answer within 0\.3 s.*check that"
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "fine"}]}}


@pytest.fixture
def silent() -> Iterator[RawAgent]:
    over = threading.Event()

    def handler(_: Request) -> bytes:
        over.wait(300)
        return response("late", "503 Service Unavailable", "text/plain")

    with raw_agent(handler, {}) as agent:
        yield agent
        over.set()


def test_silence_is_an_unreachable_endpoint(silent: RawAgent, connect: Connect) -> None:
    with pytest.raises(EndpointUnreachableError, match=SILENCE):
        connect(silent.url, timeout=0.3).card()


def test_a_turn_does_not_claim_its_own_time_for_it(silent: RawAgent, connect: Connect) -> None:
    session = connect(silent.url, timeout=0.3).session()
    # The agent would answer at the end of the turn's time, with 503 and not with silence.
    with pytest.raises(EndpointUnreachableError, match=SILENCE):
        session.send([Part.of_text("hello")], timeout=300)


def test_a_short_read_timeout_counts_too(silent: RawAgent, connect: Connect) -> None:
    with pytest.raises(EndpointUnreachableError, match=SILENCE):
        connect(silent.url, read_timeout=0.3).card()


def test_waiting_outlives_silence(silent: RawAgent, connect: Connect) -> None:
    hang = silent.handler

    def handler(request: Request) -> Answer:
        if request.method == "POST":
            return rpc(MESSAGE, request)
        if len(silent.requests) == 1:
            return hang(request)
        return response({"name": "late", "url": "/rpc"})

    silent.handler = handler
    assert connect(silent.url, timeout=0.3).wait_until_ready(10).name == "late"


def test_waiting_for_silence_ends(silent: RawAgent, connect: Connect) -> None:
    with pytest.raises(EndpointUnreachableError, match=SILENCE):
        connect(silent.url, timeout=0.3).wait_until_ready(1)
    assert len(silent.requests) > 1
