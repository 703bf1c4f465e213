"""Language models that play the user badly, over real HTTP: found, told, and run again where that is asked for."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from fake_llm import FakeLLM, Step, call, say, status
from llm_agent import agents_model, as_user
from trials import RunTrials

from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results.store import load_trial
from pytest_a2a_bench.trials.trial import trial_seed

pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM warns about much, in threads of its own

GREETED = 1
"""Messages of the assistant's that a conversation begins with: tau2's greeting."""

KEY = TrialKey("tau2", "mock", "create_task_1")
OPENING = "Please create a task called Important Meeting for user_1."
QUESTION = "I will create the task 'Important Meeting' for user_1. Do you want me to proceed?"


def work() -> list[Step]:
    """What the agent says that asks first, then does what the golds do."""
    [gold] = index.load_task_json(KEY.domain, KEY.task_id)["evaluation_criteria"]["actions"]
    return [say(QUESTION), call(gold["name"], gold["arguments"]), say("The task has been created.")]


def hold(
    run_trials: RunTrials, users: list[list[Step]], agent: Iterable[Step] | None = None, **options: Any
) -> tuple[TrialResult, FakeLLM]:
    """Hold one trial: each of its conversations has a user that says these lines, and the same agent."""
    lines = work() if agent is None else list(agent)
    agents_model().play(lambda request: lines[(_count(request, "assistant") - GREETED) % len(lines)])
    steps = iter([step for user in users for step in user])
    with FakeLLM(lambda request: next(steps, status(500))) as llm:
        [result] = run_trials(agents_model().spec, Settings(**as_user(llm), **options), [KEY])
    return result, llm


def _count(request: dict[str, Any], role: str) -> int:
    return sum(m["role"] == role for m in request["messages"])


EARLY = [say(OPENING), say("Yes, please! ###STOP###")]
SCOPE = [say(OPENING), say("Yes, I think so. ###OUT-OF-SCOPE###")]
GOOD = [say(OPENING), say("Yes, please go ahead."), say("Thank you! ###STOP###")]


def test_it_is_held_again_in_another_context_with_another_seed(run_trials: RunTrials) -> None:
    result, llm = hold(run_trials, [EARLY, SCOPE, GOOD], user_retry=3)
    assert result.success, result.reward_info
    assert result.user_fault is None
    assert [fault.kind for fault in result.user_retries] == ["ended_before_the_write", "ended_before_the_write"]
    assert result.held_again == ()
    assert result.provenance["user_retry"] == 3
    # What was paid for is counted, and nothing else of the earlier conversations is left.
    assert result.user_usage.input_tokens == 100 * len(llm.requests) == 700
    assert [t.text for t in result.transcript if t.role == "user"] == [step["text"] for step in GOOD]
    assert len({m.context_id for m in result.metrics if m.context_id}) == 3
    seeds = list(dict.fromkeys(request["seed"] for request in llm.requests))
    assert seeds == [trial_seed(300, 0, again) for again in range(3)]
    assert result.seed == seeds[-1]
    stored = load_trial(Path(str(result.path)))
    assert stored.user_retries == result.user_retries


def test_a_user_that_never_plays_its_part_is_reported_of_in_the_end(run_trials: RunTrials) -> None:
    result, llm = hold(run_trials, [EARLY, SCOPE], user_retry=1)
    assert (result.status, result.reward) == ("evaluated", 0.0)
    assert result.user_fault is not None
    assert result.user_fault.kind == "ended_before_the_write"
    assert [fault.kind for fault in result.user_retries] == ["ended_before_the_write"]
    assert len(llm.requests) == 4


def test_a_failure_of_the_second_conversation_costs_no_result(run_trials: RunTrials) -> None:
    plain, _ = hold(run_trials, [EARLY])
    result, llm = hold(run_trials, [EARLY, [say(OPENING), status(500)]], user_retry=1)
    assert (result.status, result.reward, result.error, result.error_type) == ("evaluated", 0.0, None, None)
    assert result.user_fault is not None
    assert result.user_retries == (result.user_fault,)
    assert str(result.retry_error).startswith("LLMError: ")
    # All of the conversation that counts, its seed too, and none of the other but what it cost.
    assert (result.seed, result.termination_reason) == (trial_seed(300, 0), "user_stop")
    for name in ("reward_info", "dialect", "findings"):
        assert getattr(result, name) == getattr(plain, name)
    assert [(t.role, t.text) for t in result.transcript] == [(t.role, t.text) for t in plain.transcript]
    assert len(result.turn_latencies) == len(plain.turn_latencies)
    assert result.user_usage.input_tokens == 300
    assert len(llm.requests) == 4
    contexts = list(dict.fromkeys(m.context_id for m in result.metrics if m.context_id))
    assert contexts[0] == result.context_id
    assert len(contexts) == 2
    stored = load_trial(Path(str(result.path)))
    assert (stored.user_retries, stored.retry_error) == (result.user_retries, result.retry_error)
