"""Assessments over the wire: a real assessor, real agents, the SDK's client and raw 0.3 requests."""

import json
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from assessor_server import LOCAL, Caller, Received, asking, call, gen3, program, served, wait_for_end
from builtin_server import served as agent_served
from commands import command
from threaded_http import Handler, HttpServer

from pytest_a2a_bench.assessor.terms import Terms
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.schemas import FORMS

AGENT_GONE = "http://127.0.0.1:9/"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("assessor") / "results"


@pytest.fixture(scope="module")
def url(results: Path) -> Iterator[str]:
    with served(Terms(results, guard=LOCAL, builtin=True, at_once=8, per_caller=8)) as found:
        yield found


@pytest.fixture(scope="module")
def finished(url: str, oracle_url: str) -> Received:
    """An assessment of three tasks by today's request of AgentBeats."""
    return Caller(url).ask(gen3(oracle_url, domain="mock", num_tasks=3, tag_trials=True))


def test_an_assessment_ends_with_one_result(finished: Received) -> None:
    assert finished.state == "completed"
    states = [state for state, _ in finished.updates]
    assert states[0] == "submitted"
    assert "working" in states
    # So that a second result, after a kill between the first and the end, takes its place.
    assert [artifact["artifactId"] for artifact in finished.artifacts] == ["result"]
    result = finished.result
    assert (result["domain"], result["score"], result["max_score"], result["pass_rate"]) == ("mock", 3, 3, 100)
    assert set(result["task_rewards"].values()) == {1}
    assert result["time_used"] > 0
    assert result["metrics"]["accuracy"] == 1
    assert (result["metrics"]["successful_tasks"], result["metrics"]["total_tasks"]) == (3, 3)
    assert result["metrics"]["pass@1"] == 1
    assert result["errors"]["count"] == 0
    assert result["intervals"]["pass_rate"]["low"] < 100
    assert result["provenance"]["user"] == "scripted"
    assert result["provenance"]["evaluation_type"] == "all"
    assert "mock: 3 of 3 trials passed" in finished.summary
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(finished.summary)


def test_its_results_are_their_owners_alone_and_read_by_other_commands(
    finished: Received, results: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    command("export", "html", results / finished.task, "-o", page)
    assert "pytest-a2a-bench oracle" in page.read_text()
    assert ">Verdict</h2>" not in page.read_text()  # of an assessment nothing was asked
    wait_for_end(results, finished)
    for kind in ("run", "verdict", "assessment"):
        FORMS[kind].read(results / finished.task / f"{kind}.json")
    files = list((results / finished.task).rglob("*.json"))
    assert len(files) >= 5
    assert {path.stat().st_mode & 0o077 for path in (*files, results / "tasks.db")} == {0}
    command("gate", results / finished.task, "--write-baseline", tmp_path / "baseline.json")


def test_crmarenas_request_as_data_that_is_polled(url: str, oracle_url: str) -> None:
    request = {"white_agent_url": oracle_url, "task_category": ["handle_time"], "max_tasks": 2, "tag_trials": True}
    received = Caller(url).get(Caller(url, streaming=False).ask(request, as_data=True).task)
    result = received.result
    assert (received.state, result["score"], len(result["results"])) == ("completed", 2, 2)
    assert (result["domain"], result["metrics"]["accuracy"]) == ("mini", 1)
    entry = result["results"][0]
    assert (entry["task_type"], entry["done"], entry["reward"]) == ("handle_time", True, 1)
    [*_, last] = entry["trajectory"]
    assert (last["action"]["name"], last["done"], last["reward"]) == ("respond", True, 1)


def test_shards_are_scored_by_their_own_trials(url: str, results: Path, oracle_url: str, tmp_path: Path) -> None:
    asked = {"domain": "mock", "task_ids": ["create_task_1", "update_task_1"], "num_trials": 3, "tag_trials": True}
    parts = []
    for index in range(4):
        received = Caller(url).ask(gen3(oracle_url, **asked, shard_index=index, num_shards=4))
        result = received.result
        assert result["pass_rate"] == 100, received
        assert result["score"] == result["max_score"] == len(result["task_rewards"])
        assert set(result["task_rewards"].values()) == {1.0}
        parts.append(results / received.task)
    merged = tmp_path / "merged"
    command("merge", *parts, "-o", merged)
    assert len(manifest.load_selected(merged).results) == 6


@pytest.mark.slow
def test_conformance_is_judged_too(url: str, noop_url: str, results: Path) -> None:
    received = Caller(url).ask(gen3(noop_url, domain="conformance"))
    assert received.state == "completed", received.text
    result = received.result
    assert (result["domain"], result["max_score"] > 100) == ("conformance", True)
    assert result["score"] <= result["max_score"]
    report = json.loads((results / received.task / "conformance.json").read_text())
    assert report["counts"] == result["counts"]


def test_an_agent_that_is_not_there_is_an_error_and_no_score(tmp_path: Path) -> None:
    with served(Terms(tmp_path / "results", guard=LOCAL)) as url:
        for domain in ("mock", "conformance"):
            received = Caller(url).ask(gen3(AGENT_GONE, domain=domain))
            assert received.state == "failed", received
            assert received.text.startswith("Agent error: "), received.text
            assert AGENT_GONE in received.text
            assert received.artifacts == []


def test_a_bad_request_is_rejected_with_all_its_problems(url: str, results: Path) -> None:
    received = Caller(url).ask(gen3("http://127.0.0.1:1/", domain="mock", num_tasks=-1, user_llm="openai/gpt-4.1", x=1))
    assert (received.state, received.artifacts) == ("rejected", [])
    assert "num_tasks is -1" in received.text
    assert "'x'" in received.text
    limits = gen3("builtin:oracle", domain="mock", task_ids=["no such"], concurrency=900, user_llm="openai/gpt-4.1")
    received = Caller(url).ask(limits)
    assert "concurrency is 900; this assessor allows at most 4" in received.text
    assert "user_llm is 'openai/gpt-4.1'; this assessor offers none" in received.text
    while (results / received.task).exists():  # nothing is kept of it
        time.sleep(0.02)


def test_a_client_of_0_3_asks_at_the_root(url: str, oracle_url: str) -> None:
    card = httpx.get(f"{url}.well-known/agent-card.json").json()
    assert card["url"] == url
    assert card["preferredTransport"] == "JSONRPC"
    request = json.dumps(gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True))
    part = {"kind": "text", "text": request}
    sent = {"kind": "message", "role": "user", "messageId": uuid.uuid4().hex, "parts": [part]}
    found = call(url, "message/send", {"message": sent})["result"]
    while found["status"]["state"] not in ("completed", "failed", "rejected"):
        time.sleep(0.1)
        found = call(url, "tasks/get", {"id": found["id"]})["result"]
    assert found["status"]["state"] == "completed"
    [artifact] = found["artifacts"]
    assert [part["kind"] for part in artifact["parts"]] == ["text", "data"]
    assert artifact["parts"][1]["data"]["pass_rate"] == 100


