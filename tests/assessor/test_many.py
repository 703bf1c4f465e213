"""Many assessments at once: each comes to its own numbers, whatever the others' agents do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from assessor_server import LOCAL, Caller, Told, gen3, message, served, wait_for_end
from builtin_server import served as agent_served
from raw_agent import raw_agent, response

from pytest_a2a_bench.assessor.terms import Terms

pytestmark = pytest.mark.slow

AT_ONCE = 10


async def _ask_all(caller: Caller, requests: list[dict[str, object]]) -> list[Told]:
    return list(await asyncio.gather(*(caller._ask(message(request), Told()) for request in requests)))


def test_ten_at_once_come_to_their_own_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_a2a_bench.assessor.assessment._WAIT", 0.2)
    terms = Terms(tmp_path / "results", guard=LOCAL, at_once=AT_ONCE, per_caller=AT_ONCE, concurrency=2)
    with (
        agent_served("oracle") as good,
        agent_served("oracle?latency=0.3") as slow,
        raw_agent(lambda _: response("<script>alert(1)</script>\x1b[31m" * 1000, kind="text/html")) as hostile,
        served(terms) as url,
    ):
        down = "http://127.0.0.1:9/"
        agents = [good.url] * 7 + [slow.url, hostile.url, down]
        requests = [gen3(agent, domain="mock", tag_trials=True) for agent in agents]
        told = asyncio.run(_ask_all(Caller(url), requests))
        states = [wait_for_end(terms.results, one)["state"] for one in told]
    *fine, of_hostile, of_down = told
    for one in fine:
        assert one.state == "completed", one.text
        assert (one.result["score"], one.result["max_score"], one.result["errors"]["count"]) == (9, 9, 0)
    for broken in (of_hostile, of_down):
        assert (broken.state, broken.artifacts) == ("failed", []), broken
        assert "Agent error" in broken.text
        assert "\x1b" not in broken.text
    assert states == [one.state for one in told]
    assert len({one.task for one in told}) == AT_ONCE
