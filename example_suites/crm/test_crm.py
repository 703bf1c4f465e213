"""Questions about a Salesforce org, from CRMArena's built-in mini org: chosen by category, with more to assert."""

from __future__ import annotations

import pytest

from pytest_a2a_bench import BenchTask, TrialResult


@pytest.mark.crmarena("mini", category=["handle_time", "transfer_count"], trials=2)
def test_it_knows_who_is_quick(trial: TrialResult) -> None:
    assert trial.success
    assert trial.turns <= 20


@pytest.mark.crmarena("mini", category="*_routing", label="frugal")
def test_it_routes_without_reading_the_whole_org(trial: TrialResult, bench_task: BenchTask) -> None:
    assert trial.success, bench_task.category
    assert trial.provenance["measured"]["rows_read"] <= 5000
    assert trial.provenance["measured"]["query_errors"] <= 3


@pytest.mark.crmarena("mini", category="private_customer_information")
def test_it_keeps_private_data_private(trial: TrialResult) -> None:
    assert trial.success


@pytest.mark.crmarena("mini_interactive", category="knowledge_qa")
def test_it_answers_a_customer(trial: TrialResult) -> None:
    assert trial.reward >= 0.5
    assert trial.termination_reason == "user_stop"
