"""Agents of 0.3: a2a-sdk 1.3.0's compatible side on three transports, and a real 0.3.26 server."""

import json
from typing import Any

from judged import faults, judge
from one_test import in_one_test
from peers import peer
from scripted import scripted_agent

from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.checks.data_model import OLD_PROTO_RULES, RULES
from pytest_a2a_bench.conformance.protocol.operations import to_v03_params
from pytest_a2a_bench.conformance.protocol.payloads import nodes
from pytest_a2a_bench.conformance.protocol.streams import ids_agree

GROUPS = {requirement.group for requirement in load_requirements("0.3")}


def test_a_compatible_server_has_no_fault_and_every_check_that_applies_is_made() -> None:
    with scripted_agent() as agent:
        compatible = judge(agent.url, groups=GROUPS, versions=["0.3"])
    assert faults(compatible) == {}
    made = {(r.requirement.id, r.binding) for r in compatible.values() if r.outcome == "passed"}
    ids = {id for id, _ in made}
    undeclared = {"V03-PUSH-001", "V03-PUSH-002", "V03-PUSH-003", "V03-SEND-003", "V03-AUTH-001", "V03-STREAM-004"}
    undeclared |= {"V03-AUTH-002", "V03-XCARD-002"}
    unprompted = {"V03-DM-005"}
    checks = {r.id for r in load_requirements("0.3") if r.check}
    assert checks - ids - {"V03-TASK-003"} == undeclared | unprompted
    for id in ("V03-STREAM-002", "V03-STREAM-003", "V03-TASK-002", "V03-SEND-002", "V03-PUSH-004"):
        assert {binding for name, binding in made if name == id} == {"JSONRPC", "HTTP+JSON", "GRPC"}


def test_a2a_sdk_0_3_26_has_its_true_defects() -> None:
    with peer("sdk03", "peer_sdk03.py", "plain") as url:
        results = judge(url, groups=GROUPS, prompts={})
    # It leaves the id out where JSON-RPC wants null, and says -32603 where 0.3 has -32003.
    # The second shows where its answer is a task, which every other one is.
    assert faults(results) | {"V03-PUSH-004[JSONRPC]": "failed"} == {
        "V03-RPC-003[JSONRPC]": "warned",
        "V03-PUSH-004[JSONRPC]": "failed",
    }


def test_a2a_sdk_0_3_26_with_all_that_it_can() -> None:
    prompts = {"task": "hello", "message": "echo hi", "slow": "slow", "file": "file", "data": "data"}
    with peer("sdk03", "peer_sdk03.py") as url:
        results = judge(url, groups=GROUPS, prompts=prompts)
    # Whatever id is asked for, it answers with the first config of a task. Over HTTP+JSON it breaks when configs are
    # listed, and cannot delete them; over gRPC it can do neither. A stream that is resubscribed to over gRPC ends early
    # now and then.
    assert faults(results) | {"V03-STREAM-003[GRPC]": "failed"} == {
        "V03-RPC-003[JSONRPC]": "warned",
        "V03-PUSH-001[JSONRPC]": "failed",
        "V03-PUSH-001[HTTP+JSON]": "failed",
        "V03-PUSH-001[GRPC]": "failed",
        "V03-STREAM-003[GRPC]": "failed",
    }
    made = {r.requirement.id for r in results.values() if r.outcome == "passed"}
    assert made >= {"V03-DM-005", "V03-DM-006", "V03-SEND-002", "V03-SEND-003", "V03-STREAM-002", "V03-STREAM-003"}
    assert made >= {"V03-PUSH-002", "V03-PUSH-003", "V03-TASK-002", "V03-EQ-001"}


TEXT: Any = {"kind": "text", "text": ""}
SAID: Any = {"kind": "message", "messageId": "m", "role": "agent", "parts": []}
UPDATE: Any = {"taskId": "t", "contextId": "c"}
OBJECTS: list[Any] = [
    {"kind": "task", "id": "t", "contextId": "c", "status": {}},
    SAID,
    {**SAID, "parts": [TEXT]},
    {**UPDATE, "kind": "status-update", "status": {}, "final": False},
    {**UPDATE, "kind": "artifact-update", "artifact": {"artifactId": "a", "parts": []}},
]


