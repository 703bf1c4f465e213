"""A conversation with a user and a judge of our own."""

from __future__ import annotations

import pytest

from pytest_a2a_bench import TrialResult


@pytest.mark.a2a_scenario(goal="Find out where order A1 is.", criteria=["the agent is polite", "it promises nothing"])
def test_a_hurried_customer(trial: TrialResult) -> None:
    assert trial.said("on its way")


@pytest.mark.tau2("mock", tasks=["create_task_1", "update_task_1"])
def test_tasks_in_our_dialect(trial: TrialResult) -> None:
    assert trial.dialect == "lines"
    assert trial.success
