"""Agents whose card depends on the A2A-Version that it is asked for with (§3.6.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from raw_agent import Request, raw_agent, response

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.conformance.card import fetch_card
from pytest_a2a_bench.conformance.subject import look_at
from pytest_a2a_bench.errors import CardError

Connect = Callable[..., AgentConnection]

REFUSED = {"code": -32009, "message": "AgentCard must have at least one interface with a protocol version of '0.3'"}


def card(version: str) -> dict[str, Any]:
    if version == "1.0":
        return {"supportedInterfaces": [{"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": version}]}
    return {"url": "/rpc", "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}


def serving(*versions: str) -> Callable[[Request], bytes]:
    def handler(request: Request) -> bytes:
        asked = request.headers.get("a2a-version", "0.3")
        if asked not in versions:
            return response(REFUSED, "400 Bad Request", Vary="A2A-Version")
        return response({"name": "versioned", **card(asked)}, Vary="A2A-Version", ETag='"1"')

    return handler


@pytest.mark.parametrize(
    ("served", "wanted", "found", "requests"),
    [
        (["1.0"], "auto", "1.0", 1),
        (["0.3"], "auto", "0.3", 2),
        (["0.3", "1.0"], "auto", "1.0", 1),
        (["0.3", "1.0"], "0.3", "0.3", 1),
        (["1.0"], "0.3", "1.0", 2),
    ],
)
def test_the_card_is_asked_for_as_either_version_does(
    connect: Connect, served: list[str], wanted: str, found: str, requests: int
) -> None:
    with raw_agent(serving(*served), {}) as agent:
        connection = connect(agent.url, protocol=wanted)
        assert [i.version for i in connection.card().interfaces] == [found]
        assert len(agent.requests) == requests
        raw, http, _ = fetch_card(agent.url, config=ClientConfig(endpoint=agent.url, protocol=wanted))
    assert raw == {"name": "versioned", **card(found)}
    assert http.problem == ""
    assert agent.requests[-1].headers["if-none-match"] == '"1"'
    assert agent.requests[-1].headers.get("a2a-version", "0.3") == found


def test_both_views_of_a_card_are_judged() -> None:
    with raw_agent(serving("0.3", "1.0"), {}) as agent:
        subject = look_at(ClientConfig(endpoint=agent.url))
        alone = look_at(ClientConfig(endpoint=agent.url, protocol="0.3"))
    assert subject.interfaces == ("1.0 JSONRPC", "0.3 JSONRPC")
    assert {p.requirement.version for p in subject.planned} == {"1.0", "0.3"}
    old = {(f.rule, f.found) for f in subject.findings if f.rule.startswith("V03-")}
    assert old == {(f.rule, f"without A2A-Version: {f.found}") for f in alone.findings if f.rule.startswith("V03-")}
    assert any(f.rule == "CARD-003" and not f.found.startswith("without") for f in subject.findings)


def test_a_card_for_one_version_has_one_view() -> None:
    with raw_agent(serving("1.0"), {}) as agent:
        subject = look_at(ClientConfig(endpoint=agent.url))
    assert subject.interfaces == ("1.0 JSONRPC",)
    assert not any(f.rule.startswith("V03-") or f.found.startswith("without") for f in subject.findings)


def test_a_card_that_is_refused_in_both_says_why(connect: Connect) -> None:
    with (
        raw_agent(serving(), {}) as agent,
        pytest.raises(CardError, match="at least one interface with a protocol version"),
    ):
        connect(agent.url).card()
