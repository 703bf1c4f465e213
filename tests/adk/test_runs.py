"""The tools as a program uses them: real agents, evaluations in the background, and processes that end in between."""

import asyncio
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builtin_server import served
from one_test import in_one_test
from raw_agent import raw_agent, response

from pytest_a2a_bench.adk.options import AdkOptions, choose_credential, read_credentials
from pytest_a2a_bench.adk.runs import CALLER, Runs, Tools
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.results import lock

TASKS = ["create_task_1", "update_task_1"]
GONE = "http://127.0.0.1:9/"


def finish(tools: Tools, run_id: str) -> dict[str, Any]:
    while (status := asyncio.run(tools.get_evaluation_status(run_id)))["status"] in ("waiting", "running"):
        pass
    return status


def begin(tools: Tools, *arguments: Any, **named: Any) -> str:
    return str(asyncio.run(tools.run_evaluation(*arguments, **named))["run_id"])


def slow_agent(seconds: float = 60.0) -> Any:
    return served(f"oracle?latency={seconds}")


@in_one_test(
    ("endpoint", "expected"),
    [
        (GONE, "nothing answers at"),
        ("ftp://x/", "expected http"),
        ("http://user:pass@127.0.0.1/", "credentials"),
        ("http://10.0.0.1/", "10.0.0.1"),
        ("builtin:llm", "is not offered"),
    ],
)
def test_an_agent_that_cannot_be_looked_at(tools: Tools, endpoint: str, expected: str) -> None:
    with pytest.raises(A2ABenchError, match=expected):
        asyncio.run(tools.register_agent(endpoint))


def test_a_card_that_wants_a_token_is_met_with_the_name_that_tools_have_for_it(tools: Tools) -> None:
    with raw_agent(lambda request: response({}, "401 Unauthorized"), {}) as closed:
        with pytest.raises(A2ABenchError, match=r"credentials: name a credential .* as auth_token"):
            asyncio.run(tools.register_agent(closed.url))


