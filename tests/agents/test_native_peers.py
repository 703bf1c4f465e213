"""Agents on other frameworks that call the tools of their trials over MCP: google-adk, LangGraph and pydantic-ai."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from peers import peer
from trials import run_against

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey

START = Callable[[dict[str, object]], str]
UPDATE = {"name": "update_task_status", "arguments": {"task_id": "task_1", "status": "completed"}}


@pytest.fixture(params=["adk", "langgraph", "pydantic_ai"])
def start(request: pytest.FixtureRequest) -> Iterator[START]:
    with contextlib.ExitStack() as running:
        yield lambda script: running.enter_context(
            peer(request.param, f"native_{request.param}.py", json.dumps(script))
        )


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
