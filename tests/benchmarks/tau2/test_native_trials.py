"""tau2's trials with tools called over MCP: what they are worth, and what is kept of them, is what it is in text."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from trials import RunTrials

from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult

TEXT = Settings(tag_trials=True, concurrency=4)
MCP = dataclasses.replace(TEXT, tools="mcp")
SAMPLE = [("airline", 2), ("telecom", 2)]


def keys(domain: str, count: int | None = None) -> list[TrialKey]:
    every = index.load_tasks(domain)
    step = max(1, len(every) // count) if count else 1
    return [TrialKey("tau2", domain, task.task_id) for task in every[::step][:count]]


def said(result: TrialResult) -> list[Any]:
    """What was said and done, without the ids of calls."""
    return [
        (turn.role, turn.text, turn.tool, turn.error, [(c.name, c.arguments) for c in turn.calls])
        for turn in result.transcript
    ]


def compare(run_trials: RunTrials, spec: str, every: list[TrialKey], **options: Any) -> list[TrialResult]:
    text, native = (run_trials(spec, dataclasses.replace(settings, **options), every) for settings in (TEXT, MCP))
    for one, other in zip(text, native, strict=True):
        assert (one.status, other.status) == ("evaluated", "evaluated"), other.error
        assert (other.key, other.reward, other.reward_info) == (one.key, one.reward, one.reward_info)
        assert (other.key, other.termination_reason, said(other)) == (one.key, one.termination_reason, said(one))
        assert other.findings == one.findings == ()
        assert other.fingerprint != one.fingerprint
    return native


@pytest.mark.parametrize(("domain", "count"), SAMPLE)
def test_both_doors_lead_to_the_same(run_trials: RunTrials, domain: str, count: int) -> None:
    results = compare(run_trials, "oracle", keys(domain, count))
    assert {r.reward for r in results} == {1.0}
    assert {r.dialect for r in results} == {"mcp"}
    carried_out = [r.provenance["native_calls"] for r in results]
    assert carried_out == [sum(len(t.calls) for t in r.transcript if t.role == "agent") for r in results]
    assert sum(carried_out) > 2


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["mock", "airline", "retail", "telecom"])
def test_both_doors_lead_to_the_same_on_every_base_task(run_trials: RunTrials, domain: str) -> None:
    assert {r.reward for r in compare(run_trials, "oracle", keys(domain))} == {1.0}


@pytest.mark.parametrize("max_steps", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 5, 6))])
def test_a_conversation_that_ends_within_a_turn_ends_as_it_does_in_text(run_trials: RunTrials, max_steps: int) -> None:
    (result,) = compare(run_trials, "oracle", keys("airline", 7)[2:3], max_steps=max_steps)
    assert result.termination_reason == "max_steps"
    assert result.reward == 0.0


def test_everything_may_be_sent_again(run_trials: RunTrials) -> None:
    compare(run_trials, "oracle", keys("mock", 2), history="full")
