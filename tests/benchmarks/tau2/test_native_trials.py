"""tau2's trials with tools called over MCP: what they are worth, and what is kept of them, is what it is in text."""

import dataclasses
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from examples import sampled
from raw_agent import Answer, Request, raw_agent, response, rpc
from trials import RunTrials, run_against, said, some_keys

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.trials.runner import Runner
from pytest_a2a_bench.trials.trial import Client

TEXT = Settings(tag_trials=True, concurrency=4)
MCP = dataclasses.replace(TEXT, tools="mcp")
SAMPLE = [("airline", 2), ("telecom", 2)]


def compare(run_trials: RunTrials, spec: str, every: list[TrialKey], **options: Any) -> list[TrialResult]:
    text, native = (run_trials(spec, dataclasses.replace(settings, **options), every) for settings in (TEXT, MCP))
    for one, other in zip(text, native, strict=True):
        assert (one.status, other.status) == ("evaluated", "evaluated"), other.error
        assert (other.key, other.reward, other.reward_info) == (one.key, one.reward, one.reward_info)
        assert (other.key, other.termination_reason, said(other)) == (one.key, one.termination_reason, said(one))
        assert other.findings == one.findings == ()
        assert other.fingerprint != one.fingerprint
    return native


@pytest.mark.slow
@pytest.mark.parametrize(("domain", "count"), SAMPLE)
def test_both_doors_lead_to_the_same(run_trials: RunTrials, domain: str, count: int) -> None:
    results = compare(run_trials, "oracle", some_keys(domain, count))
    assert {r.reward for r in results} == {1.0}
    assert {r.dialect for r in results} == {"mcp"}
    carried_out = [r.provenance["native_calls"] for r in results]
    assert carried_out == [sum(len(t.calls) for t in r.transcript if t.role == "agent") for r in results]
    assert sum(carried_out) > 2


@pytest.mark.parametrize("max_steps", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 5, 6))])
def test_a_conversation_that_ends_within_a_turn_ends_as_it_does_in_text(run_trials: RunTrials, max_steps: int) -> None:
    (result,) = compare(run_trials, "oracle", some_keys("airline", 7)[2:3], max_steps=max_steps)
    assert result.termination_reason == "max_steps"
    assert result.reward == 0.0


# However a conversation with native calls ends, its endpoint ends with it, and its result says whose doing it was.


KEY = TrialKey("tau2", "mock", "update_task_1")
UPDATE = {"name": "update_task_status", "arguments": {"task_id": "task_1", "status": "completed"}}


class Agent:
    """Makes native calls while it works on its first message, and then does what the test says."""

    def __init__(self, calls: list[dict[str, Any]], then: Callable[[Request], Answer]) -> None:
        self.calls = calls
        self.then = then
        self.server: dict[str, Any] = {}
        self.heard: list[dict[str, Any]] = []

    def __call__(self, request: Request) -> Answer:
        parts = request.json["params"]["message"]["parts"]
        named = [part["data"]["mcpServers"] for part in parts if "data" in part]
        if named:
            (self.server,) = named[0].values()
            self.heard += [self.post("tools/call", call).json()["result"] for call in self.calls]
        return self.then(request)

    def post(self, method: str, params: dict[str, Any]) -> httpx.Response:
        headers = {**self.server["headers"], "Accept": "application/json, text/event-stream"}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return httpx.post(self.server["url"], json=body, headers=headers, timeout=60, verify=False)

    def is_let_in(self) -> bool:
        return self.post("tools/list", {}).status_code == 200


class Hanging:
    """An answer that comes when the test is over.

    :ivar called: set when it is waited for.
    """

    def __init__(self) -> None:
        self.called, self.over = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> Answer:
        self.called.set()
        self.over.wait(60)
        return None


def say(text: str) -> Callable[[Request], Answer]:
    parts = [{"text": text}]
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": parts, "contextId": "c"}
    return lambda request: rpc({"message": message}, request)


def fail(request: Request) -> Answer:
    status = {"state": "TASK_STATE_FAILED"}
    return rpc({"task": {"id": "t", "contextId": "c", "status": status}}, request)


