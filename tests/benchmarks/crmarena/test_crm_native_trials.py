"""CRMArena's trials with the org asked over MCP: the same answers, turns and scores as in text."""

from __future__ import annotations

import dataclasses

import pytest
from crm_trials import MINI, keys, measured, one_of_each, settings
from trials import RunTrials

from pytest_a2a_bench.model import TrialKey, TrialResult


def compare(run_trials: RunTrials, spec: str, every: list[TrialKey], **options: object) -> list[TrialResult]:
    text = settings(**options)
    before, native = run_trials(spec, text, every), run_trials(spec, dataclasses.replace(text, tools="mcp"), every)
    for one, other in zip(before, native, strict=True):
        assert (other.key, other.status, other.error) == (one.key, "evaluated", None)
        assert (other.reward_info, other.termination_reason) == (one.reward_info, one.termination_reason)
        assert [(t.role, t.text) for t in other.transcript] == [(t.role, t.text) for t in one.transcript]
        for count in ("turns", "queries", "query_errors", "rows_read", "bad_format", "user_turns"):
            assert measured(other, count) == measured(one, count)
    return native


def test_the_solver_asks_the_org_itself(run_trials: RunTrials) -> None:
    results = compare(run_trials, "solver", keys(tasks=one_of_each(step=4)))
    assert {r.reward for r in results} == {1.0}
    # The answer ends the conversation in the middle of the agent's turn; it is not refused for that.
    assert {r.termination_reason for r in results} == {"agent_stop"}
    assert [r.provenance["native_calls"] for r in results] == [measured(r, "turns") for r in results]
    assert {r.provenance["native_calls_refused"] for r in results} == {0}


@pytest.mark.slow
def test_a_user_is_spoken_to_by_a_call_and_answers_in_its_result(run_trials: RunTrials) -> None:
    results = compare(run_trials, "solver", keys("mini_interactive", one_of_each(step=8)))
    assert any(sum(t.role == "user" for t in r.transcript) > 1 for r in results)


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["oracle", "solver", "noop"])
@pytest.mark.parametrize("domain", ["mini", "mini_interactive"])
def test_every_task_is_worth_the_same(run_trials: RunTrials, spec: str, domain: str) -> None:
    assert len(compare(run_trials, spec, keys(domain, MINI))) == 220


def test_the_turns_of_a_conversation_are_bounded_as_in_text(run_trials: RunTrials) -> None:
    (result,) = compare(run_trials, "solver", keys(tasks=one_of_each()[:1]), crm_max_turns=1)
    assert result.termination_reason == "max_turns"