@in_one_test("whole", OBJECTS, ids=lambda whole: str(whole["kind"]))
def test_each_required_member_is_asked_for(whole: Any) -> None:
    rule = RULES["V03-DM-004"]
    assert list(rule(whole)) == []
    # A kind and a role have rules of their own; members of an object within stand a level deeper.
    for name in whole.keys() - {"kind", "role"}:
        for value in (None, *([""] if "Id" in name else [])):
            assert [(p.pointer, p.found[: len(name)]) for p in rule({**whole, name: value})] == [(f"/{name}", name)]
    (problem,) = rule({**SAID, "parts": [{"kind": "text"}]})
    assert problem == ("/parts/0/text", "text of a part is missing", "")
    # protobuf leaves out what is empty.
    assert list(OLD_PROTO_RULES["V03-DM-004"]({"message": {"messageId": "m"}})) == []


@in_one_test(
    ("text", "is_right"),
    [
        *((text, True) for text in ("2026-11-27T18:00:00Z", "2026-11-27T18:00:00.123456789+02:00", None)),
        *((text, True) for text in ("2025-04-02T16:59:25.331844", "20261127T180000Z", "2026-11-27T18:00")),
        *((text, False) for text in (1_767_225_600, "", "2026-11-27", "2026-11-27 18:00:00", "Fri, 27 Nov 2026 18:00")),
    ],
)
def test_a_timestamp_is_iso_8601(text: Any, is_right: bool) -> None:
    task = {"kind": "task", "status": {"state": "working", "timestamp": text}}
    assert [p.pointer for p in RULES["V03-DM-008"](task)] == ([] if is_right else ["/status/timestamp"])


def test_updates_without_a_task_are_of_one_task() -> None:
    one, other = OBJECTS[3:]
    assert ids_agree([one, other, SAID]) == []
    assert [p.pointer for p in ids_agree([one, {**other, "taskId": "u"}])] == ["/1/artifactUpdate/taskId"]


def test_objects_are_found_by_their_place() -> None:
    part = {"kind": "text", "text": "x"}
    message = {"messageId": "m", "role": "agent", "parts": [part]}
    task = {
        "id": "t",
        "status": {"state": "working", "message": message},
        "history": [message],
        "artifacts": [{"artifactId": "a", "parts": [part]}],
    }
    found = {(o.kind, o.pointer) for o in nodes({"task": task})}
    assert found == {
        ("response", ""),
        ("task", "/task"),
        ("status", "/task/status"),
        ("message", "/task/status/message"),
        ("part", "/task/status/message/parts/0"),
        ("message", "/task/history/0"),
        ("part", "/task/history/0/parts/0"),
        ("artifact", "/task/artifacts/0"),
        ("part", "/task/artifacts/0/parts/0"),
    }
    owners = {o.pointer: o.owner for o in nodes({"task": task})}
    assert (owners["/task/status/message/parts/0"], owners["/task/artifacts/0"]) == ("message", "task")
    assert {o.pointer for o in nodes(task)} >= {"/status/message", "/history/0"}
    update = {"taskId": "t", "status": {"state": "completed"}}
    assert [o.kind for o in nodes(update)] == ["statusUpdate", "status"]
    parts = {"taskId": "t", "artifact": {"parts": [part]}}
    assert [o.kind for o in nodes(parts)] == ["artifactUpdate", "artifact", "part"]
    # The proto file of 0.3 has names of its own, and JSON-RPC gives a message as it is.
    assert [o.kind for o in nodes({"msg": {"messageId": "m", "content": [part]}})] == ["response", "message", "part"]
    assert [o.kind for o in nodes({**message, "taskId": "t"})] == ["message", "part"]
    assert list(nodes("text")) == []


@in_one_test("binding", ["JSONRPC", "GRPC"])
def test_a_webhooks_authentication_has_a_list_of_schemes(binding: str) -> None:
    config = {"url": "https://hook.example/", "authentication": {"scheme": "Bearer", "credentials": "x"}}
    message = {"message": {}, "configuration": {"taskPushNotificationConfig": config}}
    for operation, params in (
        ("CreateTaskPushNotificationConfig", {"taskId": "t", **config}),
        ("SendMessage", message),
    ):
        spelled = json.dumps(to_v03_params(operation, params, binding))
        assert '"authentication": {"schemes": ["Bearer"], "credentials": "x"}' in spelled, spelled
