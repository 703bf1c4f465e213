"""How often anybody may ask: by caller where there are tokens, by address where there are none."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from assessor_server import served

from pytest_a2a_bench.assessor import rates, server
from pytest_a2a_bench.assessor.callers import Callers
from pytest_a2a_bench.assessor.rates import Rates, address_of
from pytest_a2a_bench.assessor.terms import Terms

ADA, BOB = "ada-7c1e5f6b2d9a4830", "bob-99d0b3c4a1e2f756"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass for the assessor's rates."""
    monkeypatch.setattr(server, "Rates", lambda per_minute: Rates(per_minute, Clock()))


def test_a_bucket_is_emptied_and_filled_again() -> None:
    clock = Clock()
    found = Rates(3, clock)
    assert [found.take("ada") for _ in range(3)] == [0, 0, 0]
    assert found.take("ada") == 20
    assert found.take("bob") == 0
    clock.now += 15
    assert found.take("ada") == pytest.approx(5)
    clock.now += 5.001
    assert (found.take("ada"), found.take("ada") > 19) == (0, True)
    clock.now += 1000  # no more than the bucket holds
    assert [found.take("ada") > 0 for _ in range(4)] == [False, False, False, True]


def test_no_more_callers_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_MOST", 2)
    found = Rates(1, Clock())
    for who in ("a", "b", "c"):
        assert found.take(who) == 0
    assert found.take("b") > 0
    assert found.take("a") == 0


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


@pytest.mark.usefixtures("still")
def test_each_caller_has_their_own_and_strangers_their_addresss(tmp_path: Path) -> None:
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


@pytest.mark.usefixtures("still")
def test_without_tokens_addresses_are_counted(tmp_path: Path) -> None:
    with served(Terms(tmp_path / "results", per_minute=2)) as url, httpx.Client(base_url=url) as client:
        assert [client.get(path).status_code for path in ("/", "/metrics", "/", "/healthz")] == [200, 200, 429, 200]
        assert client.post("/", json={}, headers={"Host": "elsewhere.test"}).status_code == 429
