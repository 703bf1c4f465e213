"""Tokens for agents: named in a request, sent where the operator said, and found nowhere else."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from assessor_server import LOCAL, Caller, gen3, saying, served, wait_for_end
from raw_agent import RawAgent, raw_agent, response

from pytest_a2a_bench.assessor.monitoring import JsonFormatter
from pytest_a2a_bench.assessor.terms import Terms

CANARY = "canary-agent-2f7c9b1e5d3a8640"
MISTAKE = "sk-mistake-91d7c5b3a1f20846"


parrot = saying(lambda request: f"{request.headers}")
"""Says what was heard, the headers with their token among it."""


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[RawAgent]:
    monkeypatch.setenv("PURPLE_TOKEN", CANARY)
    with raw_agent(parrot) as found:
        yield found


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.LogCaptureFixture]:
    monkeypatch.setattr(caplog.handler, "formatter", JsonFormatter())
    with caplog.at_level(logging.DEBUG):
        yield caplog


def heard(agent: RawAgent) -> set[str]:
    return {request.headers.get("authorization", "") for request in agent.messages}


@pytest.mark.parametrize("domain", ["mock", pytest.param("conformance", marks=pytest.mark.slow)])
def test_a_token_reaches_its_agent_and_nobody_else(
    agent: RawAgent, tmp_path: Path, logged: pytest.LogCaptureFixture, domain: str
) -> None:
    terms = Terms(tmp_path / "r", guard=LOCAL, agent_tokens={"PURPLE_TOKEN": agent.url}, is_private=True)
    with served(terms) as url:
        many = {"num_tasks": 2, "max_steps": 10} if domain == "mock" else {}
        received = Caller(url).ask(gen3(agent.url, domain=domain, agent_token="PURPLE_TOKEN", **many))
        wait_for_end(tmp_path / "r", received)
        assert received.state == "completed", received.text
        assert f"Bearer {CANARY}" in heard(agent)
        pages = [httpx.get(url + path, timeout=60).text for path in ("", "metrics", f"assessments/{received.task}")]
        again = Caller(url).get(received.task)
        before = len(agent.messages)
        Caller(url).ask(gen3(agent.url, domain="mock", num_tasks=1))
        assert not [request for request in agent.messages[before:] if "authorization" in request.headers]
    assert "Report" in pages[0]
    for text in (*pages, repr(received), repr(again), logged.text):
        assert CANARY not in text
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


def test_a_token_goes_to_no_other_agent_and_no_card_leads_it_elsewhere(agent: RawAgent, tmp_path: Path) -> None:
    with raw_agent(parrot) as other, served(
        Terms(tmp_path / "r", guard=LOCAL, builtin=True, agent_tokens={"PURPLE_TOKEN": agent.url})
    ) as url:  # fmt: skip
        for elsewhere in (other.url, "builtin:oracle", agent.url.replace("http:", "https:")):
            received = Caller(url).ask(gen3(elsewhere, domain="mock", num_tasks=1, agent_token="PURPLE_TOKEN"))
            assert received.state == "rejected"
            assert f"agent_token PURPLE_TOKEN is for agents at {agent.url}" in received.text
        assert other.requests == []
        for interface in agent.card["supportedInterfaces"]:
            interface["url"] = other.url
        agent.card["url"] = other.url
        Caller(url).ask(gen3(agent.url, domain="mock", num_tasks=1, agent_token="PURPLE_TOKEN"))
        assert CANARY not in f"{heard(other)}"


def test_a_token_written_there_by_mistake_is_quoted_nowhere(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    logged.set_level(logging.INFO)  # as the assessor's own is; the test's client tells at DEBUG what it sends
    with served(Terms(tmp_path / "r", guard=LOCAL)) as url:
        for value in (MISTAKE, {"token": MISTAKE}, [MISTAKE], f"{MISTAKE}\n"):
            received = Caller(url).ask(gen3("http://127.0.0.1:9/", domain="mock", agent_token=value))
            assert received.state == "rejected", value
            assert "agent_token is" in received.text, value
            assert MISTAKE not in received.text + logged.text + httpx.get(f"{url}metrics").text, value
    # Its caller's own message stays with the task until --keep-days; no file of an assessment is left.
    assert not [path for path in (tmp_path / "r").glob("*/*") if MISTAKE.encode() in path.read_bytes()]


def test_an_agent_that_wants_a_token_is_met_with_the_name_that_requests_have_for_it(tmp_path: Path) -> None:
    with raw_agent(lambda request: response({}, "401 Unauthorized")) as closed:
        with served(Terms(tmp_path / "r", guard=LOCAL)) as url:
            trials = [gen3(closed.url, domain="mock", num_tasks=number, concurrency=1) for number in (1, 3)]
            one, three = map(Caller(url).ask, trials)
            closed.card.clear()
            checked = Caller(url).ask(gen3(closed.url, domain="conformance"))
    for received in (one, three, checked):
        assert received.state == "failed"
        named = "credentials.* name a token that is for this agent with the request's agent_token"
        assert re.search(named, received.text), received.text
    # That it refuses requests is said once.
    for received, done in ((one, "1 of 1 trials done"), (three, "stopped after 1 of 3 trials done")):
        begins = f"Agent error: {done}, 0 passed, 1 could not be evaluated: the breaker is open since mock/"
        assert begins in received.text, received.text
