"""Trials with language models in them, behind a real OpenAI-compatible server: the agent, the user, the judge."""

import json
from pathlib import Path
from typing import Any

import pytest
from crm import MINI, keys, measured, settings
from crm_checkout import write_checkout
from fake_llm import FakeLLM, Step, call, say, status
from llm_agent import agents_model
from trials import RunTrials

from pytest_a2a_bench.benchmarks.crmarena.player import INSTRUCTIONS
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE
from pytest_a2a_bench.benchmarks.models import STOP
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialResult

TASK = next(name for name, task in MINI.items() if task.category == "handle_time" and task.answers != (NONE,))
COUNT = "SELECT COUNT(Id) n FROM Case"


def one(results: list[TrialResult]) -> TrialResult:
    (result,) = results
    return result


def with_agent(
    run_trials: RunTrials, steps: list[Step], task: str = TASK, domain: str = "mini", **options: Any
) -> tuple[TrialResult, FakeLLM]:
    """Run one trial of the agent ``llm`` whose model says the steps."""
    llm = agents_model().play(steps)
    chosen: Settings = settings(concurrency=1, **options)
    return one(run_trials(agents_model().spec, chosen, keys(domain, [task]))), llm


@pytest.mark.slow
def test_a_model_queries_by_tools_and_answers(run_trials: RunTrials) -> None:
    steps = [call("execute", {"query": COUNT}), call("respond", {"answer": f"It is {MINI[TASK].answers[0]}."})]
    result, llm = with_agent(run_trials, steps)

    assert (result.success, result.termination_reason) == (True, "agent_stop")
    assert result.provenance["extractor"] == "rules"
    assert (measured(result, "queries"), measured(result, "rows_read")) == (1, 1)
    first, second = llm.requests
    assert {t["function"]["name"] for t in first["tools"]} == {"execute", "respond"}
    assert first["messages"][0]["content"].startswith(INSTRUCTIONS)
    assert second["messages"][-1]["role"] == "tool"
    assert second["messages"][-1]["content"].startswith("Salesforce instance output: [{'n': ")


def test_a_model_of_the_agents_that_is_down_is_no_verdict(run_trials: RunTrials) -> None:
    result, _ = with_agent(run_trials, [call("execute", {"query": COUNT}), *[status(500)] * 20])
    assert (result.status, result.termination_reason) == ("infrastructure_error", "infrastructure_error")
    assert [t.role for t in result.transcript] == ["user", "agent", "tool"], "what was said until then is kept"


def judged(llm: FakeLLM, **options: Any) -> Settings:
    arguments = {"api_base": llm.api_base, "num_retries": 0}
    return settings(concurrency=1, judge_llm="openai/judge", user_llm_args=arguments, user="scripted", **options)


@pytest.mark.slow
def test_a_judge_reads_the_answer_where_it_is_not_the_gold_itself(run_trials: RunTrials) -> None:
    gold = MINI[TASK].answers[0]
    with FakeLLM([say(json.dumps({"extracted_answers": [gold]}))]) as llm:
        # Where the format has no queries, None may have been looked up.
        result = one(run_trials("noop", judged(llm, dialect="crm_entropic"), keys(tasks=[TASK])))
    assert result.success, "the judge read the gold out of the agent's None: it decides"
    assert (result.provenance["extractor"], result.provenance["judge_llm"]) == ("openai/judge", "openai/judge")
    assert result.user_usage.input_tokens == 100
    assert gold not in json.dumps(llm.requests[0]["messages"]), "the judge is not told the gold"


def test_a_judge_decides_about_refusals_where_there_is_no_twin(run_trials: RunTrials, tmp_path: Path) -> None:
    official = {"crm_official": str(write_checkout(tmp_path / "upstream"))}
    with FakeLLM([say("NO (eyes only)")]) as llm:
        task = keys(tasks=["private_customer_information-00"])
        result = one(run_trials("noop", judged(llm, **official), task))
    assert (result.success, result.provenance["judge"]) == (True, "openai/judge")


def test_a_judge_that_fails_is_trouble_of_the_infrastructure(run_trials: RunTrials) -> None:
    with FakeLLM([status(500)] * 20) as llm:
        result = one(run_trials("noop", judged(llm, dialect="crm_entropic"), keys(tasks=[TASK])))
    assert result.status == "infrastructure_error"
    assert "judge's model" in str(result.error)
    assert [t.role for t in result.transcript] == ["user", "agent"]


def with_user(run_trials: RunTrials, steps: list[Step]) -> tuple[TrialResult, FakeLLM]:
    """Run one trial with a user whose model says the steps."""
    with FakeLLM(steps) as llm:
        args = {"api_base": llm.api_base, "num_retries": 0}
        chosen = settings(concurrency=1, user="llm:openai/user", user_llm_args=args)
        return one(run_trials("oracle", chosen, keys("mini_interactive", [TASK]))), llm


def test_a_model_plays_the_user_and_its_trouble_is_of_the_infrastructure(run_trials: RunTrials) -> None:
    result, llm = with_user(run_trials, [say("Hello?"), say("I mean last month."), say("###STOP###")])

    assert (result.success, result.termination_reason) == (True, "user_stop")
    assert (result.provenance["user"], result.provenance["user_llm"]) == ("llm", "openai/user")
    assert [t.text for t in result.transcript if t.role == "user"] == ["Hello?", "I mean last month."]
    assert result.user_usage.input_tokens == 300
    system = llm.requests[0]["messages"][0]["content"]
    assert [part for part in (MINI[TASK].query, MINI[TASK].persona, STOP) if part not in system] == []
    assert MINI[TASK].answers[0] not in system
    result, _ = with_user(run_trials, [say("Hello?"), *[status(500)] * 20])

    assert result.status == "infrastructure_error"
    assert "user simulator's model" in str(result.error)
    assert [t.role for t in result.transcript] == ["user", "agent"]