def test_webhooks_hear_of_it(url: str, oracle_url: str) -> None:
    heard: list[dict[str, Any]] = []
    completed = threading.Event()

    def states() -> list[str]:
        return [one["statusUpdate"]["status"]["state"] for one in heard if "statusUpdate" in one]

    class Hook(Handler):
        def do_POST(self) -> None:
            heard.append({"token": self.headers["X-A2A-Notification-Token"], **json.loads(self.body())})
            self.answer(200)
            if states()[-1:] == ["TASK_STATE_COMPLETED"]:
                completed.set()

    with HttpServer(Hook) as hook:
        address = f"{hook.url}/hook"
        request = json.dumps(gen3(oracle_url, domain="mock", num_tasks=1, tag_trials=True))
        config = {"url": address, "token": "a-notification-token", "id": "c1"}
        message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": request}]}
        params = {"message": message, "configuration": {"taskPushNotificationConfig": config}}
        answer = call(url, "SendMessage", params)
        assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED", answer
        # Notifications follow in the background: the last of them may arrive after the answer.
        assert completed.wait(60), heard
    assert states()[-1] == "TASK_STATE_COMPLETED"
    [artifact] = [one["artifactUpdate"]["artifact"] for one in heard if "artifactUpdate" in one]
    assert type(artifact["parts"][1]["data"]["max_score"]) is int
    assert {one["token"] for one in heard} == {"a-notification-token"}


@pytest.mark.slow
def test_our_own_suite_finds_nothing_in_it(url: str) -> None:
    out = command("check", url, "--timeout", "60").out
    assert [line for line in out.splitlines() if line.startswith(("WARNED ", "FAILED ", "ERROR "))] == []


@pytest.mark.slow
def test_an_orderly_end_keeps_what_runs_for_the_next_start(tmp_path: Path) -> None:
    results = tmp_path / "results"
    with agent_served("oracle?latency=0.15") as agent:
        request = gen3(agent.url, domain="mock", num_tasks=6, tag_trials=True, concurrency=2)
        with program(results) as first, asking(Caller(first.url), request, "") as received:
            while not list((results / received.task / "trials").glob("*.json")):
                time.sleep(0.02)
            assert first.stop() == 0
        with program(results) as second:
            found = Caller(second.url).poll(received.task)
    assert found.state == "completed", found.text
    assert (found.result["score"], found.result["errors"]["count"]) == (6, 0)
