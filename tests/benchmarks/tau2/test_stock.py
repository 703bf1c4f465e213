"""Rewards over A2A are the stock evaluator's: the same agent inside tau2's own orchestrator gives the same numbers."""

from __future__ import annotations

from typing import Any

import pytest
from rotating import rotating
from trials import RunTrials

from pytest_a2a_bench.agents.brains import WORDS
from pytest_a2a_bench.benchmarks.tau2 import index, upstream
from pytest_a2a_bench.benchmarks.tau2.user.script import make_scripted_user
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey


def stock_noop_reward(domain: str, task_id: str) -> float | None:
    """Run a do-nothing agent with nothing of ours but the scripted user, and evaluate as upstream does."""
    tau2 = upstream.load()
    from tau2.domains import airline, mock, retail, telecom

    module = {"airline": airline, "mock": mock, "retail": retail, "telecom": telecom}[domain]
    [task] = [t for t in all_tasks(module) if t.id == task_id]
    environment = tau2.registry.get_env_constructor(domain)()

    class Noop(tau2.agent_base):  # type: ignore[misc,name-defined]
        def get_init_state(self, message_history: list[Any] | None = None) -> None:
            return None

        def generate_next_message(self, message: Any, state: None) -> tuple[Any, None]:
            return tau2.messages.AssistantMessage(role="assistant", content=WORDS, cost=0.0), None

        def set_seed(self, seed: int) -> None:
            """Nothing is random."""

    agent = Noop(tools=environment.get_tools(), domain_policy=environment.get_policy())
    simulation = tau2.orchestrator_class(
        domain=domain,
        agent=agent,
        user=make_scripted_user(tau2, task, [t.name for t in upstream.user_tools(environment, task) or ()]),
        environment=environment,
        task=task,
        max_steps=200,
        max_errors=10,
        seed=1,
    ).run()
    try:
        info = tau2.evaluate_simulation(
            simulation=simulation,
            task=task,
            evaluation_type=tau2.evaluation_type.ALL,
            solo_mode=False,
            domain=domain,
        )
    except ValueError:
        # Upstream's evaluator looks up what a do-nothing agent never created: it has no reward to give.
        return None
    return float(info.reward)


_TASKS: dict[str, list[Any]] = {}


def all_tasks(module: Any) -> list[Any]:
    import importlib

    if module.__name__ not in _TASKS:
        _TASKS[module.__name__] = importlib.import_module(f"{module.__name__}.environment").get_tasks()
    return _TASKS[module.__name__]


def compare(domain: str, keys: list[TrialKey], run_trials: RunTrials) -> list[float | None]:
    results = run_trials("noop", Settings(concurrency=2), keys)
    stock = [stock_noop_reward(domain, k.task_id) for k in keys]
    assert [r.reward if r.status == "evaluated" else None for r in results] == stock
    assert all(r.error_type == "EvaluatorError" for r in results if r.status != "evaluated")
    return stock


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["mock", "telecom"])
def test_noop_scores_what_the_stock_evaluator_says(domain: str, run_trials: RunTrials) -> None:
    rewards = compare(domain, [t.key() for t in index.load_tasks(domain)[:5]], run_trials)
    assert 0.0 in rewards


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["airline", "retail", "telecom", "mock"])
def test_noop_scores_what_the_stock_evaluator_says_everywhere(domain: str, run_trials: RunTrials) -> None:
    rewards = compare(
        domain, [t.key() for t in rotating(index.load_tasks(domain), 1 if domain == "mock" else 3)], run_trials
    )
    assert 0.0 in rewards


@pytest.mark.slow
def test_readonly_shows_what_reward_alone_hides(run_trials: RunTrials) -> None:
    keys = [t.key() for t in index.load_tasks("airline")]
    results = run_trials("readonly", Settings(tag_trials=True, concurrency=2), keys)
    passed = [r for r in results if r.success]
    # No write at all, and yet twenty tasks pass; the action checks beside the reward tell.
    assert len(passed) == 20
    for result in results:
        writes = [c for c in result.tool_calls if c.name.startswith(("book_", "cancel_", "update_", "send_"))]
        assert writes == []
