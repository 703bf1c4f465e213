"""The basic groups: correct servers have only the defects known of them, broken ones are found out."""

import asyncio
import copy
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from judged import collect, faults, judge
from one_test import in_one_test
from raw_agent import Request, raw_agent, response

from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.checks.binding import is_missing
from pytest_a2a_bench.conformance.finding import CheckResult, Exchange
from pytest_a2a_bench.conformance.target import Target, targets_of
from pytest_a2a_bench.conformance.wire.reply import ERROR_INFO, WireReply, read_grpc_error

Json = dict[str, Any]
GROUPS = frozenset({"send", "validation", "errors", "versioning", "data-model", "data-parts", "binding", "card"})


def test_agent_that_answers_with_messages(noop_url: str) -> None:
    # Every answer comes, so that the limit is only a safety net on a busy machine.
    results = judge(noop_url.rstrip("/"), groups=GROUPS, prompts={}, versions=["1.0"], timeout=60)
    assert faults(results) == {}, [r.findings for r in results.values()]
    # One reason, whether a check looks at that answer or wants a task of its own.
    found = {
        r.requirement.id: (r.outcome, r.reason.partition(": ")[2]) for r in results.values() if r.binding == "JSONRPC"
    }
    assert found["SEND-002"] == found["SEND-007"] == ("skipped", found["SEND-002"][1])
    assert found["SEND-002"][1].startswith("the agent answers with a message, not with a Task; give a prompt")


# -- a JSON-RPC agent of our own, and what can be wrong with it --

TASK: Json = {
    "id": "t-1",
    "contextId": "c-1",
    "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-02T03:04:05.678Z"},
    "artifacts": [{"artifactId": "a-1", "parts": [{"text": "hello"}]}],
}
Break = Callable[[Json, Json], Any]


def answer(request: Json) -> Json:
    """Give what a small correct agent gives, as far as the tests below ask."""
    method, params = request.get("method"), request.get("params") or {}
    if method == "SendMessage":
        result: Json = {"task": copy.deepcopy(TASK)}
    elif method == "GetTask" and params.get("id") == "t-1":
        result = copy.deepcopy(TASK)
    elif method == "ListTasks":
        result = {"tasks": [copy.deepcopy(TASK)], "nextPageToken": "", "pageSize": 50, "totalSize": 1}
    else:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND"}
        error = {"code": -32001, "message": "no such task", "data": [{**info, "domain": "a2a-protocol.org"}]}
        return {"jsonrpc": "2.0", "id": request.get("id"), "error": error}
    return {"jsonrpc": "2.0", "id": request.get("id"), "result": result}


def judged(breaks: Break, *ids: str, timeout: float = 5.0) -> dict[str, CheckResult]:
    # What a clock says is compared with that of the answer.
    TASK["status"]["timestamp"] = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def handler(request: Request) -> bytes:
        try:
            document = answer(request.json)
        except (ValueError, AttributeError):
            return response("Internal Server Error", "500 Internal Server Error", "text/plain")
        changed = breaks(request.json, document)
        return changed if isinstance(changed, bytes) else response(document)

    with raw_agent(handler) as agent:
        found = targets_of({**agent.card, "capabilities": {}}, agent.url, timeout=timeout)
        results = asyncio.run(collect(found, select=lambda p: p.requirement.id in ids))
    return {r.requirement.id: r for r in results}


def in_task(change: Callable[[Json], Any]) -> Break:
    def breaks(_: Json, document: Json) -> None:
        result = document.get("result", {})
        for task in (result.get("task"), result if "status" in result else None, *result.get("tasks", ())):
            if task is not None:
                change(task)

    return breaks


def in_result(change: Callable[[Json], Any]) -> Break:
    return lambda request, document: change(document["result"]) if request["method"] == "SendMessage" else None


def in_error(change: Callable[[Json], Any]) -> Break:
    return lambda _, document: change(document["error"]) if "error" in document else None


def plain(status: int, text: str | bytes, media_type: str) -> Break:
    return lambda *_: response(text, f"{status} So", media_type)


def test_small_agent_is_right() -> None:
    ids = ("SEND-001", "SEND-002", "SEND-003", *(f"DM-{n:03}" for n in range(1, 15)), "JR-001", "JR-003", "ERR-015")
    results = judged(lambda *_: None, *ids, "ERR-003", "PART-009", "ERR-JSON-TaskNotFound", "CARD-007")
    del results["ERR-015"]  # it asks in malformed JSON too, for which the small agent is too simple
    assert {r.outcome for r in results.values()} == {"passed"}


