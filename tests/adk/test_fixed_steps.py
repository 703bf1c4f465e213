"""The workflow: the same steps in the same order, whatever a model says, and without any."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

pytest.importorskip("google.adk", reason="the extra adk is not installed")

from adk_talk import interpretation, run, scripted, talk, text_of

from pytest_a2a_bench.adk.options import AdkOptions
from pytest_a2a_bench.adk.runs import Runs
from pytest_a2a_bench.adk.workflow import make_workflow


def steps(text: str) -> list[str]:
    """Return the first words of the lines that tell a step, each once."""
    words = [line.partition(":")[0] for line in text.split("\n")]
    return list(dict.fromkeys(word for word in words if word in ("register", "select", "run", "## Summary")))


def test_the_steps_without_a_model(new_runs: Callable[..., Runs], options: AdkOptions, oracle: str) -> None:
    asked = json.dumps({"endpoint": oracle, "domain": "mock", "count": 2})
    text = text_of(run(talk(make_workflow(runs=new_runs()), options.results, f"please do {asked}")))
    assert steps(text) == ["register", "select", "run", "## Summary"]
    assert "mock: 2 of 2 trials passed (100.0 %)" in text
    assert "(Made from the files without the model: no model is set.)" in text
    assert "## Key Findings" in text
    assert "## Recommendations" in text


def test_a_model_chooses_tasks_and_words_but_no_steps(
    new_runs: Callable[..., Runs], options: AdkOptions, oracle: str
) -> None:
    model = scripted('{"task_ids": ["update_task_1"], "reasoning": "it updates"}', interpretation("1 of 1 passed"))
    asked = json.dumps({"endpoint": oracle, "domain": "mock", "request": "updates", "count": 1})
    text = text_of(run(talk(make_workflow(runs=new_runs(), model=model), options.results, asked)))
    assert steps(text) == ["register", "select", "run", "## Summary"]
    assert "select: update_task_1 (it updates)" in text
    assert "## Summary\n1 of 1 passed" in text
    assert model.lines == []


@pytest.mark.slow
def test_named_tasks_need_no_selection(new_runs: Callable[..., Runs], options: AdkOptions, oracle: str) -> None:
    model = scripted(interpretation("1 of 1 passed"))
    asked = json.dumps({"endpoint": oracle, "domain": "mini", "task_ids": ["handle_time-00"]})
    text = text_of(run(talk(make_workflow(runs=new_runs(), model=model), options.results, asked)))
    assert "select: handle_time-00 (as named in the request)" in text


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("hello", "takes a JSON object, such as"),
        ('{"endpoint": "builtin:oracle"}', "domain: Field required"),
        ('{"endpoint": "builtin:oracle", "domain": "mock", "token": "x"}', "token: Extra inputs"),
        ('{"endpoint": "builtin:oracle", "domain": "airlin"}', "there are airline"),
        ('{"endpoint": "http://127.0.0.1:9/", "domain": "mock"}', "start the agent, or correct the URL"),
        ('{"endpoint": "builtin:oracle", "domain": "mock", "task_ids": ["x"]}', "has no task 'x'"),
    ],
)
def test_what_cannot_be_done_is_told(new_runs: Callable[..., Runs], options: AdkOptions, said: str, told: str) -> None:
    text = text_of(run(talk(make_workflow(runs=new_runs()), options.results, said)))
    assert "This cannot be done" in text
    assert told in text


@pytest.mark.slow
def test_the_next_process_goes_on_with_it(new_runs: Callable[..., Runs], options: AdkOptions, oracle: str) -> None:
    first = new_runs()
    events = run(_until_begun(first, options, json.dumps({"endpoint": oracle, "domain": "mini", "count": 1})))
    first.close()
    assert "run:" in text_of(events)
    text = text_of(run(talk(make_workflow(runs=new_runs()), options.results, "and now?")))
    assert "going on with the evaluation" in text
    assert "mini: 1 of 1 trial passed" in text
    again = text_of(run(talk(make_workflow(runs=new_runs()), options.results, "and now?")))
    assert "takes a JSON object" in again


async def _until_begun(runs: Runs, options: AdkOptions, asked: str) -> list:  # type: ignore[type-arg]
    """Talk to the workflow until its evaluation has begun, and leave."""
    from google.genai import types

    from pytest_a2a_bench.adk.serving import make_runner

    runner = make_runner(make_workflow(runs=runs), options.results)
    where = {"app_name": runner.app_name, "user_id": "u", "session_id": "s"}
    await runner.session_service.create_session(**where)
    events = []
    said = types.Content(role="user", parts=[types.Part(text=asked)])
    async for event in runner.run_async(user_id="u", session_id="s", new_message=said):
        events.append(event)
        if "a2a_run_id" in event.actions.state_delta:
            break
    await runner.close()
    return events
