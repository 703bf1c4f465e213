"""Finished trials run against the stock tau2, and that it notices what is wrong with them."""

import copy
import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_llm import FakeLLM, Step, call, completion, say
from one_test import in_one_test
from tau2_verification import Calls, StockTau2
from trials import RunTrials

from pytest_a2a_bench.benchmarks.tau2 import evaluate, index
from pytest_a2a_bench.config.settings import Settings

# LiteLLM warns about much, in threads of its own.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

KEYS = {task.task_id: task.key() for task in index.load_tasks("mock")}
GOLD_RUN = KEYS["update_task_1"]
RAISING = KEYS["create_task_1_with_env_assertions"]
JUDGED = KEYS["create_task_1_nl_eval"]


@pytest.fixture(scope="module")
def stock() -> Iterator[StockTau2]:
    with StockTau2(Settings()) as found:
        yield found


# --- what is as it should be ------------------------------------------------------------------------------------------


def test_every_mock_trajectory_and_upstreams_errors_are_confirmed(run_trials: RunTrials, stock: StockTau2) -> None:
    for agent in ("oracle", "noop"):
        results = run_trials(agent, Settings(tag_trials=True), KEYS.values())
        assert [(str(r.key), found) for r in results if (found := stock.differences(r))] == []
        raised = [r.key.task_id for r in results if r.status == "evaluator_error"]
        assert raised == ([RAISING.task_id] if agent == "noop" else [])


@pytest.mark.parametrize("domain", ["airline", "retail", "telecom"])
def test_a_trajectory_of_each_other_domain_is_confirmed(domain: str, run_trials: RunTrials, stock: StockTau2) -> None:
    key = index.load_tasks(domain)[1].key()
    for agent, dialect in (("oracle", "data"), ("readonly", "sierra")):
        [result] = run_trials(agent, Settings(tag_trials=True, dialect=dialect), [key])
        assert stock.differences(result) == []


def test_a_conversation_that_the_agent_broke_off_is_confirmed(run_trials: RunTrials, stock: StockTau2) -> None:
    # Untagged, the oracle rejects its task: tau2's agent_error.
    [result] = run_trials("oracle", Settings(), [GOLD_RUN])
    assert (result.status, result.termination_reason) == ("evaluated", "agent_error")
    assert stock.differences(result) == []


# --- what is wrong is found -------------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], object]


def _tool_output(simulation: dict[str, Any]) -> None:
    next(m for m in simulation["messages"] if m["role"] == "tool")["content"] = "Done."


def _call_argument(simulation: dict[str, Any]) -> None:
    next(m for m in simulation["messages"] if m.get("tool_calls"))["tool_calls"][0]["arguments"]["status"] = "pending"


@in_one_test(
    ("change", "said"),
    [
        (_tool_output, "].content: stock "),
        (_call_argument, "].content: stock "),
        (lambda s: s["messages"].pop(1), "conversation: tau2 "),
        (lambda s: s["messages"].pop(), "conversation: tau2 asks the user, and the recording has ended"),
        (lambda s: s.update(termination_reason="max_steps"), "termination_reason: stock "),
    ],
    ids=("tool output", "argument", "user dropped", "last dropped", "end"),
)
def test_a_changed_conversation_differs(change: Change, said: str, run_trials: RunTrials, stock: StockTau2) -> None:
    [held] = run_trials("oracle", Settings(tag_trials=True), [GOLD_RUN])
    assert held.success, held.error
    assert stock.differences(held) == []
    result = dataclasses.replace(held, simulation=copy.deepcopy(held.simulation))
    change(result.simulation)  # type: ignore[arg-type]
    found = stock.differences(result)
    assert any(said in line for line in found), found


def test_a_wrong_evaluation_is_found(run_trials: RunTrials, stock: StockTau2, monkeypatch: pytest.MonkeyPatch) -> None:
    real = evaluate.evaluate
    monkeypatch.setattr(evaluate, "evaluate", lambda *args: dataclasses.replace(real(*args), value=1.0))
    [result] = run_trials("noop", Settings(), [GOLD_RUN])
    assert stock.differences(result) == ["reward.value: stock 0.0, here 1.0"]


# --- language models --------------------------------------------------------------------------------------------------


def llm_settings(model: FakeLLM) -> Settings:
    args = {"api_base": model.api_base, "num_retries": 1, "max_tokens": 77}
    return Settings(user="llm:openai/fake", user_llm_args=args, tag_trials=True)


def test_requests_of_the_users_model_are_the_same(run_trials: RunTrials, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user is a model that also calls a tool of its own, and once says nothing."""
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    key = next(t.key() for t in index.load_tasks("telecom", "small"))
    lines = [say("My data does not work."), say(""), call("check_network_status", {}), say("###STOP###")]
    with FakeLLM(lines) as model:
        settings = llm_settings(model)
        [result] = run_trials("noop", settings, [key])
    calls = model.exchanges
    assert (result.status, result.error, calls[-1][0]["max_tokens"], len(calls)) == ("evaluated", None, 77, 4)
    assert {"tools", "messages", "model", "temperature", "seed"} <= calls[0][0].keys()

    with StockTau2(settings) as stock:
        assert stock.differences(result, user=calls) == []
        changes: tuple[tuple[Callable[[Any], object], str], ...] = (
            (lambda c: c[1][0].update(temperature=0.7), "requests to the user's model[1].temperature: stock 0.0"),
            (lambda c: c[0][0]["messages"][0].update(content="Be kind."), "[0].messages[0].content: stock "),
            (lambda c: c[2][0]["tools"].pop(), "[2].tools: stock "),
            (lambda c: c.pop(), "conversation: tau2 asks the model once more than was recorded"),
            (lambda c: c[0][1]["choices"][0]["message"].update(content="Hello?"), "messages[1].content: stock "),
        )
        for change, said in changes:
            changed: Calls = copy.deepcopy(calls)
            change(changed)
            found = stock.differences(result, user=changed)
            assert any(said in line for line in found), found


@pytest.mark.usefixtures("judged_task")
def test_a_judges_answers_decide(run_trials: RunTrials, monkeypatch: pytest.MonkeyPatch, stock: StockTau2) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    assertions = index.load_task_json("mock", JUDGED.task_id)["evaluation_criteria"]["nl_assertions"]
    met = [{"expectedOutcome": text, "reasoning": "r", "metExpectation": i == 0} for i, text in enumerate(assertions)]
    answers: Iterator[Step] = iter([say('{"results": []}'), say(f"```json\n{json.dumps({'results': met})}\n```")])
    with FakeLLM(lambda request: next(answers)) as model:
        settings = Settings(user_llm_args={"api_base": model.api_base}, judge_llm="openai/judge", tag_trials=True)
        [result] = run_trials("noop", settings, [JUDGED])
    assert (result.error, result.reward) == (None, 0.0)
    # The answer that cannot be read is asked for again, which the stock tau2 does not do.
    [(request, _), (again, _)] = model.exchanges
    assert again["messages"][: len(request["messages"])] == request["messages"]
    monkeypatch.setattr(stock, "settings", settings)
    answer = completion(request, say(json.dumps({"results": met})))
    assert stock.differences(result, judge=[(request, answer)]) == []
    kinder = [({**request, "model": "kinder-judge"}, answer)]
    assert stock.differences(result, judge=kinder) == [
        'requests to the judge\'s model[0].model: stock "judge", here "kinder-judge"'
    ]
