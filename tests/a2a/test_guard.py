"""Which addresses may be called for a stranger, and that a connection goes to the address that was looked at."""

import asyncio
import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test
from raw_agent import raw_agent

from pytest_a2a_bench.a2a.network import ForbiddenAddress, Guard, Network
from pytest_a2a_bench.a2a.transport import RefusedConnection, open_client
from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError

PUBLIC = "93.184.216.34"


def vet(guard: Guard, host: str) -> str:
    return asyncio.run(guard.vet(host, 80))


@in_one_test(
    "host",
    [
        *("127.0.0.1", "127.1", "0x7f000001", "0.0.0.0", "10.1.2.3", "169.254.169.254", "100.64.0.1", "224.0.0.1"),
        *("::1", "[::1]", "fe80::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:0001::"),
        *("fec0::1", "feff::1", "64:ff9b:1::1", "64:ff9b:1::5db8:d822", "::ffff:0:93.184.216.34"),
        *("168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::a83f:8110"),
    ],
)
def test_addresses_of_inner_networks_are_refused_in_every_spelling(host: str) -> None:
    with pytest.raises(ForbiddenAddress, match="--allow-cidr"):
        vet(Guard(), host)
    with pytest.raises(ForbiddenAddress):
        Guard().vet_now(host, 80)


def test_public_addresses_and_those_that_the_operator_allows_may_be_called() -> None:
    for host in (PUBLIC, "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::5db8:d822"):
        assert vet(Guard(), host) == host
    guard = Guard.of(["127.0.0.0/8", "172.17.0.0/16", "::1"])
    assert vet(guard, "127.0.0.1") == "127.0.0.1"
    assert vet(guard, "::ffff:127.0.0.1") == "::ffff:7f00:1"
    assert vet(guard, "::1") == "::1"
    with pytest.raises(ForbiddenAddress):
        vet(guard, "172.18.0.1")
    for inner in ("fec0::1", "64:ff9b:1::1", "::ffff:0:5db8:d822", "168.63.129.16"):
        assert vet(Guard.of([inner]), inner) == inner
    with pytest.raises(ConfigurationError, match="no range of addresses"):
        Guard.of(["127.0.0.1/99"])


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_judged_by_itself(address: ipaddress.IPv4Address) -> None:
    bare = Guard().allows(address)
    for inside in (f"::ffff:{address}", f"64:ff9b::{address}"):
        assert Guard().allows(ipaddress.IPv6Address(inside)) == bare


def _resolving(monkeypatch: pytest.MonkeyPatch, answers: Iterator[list[str]]) -> list[str]:
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host != "agent.test":
            return real(host, port, *args, **kwargs)
        asked.append(host)
        found = next(answers)
        if not found:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


def test_every_address_of_a_name_has_to_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    _resolving(monkeypatch, iter([[PUBLIC, "10.0.0.1"], [PUBLIC], []]))
    with pytest.raises(ForbiddenAddress, match=r"agent.test \(10.0.0.1\)"):
        vet(Guard(), "agent.test")
    assert vet(Guard(), "agent.test") == PUBLIC
    with pytest.raises(EndpointUnreachableError, match="cannot be resolved"):
        vet(Guard(), "agent.test")


def _get(url: str, guard: Guard) -> httpx.Response:
    async def get() -> httpx.Response:
        async with open_client(Network(guard=guard), timeout=10) as client:
            return await client.get(url)

    return asyncio.run(get())


def test_a_connection_goes_to_the_address_that_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_agent(lambda _: None) as agent:
        with pytest.raises(RefusedConnection, match="not a public address"):
            _get(agent.url, Guard())
        assert agent.requests == []
        port = httpx.URL(agent.url).port
        # Looked at, and then never asked for again: what it says the second time is where the attack would be.
        asked = _resolving(monkeypatch, iter([["127.0.0.1"], ["169.254.169.254"]]))
        card = _get(f"http://agent.test:{port}/.well-known/agent-card.json", Guard.of(["127.0.0.0/8"]))
    assert card.status_code == 200
    assert card.request.headers["host"] == f"agent.test:{port}"
    assert asked == ["agent.test"]