# What else an answer may be is in the vectors.
@in_one_test(
    ("id", "breaks", "pointer"),
    [
        ("SEND-001", in_result(lambda r: r.update(message={"messageId": "m"})), "/result"),
        ("SEND-001", in_result(lambda r: r.pop("task")), "/result"),
        ("SEND-002", in_result(lambda r: r["task"]["status"].update(state="TASK_STATE_WORKING")), "/task/status/state"),
        ("SEND-003", in_result(lambda r: r["task"].pop("artifacts")), "/task/artifacts"),
        ("DM-001", in_task(lambda t: t.pop("id")), "/task/id"),
        ("DM-010", in_task(lambda t: t["status"].update(timestamp=1767323045)), "/task/status/timestamp"),
        ("DM-011", in_task(lambda t: t["status"].update(timestamp="2026-01-02T03:04:05Z")), "/task/status/timestamp"),
        ("PART-009", in_task(lambda t: t["artifacts"][0].update(parts=[{}])), "/task/artifacts/0/parts/0"),
        ("JR-001", plain(200, json.dumps(answer({"id": 1, "method": "SendMessage"})), "text/plain"), "/content-type"),
        ("JR-003", lambda _, document: document.pop("jsonrpc"), "/jsonrpc"),
        ("ERR-001", in_error(lambda e: e.update(code="-32001")), "/error/code"),
        ("ERR-001", in_error(lambda e: e.pop("message")), "/error/message"),
        ("ERR-002", in_error(lambda e: e.update(data={"why": "x"})), "/error/data"),
        ("ERR-003", in_error(lambda e: e.pop("data")), "/error/details"),
        ("ERR-015", lambda _, document: document.update(id=str(document["id"])), "/id"),
        ("ERR-JSON-TaskNotFound", in_error(lambda e: e.update(code=-32603)), ""),
        ("CARD-007", plain(404, "Not Found", "text/plain"), "/supportedInterfaces"),
        ("SEND-008", lambda *_: None, ""),
        ("VAL-006", lambda *_: None, ""),
        ("VER-001", lambda *_: None, ""),
        ("VER-003", in_error(lambda e: e.update(code=-32009)), ""),
        ("JR-002", in_error(lambda e: e.update(code=-32601)), ""),
    ],
)
def test_broken_agent_is_found_out(id: str, breaks: Break, pointer: str) -> None:
    result = judged(breaks, id)[id]
    assert result.outcome == ("failed" if result.requirement.level == "MUST" else "warned"), result
    assert pointer in {f.pointer for f in result.findings}
    assert all(f.found and f.expected and f.spec and f.exchanges for f in result.findings)


def test_a_kind_is_what_should_not_be_there() -> None:
    breaks = in_task(lambda t: t["artifacts"][0]["parts"][0].update(kind="text"))
    results = judged(breaks, "PART-009"), judged(breaks, "DM-012")
    found = [result for each in results for result in each.values() if result.outcome != "passed"]
    assert [(r.requirement.id, r.outcome) for r in found] == [("PART-009", "warned"), ("DM-012", "warned")]
    assert {f.pointer for r in found for f in r.findings} == {"/task/artifacts/0/parts/0/kind"}


def test_a_request_that_may_change_a_task_is_about_one_that_no_other_check_looks_at() -> None:
    made: list[str] = []
    read, changed = set[str](), set[str]()

    def breaks(request: Json, document: Json) -> None:
        params = request["params"]
        if request["method"] == "SendMessage" and "taskId" not in params["message"]:
            made.append(f"t-{len(made)}")
            document["result"]["task"]["id"] = made[-1]
        elif (name := params.get("id") or params["message"]["taskId"]) in made:
            document.pop("error", None)
            document["result"] = {**TASK, "id": name}
            (read if params.get("historyLength") == 0 else changed).add(name)

    results = judged(breaks, "GET-003", "GET-005", "CAN-002", "SEND-007")
    assert [r.outcome for r in results.values()] == ["failed", "passed", "failed", "failed"]
    assert (len(read), len(changed), len(made), read & changed) == (1, 3, 4, set())