def hold(agent: Agent, folder: Path, **options: Any) -> TrialResult:
    with raw_agent(agent) as served:
        (result,) = run_against(served.url, Settings(tools="mcp", redeliver=0, **options), [KEY], folder)
        assert not agent.is_let_in()
    return result


def test_a_conversation_that_comes_to_its_end(tmp_path: Path) -> None:
    agent = Agent([UPDATE], say("It is done."))
    result = hold(agent, tmp_path)
    assert (result.status, result.reward, result.provenance["native_calls"]) == ("evaluated", 1.0, 1)
    assert [heard["isError"] for heard in agent.heard] == [False]
    assert agent.server["headers"]["Authorization"].removeprefix("Bearer ") not in "".join(
        path.read_text() for path in tmp_path.rglob("*.json")
    )


def test_an_agent_that_fails_and_a_server_that_breaks(tmp_path: Path) -> None:
    result = hold(Agent([UPDATE], fail), tmp_path)
    assert (result.status, result.termination_reason) == ("evaluated", "agent_error")
    # What it did natively is done: the transcript has it.
    assert [call.name for call in result.tool_calls] == ["update_task_status"]
    result = hold(Agent([UPDATE], lambda request: response("", "500 Oops")), tmp_path / "broken")
    assert result.status == "infrastructure_error"
    assert [call.name for call in result.tool_calls] == ["update_task_status"]


@pytest.mark.parametrize("limit", sampled(["timeout", "trial_timeout"], 2))
def test_an_agent_that_never_answers(tmp_path: Path, limit: str) -> None:
    hanging = Hanging()
    try:
        result = hold(Agent([UPDATE], hanging), tmp_path, **{limit: 3.0})
    finally:
        hanging.over.set()
    assert result.status == "infrastructure_error"
    assert result.error_type == {"timeout": "TurnTimeoutError", "trial_timeout": "TrialTimeoutError"}[limit]


def test_a_run_that_stops(tmp_path: Path) -> None:
    hanging = Hanging()
    agent = Agent([UPDATE], hanging)
    with raw_agent(agent) as served:
        settings = Settings(endpoint=served.url, tools="mcp")
        with AgentConnection(ClientConfig.from_settings(settings, os.environ)) as connection:
            runner = Runner(settings, Client(connection), Store(tmp_path), "run")
            results: list[TrialResult] = []
            thread = threading.Thread(target=lambda: results.append(runner.run(KEY)))
            thread.start()
            assert hanging.called.wait(60)
            assert agent.is_let_in()
            runner.cancel_all()
            thread.join(60)
            hanging.over.set()
        assert not agent.is_let_in()
    assert [result.error_type for result in results] == ["TrialCancelledError"]


def test_an_agent_beyond_its_bounds(tmp_path: Path) -> None:
    agent = Agent([{"name": "get_users", "arguments": {}}] * 3, say("Well."))
    result = hold(agent, tmp_path, reply_limits={"calls": 2})
    assert [heard["isError"] for heard in agent.heard] == [False, False, True]
    assert [(f.rule, f.turn) for f in result.findings] == [("limit-calls", 1)]
    assert (result.provenance["native_calls"], result.provenance["native_calls_refused"]) == (2, 1)


def test_a_conversation_that_is_held_again_has_another_endpoint(tmp_path: Path) -> None:
    servers: list[dict[str, Any]] = []

    def break_once(request: Request) -> Answer:
        servers.append(agent.server)
        if len(servers) > 1:
            earlier = Agent([], say(""))
            earlier.server = servers[0]
            assert not earlier.is_let_in()
            return say("It is done.")(request)
        return None  # the connection is reset: nobody knows whether the message was worked on

    agent = Agent([UPDATE], break_once)
    with raw_agent(agent) as served:
        (result,) = run_against(served.url, Settings(tools="mcp", redeliver=1), [KEY], tmp_path)
    assert (result.status, result.reward, len(result.held_again)) == ("evaluated", 1.0, 1)
    assert len({server["url"] for server in servers}) == 2
    # Of the conversation that counts; what the first one did is in no environment.
    assert result.provenance["native_calls"] == 1
