"""Which requirement names a fault, at which level and in which words; and what is odd but right is no fault."""

import asyncio
import copy
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from broken_rpc import make_card
from faulty.catalogue import FAULTS
from faulty.fault import HTTP, REST, Fault, FaultyCall, Json, each_object, each_task, only, without
from faulty.problems import failure
from faulty_server import start_faulty
from judged import faults
from judged import judge as judge_card
from mutation import Verdict, judge
from one_test import in_one_test
from raw_agent import Request, raw_agent, response

from pytest_a2a_bench.conformance.checks.data_model import RULES
from pytest_a2a_bench.conformance.checks.push import settled
from pytest_a2a_bench.conformance.wire.webhook import Delivery


def served(fault: Fault, *ids: str) -> Verdict:
    """Judge an agent with a fault by some requirements."""
    return asyncio.run(judge(fault, ids=set(ids), breadth="standard"))


def of(verdict: Verdict) -> dict[str, set[str]]:
    """Return the outcomes of what is found, by id."""
    found: dict[str, set[str]] = {}
    for line in verdict.lines:
        name, _, outcome = line.partition(": ")[0].partition(" ")
        found.setdefault(name.partition("/")[2].partition("[")[0], set()).add(outcome)
    return found


def _counted() -> Callable[[Json], None]:
    number = itertools.count()
    return lambda task: task.update(seenBefore=next(number), metadata={"seen": next(number)})


def _no_contexts(call: FaultyCall, result: Any) -> Any:
    return json.loads(json.dumps(result), object_hook=lambda o: {k: v for k, v in o.items() if k != "contextId"})


def _naive(found: Json) -> None:
    if isinstance(found.get("timestamp"), str):
        found["timestamp"] = found["timestamp"].removesuffix("Z")


def _without_length(call: FaultyCall, params: Json) -> Json:
    kept = {name: value for name, value in params.items() if name != "historyLength"}
    if isinstance(kept.get("configuration"), dict):
        kept["configuration"] = {k: v for k, v in kept["configuration"].items() if k != "historyLength"}
    return kept


def _refused(call: FaultyCall, params: Json) -> Json:
    raise failure("UnsupportedOperation", "Streaming is not supported")


_STREAMS = ("SendStreamingMessage", "SubscribeToTask")
_LOST = Fault(operations=("ListTasks",), reply=each_task(without("artifacts")))


@pytest.mark.parametrize(
    ("fault", "ids", "found"),
    [
        # Members that the protocol does not have may change.
        (Fault(bindings=HTTP, operations=("GetTask",), reply=each_task(_counted())), "GET-007 EQ-002", {}),
        # Whether there are contexts is up to the agent; tasks in one and messages in none are not.
        (Fault(bindings=HTTP, reply=_no_contexts), "MT-001 MT-004 MT-005 MT-006 MT-007", {}),
        (FAULTS["task-no-context"], "MT-001 SEND-013", {"MT-001": {"failed"}}),
        (FAULTS["early-no-context"], "MT-001 SEND-013", {"MT-001": {"failed"}}),
        (FAULTS["message-no-context"], "MT-001 SEND-013", {"SEND-013": {"warned"}}),
        # Times without a zone are not asked for.
        (Fault(bindings=HTTP, reply=each_object(_naive)), "DM-010 LIST-012 HJ-005", {"DM-010": {"failed"}}),
        # A task that is not waited for has its form, and its artifacts when it is over.
        (
            FAULTS["never-block"],
            "SEND-001 SEND-002 SEND-010 SEND-018",
            {"SEND-002": {"failed"}, "SEND-018": {"failed"}},
        ),
        # An array is no page of configurations.
        (
            replace(only("ListTaskPushNotificationConfigs", lambda page: page["configs"]), bindings=HTTP),
            "PUSH-002 PUSH-004 PUSH-005",
            {"PUSH-004": {"failed"}},
        ),
        # A history that is not wanted must not come in any operation.
        (
            Fault(request=_without_length),
            "SEND-010 GET-003 LIST-015",
            {"SEND-010": {"failed"}, "GET-003": {"failed"}, "LIST-015": {"failed"}},
        ),
        # An operation that is refused for every task shows of none that it exists.
        (
            Fault(variant="guarded", bindings=HTTP, operations=_STREAMS, request=_refused),
            "AUTH-007 STREAM-001",
            {"STREAM-001": {"failed"}},
        ),
        # A bare task is no answer without a context.
        (FAULTS["send-bare-task"], "SEND-001 MT-001 MT-002 MT-004 MT-006 MT-007", {"SEND-001": {"failed"}}),
        # Artifacts that never come are the fault of a query only where they come on another binding.
        (_LOST, "LIST-004 HJ-005", {"LIST-004": {"warned"}}),
        (replace(_LOST, bindings=REST), "LIST-004 HJ-005", {"LIST-004": {"warned"}, "HJ-005": {"failed"}}),
        # The specification forbids to accept any scheme, and advises against any media type.
        (FAULTS["any-scheme"], "AUTH-002", {"AUTH-002": {"failed"}}),
        (FAULTS["any-media"], "SEND-009", {"SEND-009": {"warned"}}),
    ],
)
def test_a_fault_is_named_by_its_own_requirements_alone(fault: Fault, ids: str, found: dict[str, set[str]]) -> None:
    assert of(served(fault, *ids.split())) == found


