"""ACTS files of our own, made on real agents; the public ones where the environment says where they are."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acts_agent import BEHAVIORS, acts_agent
from faulty_server import serve_faulty
from in_thread import served_in_thread
from raw_agent import MESSAGE, Request, event, raw_agent, response, rpc, scripted, stream_head
from scripted import Features, full_agent

from pytest_a2a_bench.cli import main
from pytest_a2a_bench.conformance.acts.document import ClientStep
from pytest_a2a_bench.conformance.acts.loader import load_cases

CHECKOUT = "A2A_BENCH_ACTS"
"""The environment variable with the directory of the public tests, such as ``A2A/tests/acts``."""

Test = dict[str, Any]


def case(name: str, *steps: dict[str, Any], **more: Any) -> Test:
    """Return a test; its steps are called a, b, ... by default."""
    named = [{"id": "abc"[n], **step} for n, step in enumerate(steps)]
    return {"id": f"MINE-{name}", "name": "A test of ours", "level": "must", **more, "steps": named}


def say(text: str, **more: Any) -> dict[str, Any]:
    """Return the parameters of a message."""
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}, **more}


def send(text: str, operation: str = "send_message", params: Any = None, **more: Any) -> dict[str, Any]:
    return {"operation": operation, "params": say(text, **(params or {})), **more}


def get(task: str, operation: str = "get_task", **more: Any) -> dict[str, Any]:
    return {"operation": operation, "params": {"id": task}, **more}


def by_hand(method: str, params: Any, **more: Any) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
    body = {"jsonrpc": "2.0", "id": "mine", "method": method, "params": params}
    return {"raw": {"method": "POST", "path": "/", "headers": headers, "body": body}, **more}


def state(name: str) -> dict[str, Any]:
    return {"status": {"state": f"TASK_STATE_{name}"}}


TASK_ID = {"taskId": "task.id"}
DONE = case(
    "DONE",
    send("tck-complete-task now", capture=TASK_ID, expect={"status": 200, "body": {"task": state("COMPLETED")}}),
    get(
        "{{a.taskId}}",
        expect={"body": {"id": "{{a.taskId}}", **state("COMPLETED")}},
        assertions=[{"source": "{{b.response}}", "path": "history", "match": {"count_gte": 1}}],
    ),
    get(
        "{{a.taskId}}",
        "cancel_task",
        expect_error={"error_type": "TaskNotCancelableError", "message": {"type": "string"}},
    ),
    requires_behaviors=["tck-complete-task"],
)
ASKED = case(
    "ASKED",
    send(
        "tck-multi-turn first",
        capture={**TASK_ID, "contextId": "task.contextId"},
        expect={"body": {"task": state("INPUT_REQUIRED")}},
    ),
    send(
        "done",
        params={"taskId": "{{a.taskId}}"},
        expect={"body": {"task": {"contextId": "{{a.contextId}}", **state("COMPLETED")}}},
    ),
    requires_behaviors=["tck-multi-turn"],
)
ONE_PART = {"match": "any_position", "artifact_update": {"artifact": {"parts": {"count": 1}}}}
STREAMED = case(
    "STREAMED",
    send(
        "tck-stream-chunked",
        "send_streaming_message",
        capture=TASK_ID,
        expect_stream={
            "min_count": 3,
            "ordering": "monotonic_state",
            "events": [ONE_PART],
            "final_event": state("COMPLETED"),
        },
    ),
    get("{{a.taskId}}", "subscribe_to_task", expect_error={"error_type": "UnsupportedOperationError"}),
    level="should",
    requires_behaviors=["tck-stream-chunked"],
)


def unknown(name: str = "UNKNOWN", **expected: Any) -> Test:
    """Return a test that asks for a task that there is not."""
    wanted = {"expect_error": {"error_type": {"one_of": ["TaskNotFoundError"]}, "message": {"matches": "."}}}
    return case(name, get("00000000-0000-0000-0000-000000000000", id="get", **(expected or wanted)))


BY_HAND = case(
    "BY-HAND",
    by_hand(
        "NoSuchMethod",
        {},
        expect={
            "status": 200,
            "headers": {"Content-Type": {"starts_with": "application/json"}},
            "body": {"id": "mine", "error": {"code": -32601}},
        },
    ),
    transport=["jsonrpc"],
)
SLOW = case(
    "SLOW",
    send(
        "tck-long-running",
        params={"configuration": {"returnImmediately": True}},
        capture=TASK_ID,
        expect={"body": {"task": {"status": {"state": {"one_of": ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"]}}}}},
    ),
    get("{{a.taskId}}", repeat={"until": "status.state == TASK_STATE_COMPLETED", "max_attempts": 600, "delay_ms": 50}),
    requires_behaviors=["tck-long-running"],
)
CARD = case(
    "CARD",
    {
        "operation": "get_agent_card",
        "expect": {
            "headers": {"content-type": "application/json"},
            "body": {"skills": {"count_gte": 1, "items": {"id": {"type": "string"}}}},
        },
    },
)
CLIENT = case(
    "CLIENT", {"client_response": {"operation": "get_task", "wire_payload": {}}, "expect_parsed": {"id": "x"}}
)
GUARDED = case("GUARDED", get("x", expect={"status": 401}), preconditions={"authentication": True})
VARIABLE = case("VARIABLE", get("{{nobodyKnows}}"))
STREAM = case("STREAM", send("hi", "send_streaming_message", expect_stream={"min_count": 1}))


def streamed_by_hand(name: str, **expected: Any) -> Test:
    step = by_hand("SendStreamingMessage", say("hi"), expect_stream=expected)
    return case(name, step, transport=["jsonrpc"])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """URL of an agent that does what the prefixes say."""
    with acts_agent() as found:
        yield found


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "known.yaml").write_text(BEHAVIORS)
    return tmp_path


def judged(url: str, files: Path, tests: list[Test] | Path, *options: str | Path) -> dict[str, dict[str, Any]]:
    """Make tests, and return the results by id and binding."""
    if not isinstance(tests, Path):
        suite = {"id": "mine", "name": "Mine", "tests": tests}
        document = {"acts_version": "1.0", "spec_version": "1.0", "suites": [suite]}
        (files / "mine.acts.yaml").write_text(json.dumps(document, indent=1))
        tests = files / "mine.acts.yaml"
    report = files / "report.json"
    # A minute for an answer: a machine that is busy otherwise must not be told of here.
    words: list[object] = [url, "--set", f"acts={tests}", "--group", "acts", "--timeout", "60"]
    words += ["--format", "json", "-o", report, *options]
    main.main(["check", *map(str, words)])
    results = json.loads(report.read_text())["results"]
    return {f"{r['id']} {r['binding']}": r for r in results}


def statuses(results: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: result["status"] for name, result in results.items()}


@pytest.mark.slow
def test_prefixes_are_used_where_the_agent_knows_them(url: str, files: Path) -> None:
    found = judged(url, files, [DONE, ASKED, STREAMED, unknown(), CARD], "--set", f"acts-behaviors={files}/known.yaml")
    assert statuses(found) == {
        f"MINE-{name} {binding}": "passed"
        for name in ("DONE", "ASKED", "STREAMED", "UNKNOWN", "CARD")
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
    }


def test_a_test_that_does_not_apply_is_skipped_with_its_reason(url: str, files: Path) -> None:
    tests = [{**DONE, "requires_behaviors": ["tck-nobody"]}, CLIENT, GUARDED, VARIABLE, BY_HAND]
    found = judged(url, files, tests, "--binding", "JSONRPC")
    assert {name.split()[0]: r["reason"] for name, r in found.items() if r["status"] == "skipped"} == {
        "MINE-DONE": "the agent is not said to know the behavior tck-nobody (setting acts-behaviors)",
        "MINE-CLIENT": "it is about how a client reads answers, and not about an agent",
        "MINE-GUARDED": "the card demands no credentials",
        "MINE-VARIABLE": "nothing gives {{nobodyKnows}} a value; give it in the environment, under that name",
    }
    assert found["MINE-BY-HAND JSONRPC"]["status"] == "passed"


def test_a_variable_comes_from_the_environment(url: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("nobodyKnows", "no-such-task")
    (result,) = judged(url, files, [VARIABLE], "--binding", "GRPC").values()
    assert (result["status"], result["findings"][0]["expected"].partition(" (")[0]) == ("failed", "a result")


def test_a_failure_is_reported_with_its_step_and_place(files: Path) -> None:
    with served_in_thread(lambda: serve_faulty("get-unknown", transport="jsonrpc")) as bad:
        found = judged(bad.url, files, [unknown(), DONE], "--set", f"acts-behaviors={files}/known.yaml")
    wrong = found["MINE-UNKNOWN JSONRPC"]
    (finding,) = wrong["findings"]
    assert wrong["status"] == "failed"
    assert finding["found"].startswith("step get: the answer is no error: status 200 with")
    wanted = f"an error {{'one_of': ['TaskNotFoundError']}} (the test in {files / 'mine.acts.yaml'}:"
    assert finding["expected"].startswith(wanted)
    assert finding["exchanges"][0]["method"] == "GetTask"
    assert found["MINE-DONE JSONRPC"]["status"] == "passed"  # the built-in agent completes whatever it is told


def test_the_name_of_an_error_is_looked_at(url: str, files: Path) -> None:
    tests = [
        unknown(expect_error={"code": "TaskNotFoundError"}),
        unknown("ANY", expect={"status": "error", "error": {"exists": True}}),
        unknown("WRONG", expect_error={"code": "InternalError"}),
        unknown("NONE", expect={"error": {"absent": True}}),
    ]
    found = judged(url, files, tests)
    # What is found twice for one cause is told once.
    assert {name for name, status in statuses(found).items() if status == "passed"} == {
        f"{test} {binding}" for test in ("MINE-UNKNOWN", "MINE-ANY") for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
    }
    assert (found["MINE-WRONG GRPC"]["status"], found["MINE-NONE JSONRPC"]["status"]) == ("failed", "failed")


def test_an_agent_that_lacks_a_capability_is_not_blamed(files: Path) -> None:
    with full_agent(Features(streaming=False, push=False)) as narrow:
        known = f"acts-behaviors={files}/known.yaml"
        found = judged(narrow, files, [STREAMED], "--set", known, "--binding", "JSONRPC")
    assert found["MINE-STREAMED JSONRPC"]["reason"] == "the card does not declare capabilities.streaming"


def test_waivers_and_ids_know_them(url: str, files: Path) -> None:
    (files / "waivers.toml").write_text('[[waiver]]\nid = "MINE-UNKNOWN"\nreason = "why not"\n')
    options = ("--id", "MINE-UNKNOWN", "--waivers", files / "waivers.toml", "--binding", "JSONRPC")
    assert statuses(judged(url, files, [unknown(), DONE], *options)) == {"MINE-UNKNOWN JSONRPC": "passed"}


def test_a_verdict_of_their_own(url: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged(url, files, [unknown()])
    assert "A2A 1.0 by ACTS: fully conformant: MUST 3/3\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_repeated_step_is_asked_until_its_condition_holds(url: str, files: Path) -> None:
    assert set(statuses(judged(url, files, [SLOW], "--set", f"acts-behaviors={files}/known.yaml")).values()) == {
        "passed"
    }


def _breaking(request: Request) -> list[bytes]:
    error = {"jsonrpc": "2.0", "id": request.json["id"], "error": {"code": -32603, "message": "no"}}
    status = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    return [stream_head(), event({"statusUpdate": status}, request), b"data: " + json.dumps(error).encode() + b"\n\n"]


def test_a_stream_that_ends_in_an_error_is_reported(files: Path) -> None:
    tests = [
        STREAM,
        streamed_by_hand("RAW", min_count=1),
        streamed_by_hand("WANTED", final_event={"error": {"code": -32603}}),
    ]
    handler = scripted(lambda r: _breaking(r) if r.json["method"] == "SendStreamingMessage" else rpc(MESSAGE, r))
    with raw_agent(handler) as agent:
        agent.card["capabilities"] = {"streaming": True}
        found = judged(agent.url, files, tests)
    assert statuses(found) == {
        "MINE-STREAM JSONRPC": "failed",
        "MINE-RAW JSONRPC": "failed",
        "MINE-WANTED JSONRPC": "passed",
    }
    message = found["MINE-STREAM JSONRPC"]["findings"][0]["found"]
    assert message == "step a: the stream is ended by error InternalError -32603: no; 1 events had come"


def test_a_card_is_read_whichever_version_its_server_takes(files: Path) -> None:
    card = {
        "name": "strict",
        "skills": [{"id": "a"}],
        "supportedInterfaces": [{"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    }

    def handler(request: Request) -> bytes:
        if request.headers.get("a2a-version"):
            return response({"code": -32009, "message": "not that version"}, "400 Bad Request")
        return response(card)

    with raw_agent(handler, {}) as agent:
        found = judged(agent.url, files, [CARD])
    assert statuses(found) == {"MINE-CARD JSONRPC": "passed"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "acts-behaviors=x.yaml"), "acts-behaviors: give --set acts=PATH with it"),
        (("--set", "acts=/no/such"), "/no/such: it cannot be read"),
        (("--id", "MINE-001"), "there is no requirement 'MINE-001'"),
        (("--group", "acts"), "--group names acts; there are "),
    ],
)
def test_bad_options(options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", "http://127.0.0.1:1", *options]) == 2
    assert message in capsys.readouterr().err


# --- the public tests, which this project does not have ---------------------------------------------------------------


@pytest.fixture(scope="module")
def checkout() -> Path:
    if not os.environ.get(CHECKOUT):
        pytest.skip(f"{CHECKOUT} does not name a directory with A2A's own tests (tests/acts of its pull request 1882)")
    return Path(os.environ[CHECKOUT])


def test_every_public_test_is_read(checkout: Path) -> None:
    cases = load_cases(checkout)
    assert len(cases) >= 111
    assert sum(isinstance(case.test.steps[0], ClientStep) for case in cases) < 10


@pytest.mark.slow
def test_a_correct_agent_passes_the_public_tests(url: str, files: Path, checkout: Path) -> None:
    found = judged(url, files, checkout, "--set", f"acts-behaviors={files}/known.yaml")
    assert not {name for name, status in statuses(found).items() if status == "failed"}
    # What is at odds with the specification says so.
    assert "REST-PD-001 HTTP+JSON" in {name for name, r in found.items() if "; but " in str(r["findings"])}
