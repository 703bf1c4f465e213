"""What the client must get right."""

from __future__ import annotations

import asyncio

import pytest
from a2a.types import TaskState
from client import ask

from pytest_a2a_bench.conformance.clients.observed import ObservedAgent


@pytest.mark.parametrize("situation", ["input", "unknown-fields"])
def test_it_answers_questions(a2a_observed_agent: ObservedAgent, situation: str) -> None:
    task = asyncio.run(ask(a2a_observed_agent.at("JSONRPC", "1.0"), situation))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert a2a_observed_agent.findings == []


def test_it_reads_streams(a2a_observed_agent: ObservedAgent) -> None:
    for situation in ("stream", "sse-comments", "sse-crlf", "sse-multiline"):
        asyncio.run(ask(a2a_observed_agent.at("JSONRPC", "1.0"), situation, streaming=True))
    judged = {row.id: row.status for row in a2a_observed_agent.report().rows}
    assert judged["STREAM-001"] == judged["MT-006"] == "passed"