def test_a_member_that_changes_is_named_and_is_a_warning() -> None:
    number = itertools.count()

    def stamped(task: Json) -> None:
        task["status"]["timestamp"] = f"2026-01-01T00:00:{next(number) % 60:02}.000Z"

    verdict = served(Fault(operations=("GetTask",), reply=each_task(stamped)), "GET-007")

    assert of(verdict) == {"GET-007": {"warned"}}
    assert 'status/timestamp is "2026-' in verdict.lines[0]


def test_a_path_that_is_not_there_is_no_version_that_is_accepted() -> None:
    def answer(request: Request) -> bytes:
        error: Json = {"code": 404, "status": "NOT_FOUND", "message": "Not found", "details": []}
        is_there = request.path.startswith("/tasks/") and ":" not in request.path and request.method == "GET"
        if is_there and request.headers.get("a2a-version") != "1.0":
            reason, error = "VERSION_NOT_SUPPORTED", {**error, "code": 400, "status": "FAILED_PRECONDITION"}
        else:
            reason = "TASK_NOT_FOUND"
        if is_there:
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org"}
            error |= {"message": "Task not found", "details": [info]}
        return response({"error": error}, f"{error['code']} No", "application/a2a+json")

    with raw_agent(answer) as agent:
        card = make_card(agent.url)
        card["supportedInterfaces"] = [{"url": agent.url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}]
        results = judge_card(agent.url, ids=["VER-001", "VER-004", "HJ-001"], card=card)
    found = {r.requirement.id: r for r in results.values()}
    assert {id: r.outcome for id, r in found.items()} == {"VER-001": "passed", "VER-004": "passed", "HJ-001": "failed"}
    assert any("POST /tasks/{id}:cancel does not exist" in f.found for f in found["HJ-001"].findings)


@pytest.mark.parametrize(
    ("push", "page", "found"),
    [
        (-32003, {"nextPageToken": ""}, {}),
        (-32001, {"nextPageToken": ""}, {}),
        (-32004, {"nextPageToken": ""}, {"PUSH-008": "failed"}),
        (-32003, {}, {"LIST-001": "failed"}),
    ],
)
def test_an_agent_of_messages_only_has_pages_and_errors_to_judge(push: int, page: Json, found: dict[str, str]) -> None:
    def answer(request: Request) -> bytes:
        call = json.loads(request.body)
        message = {"messageId": "1", "role": "ROLE_AGENT", "parts": [{"text": "Hello"}]}
        known = {"SendMessage": {"message": message}, "ListTasks": {"tasks": [], "pageSize": 9, "totalSize": 0, **page}}
        told: Json = {"jsonrpc": "2.0", "id": call["id"]}
        if call["method"] in known:
            return response(told | {"result": known[call["method"]]})
        code = push if "Push" in call["method"] else -32001
        return response(told | {"error": {"code": code, "message": "No"}})

    with raw_agent(answer) as agent:
        card = make_card(agent.url) | {"capabilities": {}}
        results = judge_card(agent.url, ids=["PUSH-008", "LIST-001", "LIST-002"], card=card).values()
    wanted = dict.fromkeys(("PUSH-008", "LIST-001", "LIST-002"), "passed") | found
    assert {r.requirement.id: r.outcome for r in results} == wanted


class Notified:
    """A webhook that has got one more delivery at each look, the last of them with the end of the task."""

    def __init__(self, number: int) -> None:
        self.deliveries: list[Delivery] = []
        self._states = iter([*["WORKING"] * (number - 1), "COMPLETED"][:number])

    async def wait(self, wanted: Callable[[list[Delivery]], bool], timeout: float) -> bool:
        state = next(self._states, None)
        if state is not None:
            status = {"statusUpdate": {"taskId": "t", "status": {"state": f"TASK_STATE_{state}"}}}
            self.deliveries.append(Delivery("POST", {}, json.dumps(status).encode(), 0.0))
        return wanted(self.deliveries)


