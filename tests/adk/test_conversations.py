"""The agent with a model that says what a test wants: what it calls, what it is told, and what is checked."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from builtin_server import served

pytest.importorskip("google.adk", reason="the extra adk is not installed")

from adk_talk import answers, interpretation, make_evaluator, returned, scripted, talk, text_of

from pytest_a2a_bench.adk.options import AdkOptions, read_credentials
from pytest_a2a_bench.adk.runs import Runs, Tools
from pytest_a2a_bench.errors import ConfigurationError

TASKS = ["create_task_1", "update_task_1"]
RUN_ID = returned("run_evaluation", "run_id")


def call(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return name, arguments


def with_run(name: str, **arguments: Any) -> Callable[[Any], tuple[str, dict[str, Any]]]:
    return lambda request: (name, {"run_id": RUN_ID(request), **arguments})


def select(*ids: str) -> str:
    return json.dumps({"task_ids": ids, "reasoning": "they fit"})


@pytest.fixture(scope="module")
def finished(oracle_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Runs, str]]:
    """An evaluation that was held without any model, and its name."""
    runs = Runs(AdkOptions(results=tmp_path_factory.mktemp("finished"), tag_trials=True), {})
    run_id = runs.start("mock", oracle_url, TASKS).record.name
    assert runs.wait(run_id, 600).record.state == "completed"
    yield runs, run_id
    runs.close()


@pytest.mark.slow
def test_from_an_agents_url_to_its_meaning(new_runs: Callable[..., Runs], options: AdkOptions, oracle_url: str) -> None:
    model = scripted(
        call("register_agent", endpoint=oracle_url),
        call("task_selector", domain="mock", request="updates", count=2),
        select("update_task_1", "create_task_1"),
        call("run_evaluation", domain="mock", a2a_endpoint=oracle_url, task_ids=TASKS),
        with_run("get_evaluation_status"),
        with_run("get_evaluation_results"),
        with_run("results_interpreter", question="How good is it?"),
        interpretation("2 of 2 tasks passed, 100 %.", "create_task_1 passed"),
        "All passed.",
    )
    events = talk(make_evaluator(runs=new_runs(), model=model), options.results, f"evaluate {oracle_url}")
    assert model.lines == []
    assert answers(events, "register_agent")[0]["validated"] is True
    assert answers(events, "task_selector") == [
        {"task_ids": ["update_task_1", "create_task_1"], "reasoning": "they fit"}
    ]
    assert answers(events, "get_evaluation_status")[0]["status"] == "completed"
    assert answers(events, "get_evaluation_results")[0]["score"] == 2
    [found] = answers(events, "results_interpreter")
    assert found["summary"] == "2 of 2 tasks passed, 100 %."
    assert text_of(events).endswith("All passed.")


@pytest.mark.slow
def test_a_session_outlives_its_process(new_runs: Callable[..., Runs], options: AdkOptions, oracle_url: str) -> None:
    first = new_runs(dataclasses.replace(options, wait=0.01))
    begins = scripted(
        call("run_evaluation", domain="mini", a2a_endpoint=oracle_url, task_ids=["handle_time-00"]), "Begun."
    )
    talk(make_evaluator(runs=first, model=begins), options.results, "evaluate it")
    first.close()
    second = new_runs()
    asks = scripted(with_run("get_evaluation_status"), with_run("get_evaluation_results"), "Done.")
    events = talk(make_evaluator(runs=second, model=asks), options.results, "how is it?")
    assert answers(events, "get_evaluation_status")[0]["status"] == "completed"
    [found] = answers(events, "get_evaluation_results")
    assert (found["domain"], found["pass_rate"]) == ("mini", 100)
    assert "evaluate it" in asks.requests[0]


def test_errors_say_what_to_do_and_end_nothing(new_runs: Callable[..., Runs], options: AdkOptions) -> None:
    model = scripted(
        call("get_evaluation_status", run_id="abc"),
        call(
            "run_evaluation", domain="mock", a2a_endpoint="builtin:oracle", task_ids=["nope"], auth_token="sk-live-123"
        ),
        call("register_agent", endpoint="http://127.0.0.1:9/"),
        call("cancel_evaluation"),
        call("task_selector", domain="airlin", request="any"),
        call("results_interpreter", run_id="abc"),
        "It cannot be done.",
    )
    events = talk(make_evaluator(runs=new_runs(), model=model), options.results, "evaluate")
    assert "call run_evaluation" in answers(events, "get_evaluation_status")[0]["error"]
    message = answers(events, "run_evaluation")[0]["error"]
    assert "has no task 'nope'" in message
    assert "sk-live" not in message
    assert "start the agent, or correct the URL" in answers(events, "register_agent")[0]["error"]
    assert "run_id" in answers(events, "cancel_evaluation")[0]["error"]
    assert "there are airline" in answers(events, "task_selector")[0]["reasoning"]
    assert "there is no evaluation 'abc'" in answers(events, "results_interpreter")[0]["summary"]
    assert text_of(events).endswith("It cannot be done.")


def test_a_defect_of_a_tool_ends_no_conversation(
    new_runs: Callable[..., Runs], options: AdkOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tools, "_register", lambda self, endpoint, name: 1 / 0)
    model = scripted(call("register_agent", endpoint="builtin:oracle"), "Sorry.")
    events = talk(make_evaluator(runs=new_runs(), model=model), options.results, "register it")
    assert "register_agent broke (ZeroDivisionError)" in answers(events, "register_agent")[0]["error"]


def test_what_a_model_makes_up_is_no_defect_of_ours(new_runs: Callable[..., Runs], options: AdkOptions) -> None:
    """A tool, and arguments of another type."""
    wrong = (
        ("list_tasks", {"domain": 5}, "domain"),
        ("list_tasks", {"domain": ["mock"]}, "domain"),
        ("register_agent", {"endpoint": 5}, "endpoint"),
        ("get_evaluation_status", {"run_id": 5}, "run_id"),
        ("run_evaluation", {"domain": "mock", "a2a_endpoint": "builtin:oracle", "task_ids": 5}, "task_ids"),
    )
    model = scripted(call("evaluate"), *(call(name, **arguments) for name, arguments, _ in wrong), "Sorry.")
    events = talk(make_evaluator(runs=new_runs(), model=model), options.results, "go")
    assert answers(events, "evaluate")[0]["error"].startswith("Tool 'evaluate' not found. Available tools: register_ag")
    for name, _, argument in wrong:
        for answer in answers(events, name):
            assert answer["error"].startswith(f"{name}: {argument}: Input should be a valid "), answer


def test_a_selection_that_cannot_be_read_chooses_nothing(new_runs: Callable[..., Runs], options: AdkOptions) -> None:
    asks = call("task_selector", domain="mock", request="updates", count=1)
    model = scripted(asks, "update_task_1, of course", asks, f"```json\n{select('update_task_1')}\n```", "Done.")
    events = talk(make_evaluator(runs=new_runs(), model=model), options.results, "choose")
    first, second = answers(events, "task_selector")
    assert first["task_ids"] == []
    assert "not the JSON object that was asked for" in first["reasoning"]
    assert second == {"task_ids": ["update_task_1"], "reasoning": "they fit"}
    assert "update_task_1 : " in json.loads(model.requests[1])["contents"][-1]["parts"][0]["text"]


def test_numbers_are_the_files_whatever_a_model_says(finished: tuple[Runs, str], options: AdkOptions) -> None:
    runs, run_id = finished
    asks = call("results_interpreter", run_id=run_id)

    def fails(request: Any) -> Any:
        return RuntimeError("no quota")

    model = scripted(asks, interpretation("97 % passed"), asks, "All good!", asks, fails, "Done.")
    events = talk(make_evaluator(runs=runs, model=model), options.results, "what does it mean?")
    first, second, unanswered = found = answers(events, "results_interpreter")
    assert first["summary"] == "97 % passed"
    overview = "- Overall Score: 100.0 %\n- Tasks Passed: 2/2\n- Domains: mock"
    assert first["report"].startswith(f"## Summary\n\n{overview}\n\n97 % passed\n\n## Key Findings")
    assert "## Recommendations" in first["report"]
    assert overview in second["report"]
    assert all(one["numbers"].startswith("mock: 2 of 2 trials passed (100.0 %)") for one in found)
    assert "not the JSON object that was asked for" in second["summary"]
    assert "the model did not answer (RuntimeError: no quota)" in unanswered["summary"]
    assert '"successful_tasks": 2' in json.loads(model.requests[1])["contents"][-1]["parts"][0]["text"]


def test_a_model_that_fails_is_an_answer_and_no_traceback(new_runs: Callable[..., Runs], options: AdkOptions) -> None:
    model = scripted(lambda request: RuntimeError("no key"))  # type: ignore[arg-type, return-value]
    events = talk(make_evaluator(runs=new_runs(), model=model), options.results, "hello")
    assert text_of(events) == "The model did not answer: RuntimeError: no key"


def test_a_credential_reaches_its_agent_and_no_model(
    new_runs: Callable[..., Runs], options: AdkOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "hunter2-hunter2-hunter2"
    monkeypatch.setenv("SHOP_TOKEN", token)
    with served("oracle?auth_env=SHOP_TOKEN") as agent:
        bound = dataclasses.replace(options, credentials=read_credentials(f"SHOP_TOKEN@{agent.url}"))
        model = scripted(
            call("register_agent", endpoint=agent.url, auth_token="SHOP_TOKEN"),
            call("register_agent", endpoint="http://127.0.0.1:9/", auth_token="SHOP_TOKEN"),
            call("run_evaluation", domain="mock", a2a_endpoint=agent.url, task_ids=TASKS[:1], auth_token="SHOP_TOKEN"),
            with_run("get_evaluation_status"),
            with_run("get_evaluation_results"),
            "Done.",
        )
        runs = new_runs(bound, {"SHOP_TOKEN": token, "A2A_AUTH_TOKEN": "wrong-wrong-wrong"})
        events = talk(make_evaluator(runs=runs, model=model), options.results, "evaluate with SHOP_TOKEN")
    assert "may only be sent to" in answers(events, "register_agent")[1]["error"]
    assert answers(events, "get_evaluation_results")[0]["score"] == 1
    assert len(model.requests) == 6
    assert not any(token in request for request in model.requests)
    written = [path.read_bytes() for path in bound.results.rglob("*") if path.is_file()]
    assert len(written) > 3
    assert not any(token.encode() in content for content in written)


@pytest.mark.parametrize("name", ["none", "gpt-4"])
def test_a_wrong_model_is_refused_in_words(new_runs: Callable[..., Runs], options: AdkOptions, name: str) -> None:
    with pytest.raises(ConfigurationError, match="A2A_ADK_MODEL is"):
        make_evaluator(dataclasses.replace(options, model=name), runs=new_runs())
