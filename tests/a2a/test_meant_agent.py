"""The agent that was meant: another one at the server's root is not tested in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from raw_agent import RawAgent, Request, raw_agent, response

from pytest_a2a_bench.a2a.card import narrow_to_endpoint
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.conformance.card import fetch_card
from pytest_a2a_bench.conformance.subject import look_at
from pytest_a2a_bench.errors import CardError

ROOT = "/.well-known/agent-card.json"


@contextmanager
def rooted(*paths: str, redirects: bool = False) -> Iterator[RawAgent]:
    """Serve a card at the root only, whose interfaces are at some paths."""

    def answer(request: Request) -> bytes:
        if request.path == ROOT:
            return response(card)
        if redirects and request.path.endswith(ROOT):
            return response("", "302 Found", Location=ROOT)
        return response("not here", "404 Not Found")

    with raw_agent(answer, {}) as agent:
        card: dict[str, Any] = {
            "name": "other",
            "supportedInterfaces": [
                {"url": agent.url + path, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"} for path in paths
            ],
        }
        yield agent


Look = Callable[[str], object]


def by_client(url: str) -> object:
    with AgentConnection(ClientConfig(url)) as connection:
        return connection.card()


@pytest.mark.parametrize("look", [by_client, fetch_card, lambda url: look_at(ClientConfig(url))])
@pytest.mark.parametrize("redirects", [False, True])
def test_the_agent_at_the_root_is_another_one(look: Look, redirects: bool) -> None:
    with rooted("/rpc", "/foo", "/foo/barracks", redirects=redirects) as agent, pytest.raises(CardError) as caught:
        look(f"{agent.url}/foo/bar/")
    assert str(caught.value) == (
        f"no agent card found for {agent.url}/foo/bar/; the card at the server's root, {agent.url}{ROOT}, is of "
        f"another agent ('other'): its interfaces are jsonrpc 1.0 at {agent.url}/rpc; jsonrpc 1.0 at {agent.url}/foo; "
        f"jsonrpc 1.0 at {agent.url}/foo/barracks, and none of them is at /foo/bar or below; correct the path, or give "
        f"{agent.url} to test that agent"
    )


@pytest.mark.parametrize("path", ["/foo/bar", "/foo/bar/rpc"])
def test_of_a_card_at_the_root_the_interfaces_below_the_path_are_used(path: str) -> None:
    with rooted("/rpc", path) as agent:
        with AgentConnection(ClientConfig(f"{agent.url}/foo/bar")) as connection:
            assert [i.url for i in connection.card().interfaces] == [agent.url + path]
            assert connection.card().url == agent.url + ROOT
        subject = look_at(ClientConfig(f"{agent.url}/foo/bar"))
        assert [t.url for t in subject.targets(ClientConfig(agent.url), _no_scenarios(), 1.0)] == [agent.url + path]


def _no_scenarios() -> Any:
    from pytest_a2a_bench.conformance.scenarios import Scenarios

    return Scenarios()


def test_a_card_at_the_path_is_the_agents_own_wherever_its_interfaces_are() -> None:
    raw = {"supportedInterfaces": [{"url": "http://a/rpc", "protocolBinding": "JSONRPC"}]}
    assert narrow_to_endpoint(raw, "http://a/foo", f"http://a/foo{ROOT}") is raw
    assert narrow_to_endpoint(raw, f"http://a/x{ROOT}", f"http://a{ROOT}") is raw
    assert narrow_to_endpoint(raw, "http://a/", f"http://a{ROOT}") is raw
    assert narrow_to_endpoint(raw, "http://a/foo", "http://a/cards/foo.json") is raw


def test_cards_of_0_3() -> None:
    raw = {
        "name": "n",
        "url": "http://a/rpc",
        "additionalInterfaces": [
            {"url": "http://a/foo/rest", "transport": "HTTP+JSON"},
            {"url": "a:50051/foo", "transport": "GRPC"},
        ],
    }
    meant = narrow_to_endpoint(raw, "http://a/foo", f"http://a{ROOT}")
    assert meant == {"name": "n", "additionalInterfaces": [{"url": "http://a/foo/rest", "transport": "HTTP+JSON"}]}
    own = {**raw, "url": "/foo"}
    assert narrow_to_endpoint(own, "http://a/foo", f"http://a{ROOT}")["url"] == "/foo"


@pytest.mark.parametrize("raw", [{}, {"supportedInterfaces": 5}, {"url": 7}, {"additionalInterfaces": ["x", None]}])
def test_a_card_at_the_root_that_names_nothing_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(CardError, match="its interfaces are none"):
        narrow_to_endpoint(raw, "http://a/foo", f"http://a{ROOT}")


@pytest.mark.parametrize("options", [(), ("--card",)])
def test_the_command_refuses_it(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with rooted("/rpc") as agent:
        assert main(["check", *options, f"{agent.url}/foo/bar"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"a2a-bench: no agent card found for {agent.url}/foo/bar; the card at the server's root")
    assert told.count("\n") == 1