def test_where_the_specification_contradicts_itself_the_finding_says_so_and_is_a_warning() -> None:
    result = judged(lambda *_: None, "VAL-002")["VAL-002"]
    assert result.outcome == "warned"
    assert "it was accepted; the specification contradicts itself" in result.findings[0].found
    assert "§3.3.2" in result.findings[0].found
    assert "§5.7" in result.findings[0].found


_TYPES = {"jsonrpc": 2, "id": [1], "result": {"task": [1], "tasks": 5, "message": "m"}, "error": "no"}
_RESULT = '{"jsonrpc": "2.0", "id": 1, "result": %s}'
NONSENSE: tuple[tuple[int, str | bytes, str], ...] = (
    (500, "Internal Server Error", "text/plain"),
    (200, "<html></html>", "text/html"),
    *((200, text, "application/json") for text in ("", "{}", "[" * 100_000, '"\\ud800"', json.dumps(_TYPES))),
    (200, _RESULT % ('{"a":' * 900 + "1" + "}" * 900), "application/json"),
    (200, _RESULT % "[null, 1]", "application/json"),
    (200, _RESULT % '{"task": {"id": null, "status": null}}', "application/json"),
    (200, _RESULT % ("9" * 100_000), "application/json"),
    # Half of a character, a null byte and an escape sequence; every member twice.
    (200, _RESULT % json.dumps({"task": TASK}).replace("t-1", r"\ud800 \u0000 \u001b[31m"), "application/json"),
    (200, _RESULT % json.dumps({"task": TASK}).replace('"id": "t-1"', '"id": "t", "id": 5'), "application/json"),
    (200, '{"jsonrpc": "2.0", "id": NaN, "result": {"task": {"id": Infinity, "x": 1e99999}}}', "application/json"),
    (200, b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "\xff\xfe\xc3"}}', "application/json"),
    (200, b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "application/json"),
    (302, "", "text/plain"),
)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
@in_one_test(("status", "body", "media_type"), NONSENSE)
def test_nonsense_is_a_finding_and_no_traceback(status: int, body: str | bytes, media_type: str, whole: bool) -> None:
    ids = ("SEND-001", "SEND-003", "DM-001", "ERR-001", "ERR-015", "VAL-001", "VER-001", "JR-002", "PART-001")
    asked = [r.id for r in load_requirements("1.0")] if whole else ids
    results = judged(plain(status, body, media_type), *asked)
    assert set(results) >= set(ids)
    assert "failed" in {r.outcome for r in results.values()}
    assert not any("bug of pytest-a2a-bench" in r.reason for r in results.values())


@pytest.mark.parametrize(
    ("body", "headers"),
    [("", {"Location": "http://127.0.0.2:9/stolen"}), ("{}", {"Content_Encoding": "gzip"})],
    ids=["a redirect to somebody else", "compressed, it says"],
)
def test_headers_that_lie_are_findings(body: str, headers: dict[str, str]) -> None:
    result = judged(lambda *_: response(body, "307 So" if "Location" in headers else "200 OK", **headers), "SEND-001")
    assert result["SEND-001"].outcome == "failed"


def test_agent_that_never_answers() -> None:
    over = threading.Event()
    with raw_agent(lambda _: iter([b""] if over.wait(60) else [])) as agent:
        target = Target(agent.url, agent.card, "1.0", "JSONRPC", agent.url, timeout=0.2)
        asked = collect(target, select=lambda p: p.requirement.id in ("SEND-001", "VAL-001"))
        results = asyncio.run(asyncio.wait_for(asked, 20))
        over.set()
    # The agent may be just slow, which is no finding; and it is not asked everything.
    assert sorted(r.outcome for r in results if r.binding == "JSONRPC") == ["error", "skipped"]


@in_one_test(
    ("message", "details", "missing"),
    [
        ("Method not found!", (), True),
        ("", (), True),
        ("push notifications are not supported", (), False),
        ("no method", ({"@type": ERROR_INFO, "reason": "UNSUPPORTED_OPERATION"},), False),
    ],
)
def test_what_a_grpc_server_says_of_a_method_that_it_does_not_have(message: str, details: Any, missing: bool) -> None:
    error = read_grpc_error("UNIMPLEMENTED", message, details)
    assert is_missing(WireReply(Exchange("GRPC", "GetTask", ""), 12, error=error)) is missing