@in_one_test("number", [0, 1, 120])
def test_notifications_are_waited_for_as_long_as_more_arrive(number: int) -> None:
    hook = Notified(number)
    assert asyncio.run(settled(cast("Any", hook), 5.0))
    assert len(hook.deliveries) == number


def test_a_task_that_is_not_waited_for_is_not_taken_for_one_that_is_over() -> None:
    looked: set[str] = set()
    numbers = itertools.count()

    def answer(request: Request) -> bytes:
        call = json.loads(request.body)
        task_id = call["params"].get("message", {}).get("taskId") or call["params"].get("id") or str(next(numbers))
        told: Json = {"jsonrpc": "2.0", "id": call["id"]}
        if call["method"] == "SendMessage" and task_id in looked:
            return response(told | {"error": {"code": -32004, "message": "It is over"}})
        if call["method"] == "GetTask":
            looked.add(task_id)
        state = "TASK_STATE_COMPLETED" if task_id in looked else "TASK_STATE_WORKING"
        task = {"id": task_id, "contextId": "c", "status": {"state": state}}
        return response(told | {"result": task if call["method"] == "GetTask" else {"task": task}})

    with raw_agent(answer) as agent:
        results = judge_card(agent.url, ids=["SEND-002", "SEND-007"], card=make_card(agent.url))
    assert {r.requirement.id: r.outcome for r in results.values()} == {"SEND-002": "failed", "SEND-007": "passed"}


def test_a_follow_up_that_is_not_waited_for_is_named_so() -> None:
    asked: dict[str, Json] = {}

    def early(call: FaultyCall, result: Any) -> Any:
        task = result.get("task") if isinstance(result, dict) else None
        if isinstance(task, dict) and call.params["message"].get("taskId") in asked:
            task["status"] = copy.deepcopy(asked[task["id"]])
        elif isinstance(task, dict):
            asked[task["id"]] = copy.deepcopy(task["status"])
        return result

    verdict = served(Fault(operations=("SendMessage",), reply=early), "MT-006", "SEND-002")

    assert of(verdict) == {"SEND-002": {"failed"}}
    assert "the follow-up gives the status from before it, and the task goes on, to completed" in verdict.lines[0]


@pytest.mark.slow
def test_a_stream_that_stays_open_is_no_message_without_an_answer() -> None:
    ids = ("SEND-017", "STREAM-005", "SUB-002", "MT-002", "MT-006", "PUSH-015")
    # A busy machine may leave it open how long the stream was.
    assert set(of(served(FAULTS["endless-stream"], *ids))) <= {"STREAM-005", "SUB-002"}


def test_an_object_has_its_article() -> None:
    artifact = {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {"parts": [{"text": "x"}]}}}
    (problem,) = RULES["DM-005"](artifact)
    assert problem.found == "artifactId of an artifact is missing"


def test_a_detail_without_a_type_is_named() -> None:
    def untyped(call: FaultyCall, document: Json) -> Json:
        error = document.get("error") or {}
        for detail in error.get("data" if call.binding == "JSONRPC" else "details") or ():
            detail.pop("@type", None)
        return document

    verdict = served(Fault(bindings=HTTP, envelope=untyped), "ERR-002", "ERR-004")

    assert len(verdict.lines) == 2
    assert all("[0] has no @type: {'reason': 'TASK_NOT_FOUND'" in line for line in verdict.lines)


def test_a_version_that_is_not_refused_is_not_an_error_that_was_accepted() -> None:
    verdict = served(FAULTS["any-version"], "VER-001")
    assert verdict.lines
    assert all("was accepted" not in line and " is answered like 1.0: " in line for line in verdict.lines)


@pytest.mark.parametrize(("version", "ids"), [("0.3", ("V03-TASK-001",)), ("1.0", ("SEND-011", "GET-004", "LIST-005"))])
def test_a_prompt_for_a_question_that_brings_none_is_no_fault_of_a_history(version: str, ids: tuple[str, ...]) -> None:
    with start_faulty(protocol=version) as agent:
        results = judge_card(agent.url.rstrip("/"), ids=ids, prompts={"input": "hello"}, versions=[version])
    assert faults(results) == {}
    assert len(results) >= len(ids)


@pytest.mark.parametrize(("id", "found"), [("another", False), ("", True)])
def test_another_config_is_not_the_one_that_was_deleted(id: str, found: bool) -> None:
    def answer(call: FaultyCall, problem: Any) -> Any:
        params = call.params
        config = {"taskId": params.get("taskId"), "id": id or params.get("id"), "url": "https://h.example/"}
        return config if call.operation == "GetTaskPushNotificationConfig" else problem

    verdict = served(Fault(version="0.3", bindings=("JSONRPC",), error=answer), "V03-PUSH-001")

    assert any("a deleted config is still there" in line for line in verdict.lines) is found, verdict.lines
