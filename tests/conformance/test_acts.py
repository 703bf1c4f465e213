"""ACTS files of our own, made on real agents; the public ones where the environment says where they are."""

from __future__ import annotations

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

HEAD = 'acts_version: "1.0"\nspec_version: "1.0"\nsuites:\n  - id: mine\n    name: Mine\n    tests:\n'
DONE = """
      - id: MINE-DONE
        name: A task is completed, and is so when it is asked for
        level: must
        requires_behaviors: [tck-complete-task]
        steps:
          - id: send
            operation: send_message
            params:
              message: {role: ROLE_USER, parts: [{text: tck-complete-task now}]}
            capture: {taskId: task.id}
            expect:
              status: 200
              body: {task: {status: {state: TASK_STATE_COMPLETED}}}
          - id: get
            operation: get_task
            params: {id: "{{send.taskId}}"}
            expect:
              body: {id: "{{send.taskId}}", status: {state: TASK_STATE_COMPLETED}}
            assertions:
              - {source: "{{get.response}}", path: history, match: {count_gte: 1}}
          - id: cancel
            operation: cancel_task
            params: {id: "{{send.taskId}}"}
            expect_error: {error_type: TaskNotCancelableError, message: {type: string}}
"""
ASKED = """
      - id: MINE-ASKED
        name: A question is answered
        level: must
        requires_behaviors: [tck-multi-turn]
        steps:
          - id: ask
            operation: send_message
            params:
              message: {role: ROLE_USER, parts: [{text: tck-multi-turn first}]}
            capture: {taskId: task.id, contextId: task.contextId}
            expect: {body: {task: {status: {state: TASK_STATE_INPUT_REQUIRED}}}}
          - id: answer
            operation: send_message
            params:
              taskId: "{{ask.taskId}}"
              message: {role: ROLE_USER, parts: [{text: done}]}
            expect: {body: {task: {contextId: "{{ask.contextId}}", status: {state: TASK_STATE_COMPLETED}}}}
"""
STREAMED = """
      - id: MINE-STREAMED
        name: Events come in order
        level: should
        requires_behaviors: [tck-stream-chunked]
        steps:
          - id: stream
            operation: send_streaming_message
            params:
              message: {role: ROLE_USER, parts: [{text: tck-stream-chunked}]}
            capture: {taskId: task.id}
            expect_stream:
              min_count: 3
              ordering: monotonic_state
              events:
                - {match: any_position, artifact_update: {artifact: {parts: {count: 1}}}}
              final_event: {status: {state: TASK_STATE_COMPLETED}}
          - id: again
            operation: subscribe_to_task
            params: {id: "{{stream.taskId}}"}
            expect_error: {error_type: UnsupportedOperationError}
"""
UNKNOWN = """
      - id: MINE-UNKNOWN
        name: An unknown task is told
        level: must
        steps:
          - id: get
            operation: get_task
            params: {id: "00000000-0000-0000-0000-000000000000"}
            expect_error: {error_type: {one_of: [TaskNotFoundError]}, message: {matches: .}}
"""
BY_HAND = """
      - id: MINE-BY-HAND
        name: An unknown method is told
        level: must
        transport: [jsonrpc]
        steps:
          - id: raw
            raw:
              method: POST
              path: /
              headers: {Content-Type: application/json, A2A-Version: "1.0"}
              body: {jsonrpc: "2.0", id: mine, method: NoSuchMethod, params: {}}
            expect:
              status: 200
              headers: {Content-Type: {starts_with: application/json}}
              body: {id: mine, error: {code: -32601}}
"""
SLOW = """
      - id: MINE-SLOW
        name: A task is over in the end
        level: must
        requires_behaviors: [tck-long-running]
        steps:
          - id: send
            operation: send_message
            params:
              message: {role: ROLE_USER, parts: [{text: tck-long-running}]}
              configuration: {returnImmediately: true}
            capture: {taskId: task.id}
            expect: {body: {task: {status: {state: {one_of: [TASK_STATE_SUBMITTED, TASK_STATE_WORKING]}}}}}
          - id: wait
            operation: get_task
            params: {id: "{{send.taskId}}"}
            repeat: {until: "status.state == TASK_STATE_COMPLETED", max_attempts: 600, delay_ms: 50}
"""
CARD = """
      - id: MINE-CARD
        name: The card is there
        level: must
        steps:
          - id: card
            operation: get_agent_card
            expect:
              headers: {content-type: application/json}
              body: {skills: {count_gte: 1, items: {id: {type: string}}}}
"""
CLIENT = """
      - id: MINE-CLIENT
        name: A client reads it
        level: must
        steps:
          - id: parse
            client_response: {operation: get_task, wire_payload: {}}
            expect_parsed: {id: x}
"""
GUARDED = """
      - id: MINE-GUARDED
        name: Who is unknown is refused
        level: must
        preconditions: {authentication: true}
        steps:
          - id: get
            operation: get_task
            params: {id: x}
            expect: {status: 401}
"""
NOTHING_TO_SAY = """
      - id: MINE-VARIABLE
        name: Nobody knows the value
        level: must
        steps:
          - id: get
            operation: get_task
            params: {id: "{{nobodyKnows}}"}
"""
STREAM = """
      - id: MINE-STREAM
        name: Something is streamed
        level: must
        steps:
          - id: a
            operation: send_streaming_message
            params: {message: {role: ROLE_USER, parts: [{text: hi}]}}
            expect_stream: {min_count: 1}
"""
STREAM_BY_HAND = """
      - id: MINE-RAW
        name: Something is streamed by hand
        level: must
        transport: [jsonrpc]
        steps:
          - id: a
            raw:
              method: POST
              path: /
              headers: {Content-Type: application/json, A2A-Version: "1.0"}
              body:
                jsonrpc: "2.0"
                id: 1
                method: SendStreamingMessage
                params: {message: {messageId: m, role: ROLE_USER, parts: [{text: hi}]}}
            expect_stream: {min_count: 1}
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """URL of an agent that does what the prefixes say."""
    with acts_agent() as found:
        yield found


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "known.yaml").write_text(BEHAVIORS)
    return tmp_path


def judged(url: str, files: Path, tests: str | Path, *options: str | Path) -> dict[str, dict[str, Any]]:
    """Make tests, and return the results by id and binding."""
    if isinstance(tests, str):
        (files / "mine.acts.yaml").write_text(HEAD + tests)
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


def test_prefixes_are_used_where_the_agent_knows_them(url: str, files: Path) -> None:
    found = judged(url, files, DONE + ASKED + STREAMED + UNKNOWN + CARD, "--set", f"acts-behaviors={files}/known.yaml")
    assert statuses(found) == {
        f"MINE-{name} {binding}": "passed"
        for name in ("DONE", "ASKED", "STREAMED", "UNKNOWN", "CARD")
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
    }


def test_a_test_that_does_not_apply_is_skipped_with_its_reason(url: str, files: Path) -> None:
    tests = DONE.replace("tck-complete-task]", "tck-nobody]") + CLIENT + GUARDED + NOTHING_TO_SAY + BY_HAND
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
    (result,) = judged(url, files, NOTHING_TO_SAY, "--binding", "GRPC").values()
    assert (result["status"], result["findings"][0]["expected"].partition(" (")[0]) == ("failed", "a result")


def test_a_failure_is_reported_with_its_step_and_place(files: Path) -> None:
    with served_in_thread(lambda: serve_faulty("get-unknown", transport="jsonrpc")) as bad:
        found = judged(bad.url, files, UNKNOWN + DONE, "--set", f"acts-behaviors={files}/known.yaml")
    wrong = found["MINE-UNKNOWN JSONRPC"]
    (finding,) = wrong["findings"]
    assert wrong["status"] == "failed"
    assert finding["found"].startswith("step get: the answer is no error: status 200 with")
    assert finding["expected"] == (
        f"an error {{'one_of': ['TaskNotFoundError']}} (the test in {files / 'mine.acts.yaml'}:8)"
    )
    assert finding["exchanges"][0]["method"] == "GetTask"
    assert found["MINE-DONE JSONRPC"]["status"] == "passed"  # the built-in agent completes whatever it is told


def test_the_name_of_an_error_is_looked_at(url: str, files: Path) -> None:
    named = "expect_error: {error_type: {one_of: [TaskNotFoundError]}, message: {matches: .}}"
    right = UNKNOWN.replace(named, "expect_error: {code: TaskNotFoundError}")
    wrong = UNKNOWN.replace(named, "expect_error: {code: InternalError}").replace("MINE-UNKNOWN", "MINE-WRONG")
    some = UNKNOWN.replace(named, "expect: {status: error, error: {exists: true}}").replace("MINE-UNKN", "MINE-ANY")
    none = UNKNOWN.replace(named, "expect: {error: {absent: true}}").replace("MINE-UNKNOWN", "MINE-NONE")
    found = judged(url, files, right + wrong + some + none)
    # What is found twice for one cause is told once.
    assert {name for name, status in statuses(found).items() if status == "passed"} == {
        f"{test} {binding}" for test in ("MINE-UNKNOWN", "MINE-ANYOWN") for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
    }
    assert (found["MINE-WRONG GRPC"]["status"], found["MINE-NONE JSONRPC"]["status"]) == ("failed", "failed")


def test_an_agent_that_lacks_a_capability_is_not_blamed(files: Path) -> None:
    with full_agent(Features(streaming=False, push=False)) as narrow:
        known = f"acts-behaviors={files}/known.yaml"
        found = judged(narrow, files, STREAMED, "--set", known, "--binding", "JSONRPC")
    assert found["MINE-STREAMED JSONRPC"]["reason"] == "the card does not declare capabilities.streaming"


def test_waivers_and_ids_know_them(url: str, files: Path) -> None:
    (files / "waivers.toml").write_text('[[waiver]]\nid = "MINE-UNKNOWN"\nreason = "why not"\n')
    options = ("--id", "MINE-UNKNOWN", "--waivers", files / "waivers.toml", "--binding", "JSONRPC")
    assert statuses(judged(url, files, UNKNOWN + DONE, *options)) == {"MINE-UNKNOWN JSONRPC": "passed"}


def test_a_verdict_of_their_own(url: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged(url, files, UNKNOWN)
    assert "A2A 1.0 by ACTS: fully conformant: MUST 3/3\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_repeated_step_is_asked_until_its_condition_holds(url: str, files: Path) -> None:
    assert set(statuses(judged(url, files, SLOW, "--set", f"acts-behaviors={files}/known.yaml")).values()) == {"passed"}


def _breaking(request: Request) -> list[bytes]:
    error = {"jsonrpc": "2.0", "id": request.json["id"], "error": {"code": -32603, "message": "no"}}
    status = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    return [stream_head(), event({"statusUpdate": status}, request), b"data: " + json.dumps(error).encode() + b"\n\n"]


def test_a_stream_that_ends_in_an_error_is_reported(files: Path) -> None:
    raw = STREAM_BY_HAND.replace("MINE-RAW", "MINE-WANTED").replace(
        "min_count: 1", "final_event: {error: {code: -32603}}"
    )
    handler = scripted(lambda r: _breaking(r) if r.json["method"] == "SendStreamingMessage" else rpc(MESSAGE, r))
    with raw_agent(handler) as agent:
        agent.card["capabilities"] = {"streaming": True}
        found = judged(agent.url, files, STREAM + STREAM_BY_HAND + raw)
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
        found = judged(agent.url, files, CARD)
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
