"""What noise costs the built-in agents in each domain: the careful one nothing, the other one tasks of every kind."""

from __future__ import annotations

import pytest
from trials import RunTrials

from pytest_a2a_bench.benchmarks.noise import CHANGES, FAILURES
from pytest_a2a_bench.config.settings import NOISY, Settings
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.results.gates.noise import events_of

TASKS = {
    "tau2/mock": ["create_task_1", "update_task_with_message_history"],
    "tau2/airline": ["14"],
    "tau2/retail": ["103"],
    "tau2/telecom": [
        "[service_issue]overdue_bill_suspension|unseat_sim_card[PERSONA:Easy]",
        "[mms_issue]airplane_mode_on|bad_network_preference|data_usage_exceeded[PERSONA:None]",
    ],
    "crmarena/mini": ["handle_time-07"],
}


@pytest.mark.parametrize("domain", TASKS)
@pytest.mark.parametrize("kind", [*FAILURES, *CHANGES])
def test_the_careful_agent_loses_nothing_and_the_other_one_does(run_trials: RunTrials, domain: str, kind: str) -> None:
    keys = [TrialKey.parse(f"{domain}/{task}#0:{NOISY}") for task in TASKS[domain]]
    settings = Settings(noise={kind: 1.0}, tag_trials=True)
    careful, oracle = (run_trials(agent, settings, keys) for agent in ("careful", "oracle"))
    assert [result.reward for result in careful] == [1.0] * len(keys)
    assert min(result.reward for result in oracle) < 1.0
    assert {event["kind"] for result in careful for event in events_of(result)} == {kind}
