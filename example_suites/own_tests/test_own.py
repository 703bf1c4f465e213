"""Tests of one's own: the same trials as in the built-in suites, and more to assert."""

from __future__ import annotations

import pytest

from pytest_a2a_bench import AgentConnection, BenchTask, Part, TrialResult


@pytest.mark.tau2("mock", trials=2)
def test_mock(trial: TrialResult) -> None:
    assert trial.success


@pytest.mark.tau2("telecom", split="small", tasks="*mms_issue*", label="frugal")
def test_mms_takes_few_turns(trial: TrialResult, bench_task: BenchTask) -> None:
    assert trial.success
    assert trial.turns <= 30
    assert trial.latency < 10
    # None where the agent does not say what it costs.
    assert trial.cost is None or trial.cost < 0.05
    assert trial.key.task_id == bench_task.task_id
    assert "transfer_to_human_agents" not in [call.name for call in trial.tool_calls]


@pytest.mark.tau2("airline", tasks=["1", "4"])
def test_two_airline_tasks(trial: TrialResult) -> None:
    assert trial.success
    assert trial.termination_reason == "user_stop"
    assert not trial.findings


def test_it_says_what_it_needs(a2a_client: AgentConnection) -> None:
    # The oracle refuses conversations that do not name a task; an agent of yours would answer.
    from pytest_a2a_bench import AgentOutcomeError

    with pytest.raises(AgentOutcomeError, match="tag"):
        a2a_client.session().send([Part.of_text("Hello")])


def test_the_card_has_skills(agent_card: object) -> None:
    assert agent_card.raw["skills"]  # type: ignore[attr-defined]
