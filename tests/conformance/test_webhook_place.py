"""Where push notifications are received, for agents that are elsewhere."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest
from full_agent import full_agent
from judged import SCRIPTED, collect

from pytest_a2a_bench.a2a.network import BindAddress, read_bind_address
from pytest_a2a_bench.conformance.finding import BINDINGS, CheckResult
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.target import targets_of
from pytest_a2a_bench.conformance.wire.webhook import WebhookReceiver
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.platforms.process import free_port

IDS = {"PUSH-011", "PUSH-016"}


@pytest.mark.parametrize(
    ("bind", "url", "place"),
    [
        (None, None, None),
        ("127.0.0.1:80", None, BindAddress("127.0.0.1", 80, "http://127.0.0.1:80")),
        ("[::1]:80", None, BindAddress("::1", 80, "http://[::1]:80")),
        ("0.0.0.0:80", "https://t.example/hooks/", BindAddress("0.0.0.0", 80, "https://t.example/hooks")),
    ],
)
def test_places(bind: str | None, url: str | None, place: BindAddress | None) -> None:
    assert read_bind_address(bind, url) == place


@pytest.mark.parametrize(
    ("bind", "url", "complaint"),
    [
        (None, "https://t.example", "nothing says where it listens"),
        ("8099", None, "give HOST:PORT"),
        ("host:0", None, "give HOST:PORT"),
        ("host:http", None, "give HOST:PORT"),
        ("0.0.0.0:80", None, "no address to call"),
        ("0.0.0.0:80", "t.example", r"give an http\(s\) URL"),
        ("0.0.0.0:80", "https://t.example?a=b", "without a query"),
    ],
)
def test_what_is_no_place(bind: str | None, url: str | None, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        read_bind_address(bind, url)


def test_whatever_stands_in_between_may_change_the_path() -> None:
    async def scenario() -> None:
        port = free_port()
        async with WebhookReceiver(BindAddress("127.0.0.1", port, "https://t.example/hooks")) as receiver:
            hook = receiver.hook()
            assert hook.url.startswith("https://t.example/hooks/")
            name = hook.url.rpartition("/")[2]
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                assert (await client.post(f"/{name}", content=b"1")).status_code == 200
                assert (await client.post(f"/other/prefix/{name}?x=1", content=b"2")).status_code == 200
                assert (await client.post("/other")).status_code == 404
            assert [d.body for d in hook.deliveries] == [b"1", b"2"]

    asyncio.run(scenario())


def judge(place: BindAddress) -> tuple[CheckResult, ...]:
    with full_agent() as url:
        card = httpx.get(f"{url}/.well-known/agent-card.json").json()
        targets = targets_of(card, url, scenarios=Scenarios(SCRIPTED), timeout=5, webhook=place)
        return asyncio.run(collect(targets, select=lambda p: p.requirement.id in IDS))


def test_one_port_serves_the_checks_of_all_bindings() -> None:
    port = free_port()
    results = judge(BindAddress("127.0.0.1", port, f"http://localhost:{port}/under/here"))
    assert {(r.requirement.id, r.binding): r.outcome for r in results} == {
        (id, binding): "passed" for id in IDS for binding in BINDINGS
    }


def test_a_port_that_is_taken_is_no_fault_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_a2a_bench.conformance.session.session._PORT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        results = judge(BindAddress("127.0.0.1", port, f"http://127.0.0.1:{port}"))
    assert {r.outcome for r in results} == {"error"}
    assert all("the webhook cannot listen on 127.0.0.1" in r.reason for r in results), results
