"""Agents whose card is at one address and whose interface is at another, where nobody is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from raw_agent import RawAgent, Request, raw_agent, response, rpc

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.errors import EndpointUnreachableError, TransportError
from pytest_a2a_bench.model import Part

Connect = Callable[..., AgentConnection]

MESSAGE = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "fine"}]}}


def gone() -> str:
    with raw_agent(lambda _: None) as agent:
        return agent.url


def name_interface(agent: RawAgent, url: str) -> None:
    agent.card["supportedInterfaces"] = [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]


def test_the_interface_is_tried_before_the_first_message(connect: Connect) -> None:
    with raw_agent(lambda _: None) as agent:
        name_interface(agent, gone())
        with pytest.raises(EndpointUnreachableError, match=r"the agent card of .* names this address"):
            connect(agent.url).wait_until_ready()


def test_a_gateway_with_nobody_behind_it_is_no_agent(connect: Connect) -> None:
    with (
        raw_agent(lambda _: response("nobody", "502 Bad Gateway", "text/plain")) as agent,
        pytest.raises(TransportError, match="502"),
    ):
        connect(agent.url).wait_until_ready()


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "401 Unauthorized", "404 Not Found", "500 Oh"])
def test_any_other_answer_means_that_the_agent_is_there(connect: Connect, status: str) -> None:
    with raw_agent(lambda _: response("what?", status, "text/plain")) as agent:
        connection = connect(agent.url)
        assert connection.wait_until_ready().name == "raw"
        connection.wait_until_ready()
        assert [r.json["method"] for r in agent.messages] == ["GetTask"]  # once


def test_an_interface_that_starts_late_is_waited_for(connect: Connect) -> None:
    def handler(request: Request) -> bytes:
        late = len(agent.messages) > 2
        return rpc(MESSAGE, request) if late else response("nobody", "503 Service Unavailable", "text/plain")

    with raw_agent(handler) as agent:
        connection = connect(agent.url)
        connection.wait_until_ready(60)
        assert connection.session().send([Part.of_text("hello")]).text == "fine"
