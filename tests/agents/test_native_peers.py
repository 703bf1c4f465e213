"""Agents on other frameworks that call the tools of their trials over MCP: google-adk, LangGraph and pydantic-ai.

``A2A_BENCH_PEER_PYTHONS`` names interpreters that have them (``adk``, ``langgraph``, ``pydantic_ai``); without it they
are not tried.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from trials import run_against

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey

AGENTS = Path(__file__).parent.parent / "agents"
START = Callable[[dict[str, object]], str]
UPDATE = {"name": "update_task_status", "arguments": {"task_id": "task_1", "status": "completed"}}


@pytest.fixture(params=["adk", "langgraph", "pydantic_ai"])
def start(request: pytest.FixtureRequest) -> Iterator[START]:
    """Start an agent with a script, and return its URL."""
    named = json.loads(os.environ.get("A2A_BENCH_PEER_PYTHONS", "{}"))
    if request.param not in named:
        pytest.skip(f"no environment with {request.param}: A2A_BENCH_PEER_PYTHONS does not name one")
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    running: list[subprocess.Popen[str]] = []

    def run(script: dict[str, object]) -> str:
        command = [named[request.param], str(AGENTS / f"native_{request.param}.py"), json.dumps(script)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
        running.append(process)
        assert process.stdout is not None
        return str(json.loads(process.stdout.readline())["url"])

    yield run
    for process in running:
        process.communicate("", timeout=30)


def test_native_calls_earn_what_they_are_worth(start: START, tmp_path: Path) -> None:
    # A call that fails, one that reads, and the one that counts.
    calls = [{"name": "update_task_status", "arguments": {"task_id": "x", "status": "completed"}}]
    calls += [{"name": "get_users", "arguments": {}}, UPDATE]
    url = start({"calls": calls, "text": "It is done."})
    (result,) = run_against(
        url, Settings(tools="mcp", wait=30, breaker=0), [TrialKey("tau2", "mock", "update_task_1")], tmp_path
    )
    assert (result.status, result.error) == ("evaluated", None)
    assert (result.reward, result.dialect, result.findings) == (1.0, "mcp", ())
    assert [(c.name, dict(c.arguments)) for c in result.tool_calls] == [(c["name"], c["arguments"]) for c in calls]
    assert [t.error for t in result.transcript if t.role == "tool"] == [True, False, False]
    assert any(t.text == "It is done." for t in result.transcript if t.role == "agent")
    assert result.provenance["native_calls"] == 3


def test_a_native_call_and_one_in_words_have_one_order(start: START, tmp_path: Path) -> None:
    url = start({"calls": [{"name": "get_users", "arguments": {}}], "text": json.dumps({"tool_call": UPDATE})})
    (result,) = run_against(
        url, Settings(tools="mcp", wait=30, breaker=0), [TrialKey("tau2", "mock", "update_task_1")], tmp_path
    )
    assert (result.status, result.reward, result.error) == ("evaluated", 1.0, None)
    assert [c.name for c in result.tool_calls] == ["get_users", "update_task_status"]
    assert result.provenance["native_calls"] == 1
