"""How often anybody may ask: by caller where there are tokens, by address where there are none."""

from __future__ import annotations

import functools
from pathlib import Path

import httpx
import pytest
from assessor_server import served

from pytest_a2a_bench.assessor import server
from pytest_a2a_bench.assessor.callers import Callers
from pytest_a2a_bench.assessor.gateway import Limit, address_of
from pytest_a2a_bench.assessor.terms import Terms

ADA, BOB = "ada-7c1e5f6b2d9a4830", "bob-99d0b3c4a1e2f756"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time for the assessor's limit."""
    found = Clock()
    monkeypatch.setattr(server, "Limit", functools.partial(Limit, clock=found))
    return found


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (("10.1.2.3", 80), "10.1.2.3"),
        (("2001:db8:1:2:3::4", 80), "2001:db8:1:2::/64"),
        (("2001:db8:1:2:ffff::9", 80), "2001:db8:1:2::/64"),
        (("::ffff:10.1.2.3", 80), "10.1.2.3"),
        (("fe80::1%eth0", 80), "fe80::/64"),
        (("testclient", 80), "testclient"),
        (None, ""),
    ],
)
def test_one_machine_is_one_address(client: tuple[str, int] | None, address: str) -> None:
    assert address_of({"client": client}) == address


def test_each_caller_has_their_own_and_strangers_their_addresss(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ada={ADA}\nbob={BOB}\n")
    with served(Terms(tmp_path / "results", per_minute=3), Callers(file)) as url, httpx.Client(base_url=url) as client:

        def get(path: str, token: str) -> httpx.Response:
            return client.get(path, headers={"Authorization": f"Bearer {token}"})

        answers = [get("/metrics", ADA) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert answers[-1].headers["Retry-After"] == "20"
        assert "ask again in 20 s" in answers[-1].json()["error"]
        strangers = [get("/metrics", "nobody-0123456789abcdef").status_code for _ in range(3)]
        assert strangers == [401, 401, 401]
        # Whoever has no token is counted on what needs none, too; only whether we live is told to everybody.
        assert client.get("/.well-known/agent-card.json").status_code == 429
        assert client.post("/", json={}).status_code == 429
        assert client.get("/healthz").status_code == 200
        numbers = get("/metrics", BOB).text
    assert 'a2a_assessor_requests_limited_total{by="caller"} 1.0' in numbers
    assert 'a2a_assessor_requests_limited_total{by="address"} 2.0' in numbers
    assert 'a2a_assessor_requests_total{method="POST",status="429"} 1.0' in numbers


def test_without_tokens_addresses_are_counted(tmp_path: Path, clock: Clock) -> None:
    with served(Terms(tmp_path / "results", per_minute=2)) as url, httpx.Client(base_url=url) as client:
        assert [client.get(path).status_code for path in ("/", "/metrics", "/", "/healthz")] == [200, 200, 429, 200]
        assert client.post("/", json={}, headers={"Host": "elsewhere.test"}).status_code == 429
        clock.now += 20  # the next minute
        assert client.get("/metrics").status_code == 200