def test_tasks_are_listed_with_what_they_are_about_and_so_are_splits_and_requirements(tools: Tools) -> None:
    for domain, number in (("airline", 50), ("mock", 9), ("mini", 220)):
        tasks = asyncio.run(tools.list_tasks(domain))
        assert len(tasks) == number
        assert all(set(task) == {"id", "description", "domain"} and task["description"] for task in tasks)
        assert {task["domain"] for task in tasks} == {domain}

    assert len(asyncio.run(tools.list_tasks("airline", "test"))) == 20
    assert len(asyncio.run(tools.list_tasks("conformance"))) > 200
    for asked, problem in (
        (("airline", "rest"), r"no split .rest.; it has train"),
        (("airlin",), r"no domain .airlin.; there are airline, retail"),
        (("b2b",), r"download it and pass A2A_ADK_CRM_DATA DIR"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            asyncio.run(tools.list_tasks(*asked))


def test_an_evaluation_has_the_shapes_that_are_known(tools: Tools, oracle_url: str) -> None:
    begun = asyncio.run(tools.run_evaluation("mock", oracle_url, ", ".join(TASKS), "", 30))  # type: ignore[arg-type]
    assert set(begun) == {"run_id", "status", "results_path"}
    status = finish(tools, begun["run_id"])
    shape = ("run_id", "status", "domain", "task_count", "results_path", "error")
    assert [status[name] for name in shape] == [begun["run_id"], "completed", "mock", 2, begun["results_path"], None]
    assert status["progress"] == "mock: 2 of 2 trials passed (100.0 %)"
    found = asyncio.run(tools.get_evaluation_results(begun["run_id"]))
    assert (found["score"], found["max_score"], found["pass_rate"]) == (2, 2, 100)
    assert [one["task_idx"] for one in found["results"]] == TASKS
    assert found["errors"]["count"] == 0
    written = Path(begun["results_path"])
    assert (written.parent.name, written.name) == (begun["run_id"], "results.json")
    assert json.loads(written.read_text()) == found
    assert '"score": 2,' in written.read_text()


def test_a_bad_request_tells_all_that_is_wrong(tools: Tools) -> None:
    with pytest.raises(ConfigurationError) as caught:
        asyncio.run(tools.run_evaluation("mock", GONE, ["create_task_9"], "sk-live-1234", 30))
    assert "has no task 'create_task_9'" in str(caught.value)
    assert "takes the name of a credential" in str(caught.value)
    assert "sk-live" not in str(caught.value)
    assert list(tools.runs.names()) == []


def test_an_agent_that_is_gone_is_an_error_and_no_result(tools: Tools) -> None:
    run_id = begin(tools, "mock", GONE, TASKS)
    status = finish(tools, run_id)
    assert status["status"] == "failed"
    assert status["error"].startswith(f"Agent error: GET {GONE}")
    with pytest.raises(ConfigurationError, match="has no results, it failed: Agent error"):
        asyncio.run(tools.get_evaluation_results(run_id))


def test_an_evaluation_stays_canceled(new_runs: Callable[..., Runs], options: AdkOptions) -> None:
    impatient = dataclasses.replace(options, wait=0.01)
    tools = Tools(new_runs(impatient))
    with slow_agent() as agent:
        run_id = begin(tools, "mock", agent.url, TASKS)
        assert asyncio.run(tools.get_evaluation_status(run_id))["status"] in ("waiting", "running")
        assert asyncio.run(tools.cancel_evaluation(run_id))["status"] == "canceled"
    assert new_runs(impatient).take_up() == []
    with pytest.raises(ConfigurationError, match="was canceled"):
        asyncio.run(tools.get_evaluation_results(run_id))
    # Again is no error, and changes nothing.
    assert asyncio.run(tools.cancel_evaluation(run_id))["status"] == "canceled"


def test_an_evaluation_outlives_a_process(new_runs: Callable[..., Runs], options: AdkOptions, oracle_url: str) -> None:
    first = new_runs(dataclasses.replace(options, wait=0.01))
    with slow_agent() as agent:
        run_id = begin(Tools(first), "mock", agent.url, TASKS)
        while Tools(first).runs.look(run_id).record.state != "running":
            time.sleep(0.01)
        first.close()
    assert records.read(first.terms.directory(run_id)).state == "running"
    # What the agent's address is now is nobody's; the second process has it elsewhere, as after a restart.
    record = records.read(first.terms.directory(run_id))
    moved = dataclasses.replace(record, request={**record.request, "agent": oracle_url})
    moved.write(first.terms.directory(run_id))
    second = Tools(new_runs())
    assert second.runs.take_up() == [run_id]
    assert finish(second, run_id)["status"] == "completed"
    assert asyncio.run(second.get_evaluation_results(run_id))["score"] == 2
    assert second.runs.take_up() == []


def test_another_process_is_not_disturbed(new_runs: Callable[..., Runs], options: AdkOptions) -> None:
    first, second = new_runs(dataclasses.replace(options, wait=0.01)), new_runs()
    with slow_agent() as agent:
        run_id = begin(Tools(first), "mock", agent.url, TASKS, trials=2)
        assert second.take_up() == []
        assert second.look(run_id).task_count == 2
        # Both are in this process, and know nothing of each other but the files.
        with pytest.raises(ConfigurationError, match=f"another process runs the evaluation {run_id}; cancel it there"):
            second.cancel(run_id)
        first.close()
        assert second.cancel(run_id).record.state == "canceled"
    assert records.read(first.terms.directory(run_id)).state == "canceled"
    assert new_runs().take_up() == []


def test_callers_see_their_own_evaluations_only(new_runs: Callable[..., Runs], options: AdkOptions) -> None:
    runs = new_runs(dataclasses.replace(options, wait=0.01))
    runs.by_caller = True
    with slow_agent() as agent:
        CALLER.set("ann")
        of_ann = begin(Tools(runs), "mock", agent.url, TASKS[:1])
        CALLER.set("bob")
        for look in (runs.look, runs.cancel):
            with pytest.raises(ConfigurationError, match=f"there is no evaluation '{of_ann}'; there are none yet"):
                look(of_ann)
        with pytest.raises(ConfigurationError, match="there is no evaluation"):
            asyncio.run(Tools(runs).get_evaluation_results(of_ann))
        assert list(runs.names()) == []
        CALLER.set("")
        with pytest.raises(ConfigurationError, match="the caller is not known"):
            runs.look(of_ann)
        CALLER.set("ann")
        assert runs.cancel(of_ann).record.caller == "ann"
    # Whoever talks to the agent on this machine is its operator.
    runs.by_caller = False
    assert list(runs.names()) == [of_ann]


def test_a_run_that_cannot_be_taken_up_says_why(new_runs: Callable[..., Runs]) -> None:
    runs = new_runs()
    directory = runs.terms.directory("old")
    records.Record("old", "", {}, {"agent": GONE, "domain": "mock", "what": 1}, "running").write(directory)
    assert runs.take_up() == []
    look = runs.look("old")
    assert look.record.state == "failed"
    assert "cannot be taken up again" in look.record.summary
    lock.take(directory, "test").release()


def test_an_unknown_evaluation_is_named_with_those_there_are(tools: Tools) -> None:
    for name in ("nothing", "../../etc", ""):
        with pytest.raises(ConfigurationError, match="there are none yet: call run_evaluation"):
            asyncio.run(tools.get_evaluation_status(name))


@pytest.mark.slow
def test_nothing_of_google_is_needed_for_the_tools() -> None:
    program = (
        "import sys, pytest_a2a_bench.adk.runs, pytest_a2a_bench.adk.folder;"
        "import pytest_a2a_bench.cli.adk;"
        "print([m for m in sys.modules if m.startswith(('google.adk', 'google.genai'))])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"


# Credentials by name: whom they may be sent to, and that nobody sees them.


KNOWN = read_credentials("SHOP@https://shop.example.com, LOCAL@http://127.0.0.1:9019/a2a")
ENVIRON = {"SHOP": "hunter2-hunter2", "LOCAL": "", "OPENAI_API_KEY": "sk-secret"}


def test_a_credential_is_of_one_origin() -> None:
    assert [(one.name, one.origin) for one in KNOWN] == [
        ("SHOP", "https://shop.example.com:443"),
        ("LOCAL", "http://127.0.0.1:9019"),
    ]
    assert choose_credential("SHOP", "https://shop.example.com/agent", KNOWN, ENVIRON) == "SHOP"
    # The only one of an origin need not be named.
    assert choose_credential("", "https://shop.example.com/agent", KNOWN, ENVIRON) == "SHOP"
    assert choose_credential("", "https://other.example.com/", KNOWN, ENVIRON) is None
    assert choose_credential("", "http://127.0.0.1:9019/", KNOWN, ENVIRON) is None


@in_one_test(
    ("name", "endpoint", "expected"),
    [
        ("sk-live-1234567", "https://shop.example.com/", "takes the name of a credential"),
        ("OPENAI_API_KEY", "https://shop.example.com/", "takes the name of a credential"),
        ("SHOP", "https://evil.example.com/", "may only be sent to https://shop.example.com:443"),
        ("SHOP", "http://shop.example.com/", "may only be sent to"),
        ("LOCAL", "http://127.0.0.1:9019/", "is not set"),
    ],
)
def test_refusals(name: str, endpoint: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected) as caught:
        choose_credential(name, endpoint, KNOWN, ENVIRON)
    assert "sk-live" not in str(caught.value)


@in_one_test("text", ["sk-live-1234567", "SHOP@", "@https://x/", "SHOP@ftp://x/", "SHOP@x", "A B@https://x"])
def test_an_invalid_credential_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        AdkOptions.from_environment({"A2A_ADK_CREDENTIALS": text, "A2A_ADK_TIMEOUT": "-1"})
    assert "NAME@ORIGIN" in str(caught.value)
    assert "A2A_ADK_TIMEOUT is '-1'; Input should be greater than 0" in str(caught.value)
    assert text not in str(caught.value)
