"""Faults of sending messages, of validation, of parts and of the data model on the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_a2a_bench.agents.faulty.behaviour import text_of
from pytest_a2a_bench.agents.faulty.fault import (
    ALL,
    HTTP,
    Fault,
    FaultyCall,
    Json,
    RequestHook,
    answering,
    configured,
    each_event,
    each_object,
    each_task,
    only,
    switch,
    tasks_in,
    without,
)
from pytest_a2a_bench.agents.faulty.problems import failure
from pytest_a2a_bench.agents.faulty.store import new_id, now


def _waive(rule: str, says: str, *breaks: str) -> Fault:
    return Fault(f"accept-{rule}", says, breaks, waive=frozenset({rule}))


def _wire(name: str, says: str, breaks: tuple[str, ...], change: Any, *, bindings: tuple[str, ...] = HTTP) -> Fault:
    """Return a fault that shows in results and streams alike."""
    hook = each_object(change)
    nowhere = FaultyCall("", "", {})
    return Fault(
        name, says, breaks, bindings=bindings, reply=hook, event=each_event(lambda event: hook(nowhere, event))
    )


def _rename(old: str, new: str) -> Any:
    def change(found: Json) -> None:
        if old in found:
            found[new] = found.pop(old)

    return change


def _set_in_message(name: str, value: str | None) -> Any:
    def change(found: Json) -> None:
        if "messageId" in found and found.get("role") == "ROLE_AGENT":
            if value is None:
                found.pop(name, None)
            else:
                found[name] = value

    return change


def _lower_state(found: Json) -> None:
    if isinstance(found.get("state"), str):
        found["state"] = found["state"].removeprefix("TASK_STATE_").lower().replace("_", "-")


def _lower_role(found: Json) -> None:
    if isinstance(found.get("role"), str):
        found["role"] = found["role"].removeprefix("ROLE_").lower()


def _kind(found: Json) -> None:
    for content, kind in (("text", "text"), ("raw", "file"), ("url", "file"), ("data", "data")):
        if content in found and "parts" not in found and "id" not in found:
            found["kind"] = kind


def _offset(found: Json) -> None:
    if isinstance(found.get("timestamp"), str):
        found["timestamp"] = found["timestamp"].replace("Z", "+00:00")


def _seconds(found: Json) -> None:
    if isinstance(found.get("timestamp"), str) and "." in found["timestamp"]:
        found["timestamp"] = found["timestamp"].partition(".")[0] + "Z"


def _null(found: Json) -> None:
    if "status" in found and "id" in found:
        found["metadata"] = None


def _no_parts(found: Json) -> None:
    if "artifactId" in found:
        found["parts"] = []


def _two_contents(found: Json) -> None:
    if "text" in found and "mediaType" in found:
        found["url"] = "https://example.com/also"


def _same_artifact_id(task: Json) -> None:
    if task.get("artifacts"):
        task["artifacts"] = [*task["artifacts"], task["artifacts"][0]]


def _bare_task(result: Json) -> Json:
    return dict(result["task"]) if "task" in result else result


def _both(result: Json) -> None:
    if "task" in result:
        result["message"] = {
            "messageId": new_id(),
            "contextId": result["task"]["contextId"],
            "role": "ROLE_AGENT",
            "parts": [{"text": "both"}],
        }


def _stale(result: Json) -> None:
    for task in tasks_in(result):
        task.pop("artifacts", None)


def _no_task_id(result: Json) -> None:
    for task in tasks_in(result):
        task.pop("id", None)


def _no_reference(call: FaultyCall, params: Json) -> Json:
    message = params.get("message")
    return {**params, "message": None} if isinstance(message, dict) and message.get("referenceTaskIds") else params


def _completed(params: Json) -> Json:
    message = params.get("message") or {}
    status = {"state": "TASK_STATE_COMPLETED", "timestamp": now()}
    return {"task": {"id": message.get("taskId") or new_id(), "contextId": new_id(), "status": status}}


def _refuse_unknown(call: FaultyCall, params: Json) -> Json:
    message = params.get("message")
    known = {"messageId", "contextId", "taskId", "role", "parts", "metadata", "extensions", "referenceTaskIds"}
    if isinstance(message, dict) and (
        set(message) - known or set(params) - {"tenant", "message", "configuration", "metadata"}
    ):
        return {**params, "message": None}
    return params


def _refuse_data(wanted: type) -> Any:
    """Return a request hook for a server that cannot read some kind of JSON in a data part."""

    def hook(call: FaultyCall, params: Json) -> Json:
        parts = (params.get("message") or {}).get("parts") if isinstance(params.get("message"), dict) else None
        if isinstance(parts, list) and any(
            isinstance(p, dict) and "data" in p and type(p["data"]) is wanted for p in parts
        ):
            return {**params, "message": {**params["message"], "parts": []}}
        return params

    return hook


def _corrupt_raw(found: Json) -> None:
    if isinstance(found.get("raw"), str):
        found["raw"] = found["raw"].rstrip("=")[:-3] + "!"


def _no_extensions_member(found: Json) -> None:
    if "messageId" in found and found.get("role") == "ROLE_AGENT":
        found["extensions"] = ["https://example.com/undeclared/v1"]
    if "artifactId" in found:
        found["extensions"] = ["https://example.com/undeclared/v1"]


def _unfollowable(call: FaultyCall, result: Any) -> Any:
    if call.operation == "GetTask" and result["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"):
        raise failure("TaskNotFound", f"there is no task {result['id']!r}")
    return result


def _large(call: FaultyCall, params: Json) -> Json:
    message = params.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    if text_of(parts if isinstance(parts, list) else [])[1_000_000:]:
        raise failure("Internal")
    return params


def _sent(
    name: str, says: str, breaks: str, change: Callable[[Json], Any], *, bindings: tuple[str, ...] = ALL
) -> Fault:
    """Return a fault of what SendMessage gives."""
    return Fault(name, says, (breaks,), bindings=bindings, reply=only("SendMessage", change))


def _read(name: str, says: str, breaks: str, hook: RequestHook, *, bindings: tuple[str, ...] = ALL) -> Fault:
    """Return a fault of how a request is read."""
    return Fault(name, says, tuple(breaks.split()), bindings=bindings, request=hook)


SEND_FAULTS = (
    _sent("send-bare-task", "The result is a bare Task, as in 0.3.", "SEND-001", _bare_task, bindings=HTTP),
    _sent("send-both", "The result has a task and a message.", "SEND-001", _both, bindings=HTTP),
    switch("never-block", "A blocking call returns before the work is done.", "SEND-002"),
    _sent("send-stale", "A blocking result lacks the artifacts.", "SEND-003", _stale),
    switch("always-block", "returnImmediately is ignored.", "SEND-004"),
    switch("continue-terminal", "A task that has ended takes another message.", "SEND-007"),
    Fault(
        "send-any-task",
        "A message to an unknown task starts a new one.",
        ("SEND-008",),
        error=answering("TaskNotFound", "SendMessage", _completed),
    ),
    switch("any-media", "Unsupported media types are accepted.", "SEND-009"),
    _read(
        "send-history-zero",
        "historyLength 0 gives all the history.",
        "SEND-010",
        configured("historyLength", when=lambda asked: asked.get("historyLength") == 0),
    ),
    _read(
        "send-history",
        "historyLength is ignored when sending.",
        "SEND-010 SEND-011",
        configured("historyLength", when=lambda asked: (asked.get("historyLength") or 0) >= 0),
    ),
    _read("send-output-modes", "acceptedOutputModes is ignored.", "SEND-012", configured("acceptedOutputModes")),
    Fault(
        "message-no-context",
        "An agent's message has no contextId.",
        ("SEND-013",),
        reply=each_object(_set_in_message("contextId", None)),
    ),
    _wire(
        "message-user-role",
        "The agent speaks with ROLE_USER.",
        ("SEND-014",),
        _set_in_message("role", "ROLE_USER"),
        bindings=("JSONRPC", "HTTP+JSON", "GRPC"),
    ),
    _read("send-strict", "Unknown members of a request are refused.", "SEND-015", _refuse_unknown, bindings=HTTP),
    _waive("no-message", "A request without a message is accepted.", "VAL-001"),
    _waive("no-message-id", "A message without messageId is accepted.", "VAL-002"),
    _waive("no-role", "A message without a role is accepted.", "VAL-003"),
    _waive("no-parts", "A message without parts is accepted.", "VAL-004"),
    _waive("empty-parts", "An empty list of parts is accepted.", "VAL-005"),
    _waive("empty-part", "A part without content is accepted.", "VAL-006"),
    _waive("two-contents", "A part with two contents is accepted.", "VAL-007"),
    _waive("parts-type", "parts may be a string.", "VAL-008"),
    _waive("role-name", "An unknown role is accepted.", "VAL-009"),
    _waive("base64", "raw may be no base64.", "VAL-010"),
    Fault(
        "accept-history-length",
        "A negative historyLength is accepted.",
        ("VAL-011", "GET-005"),
        waive=frozenset({"history-length"}),
    ),
    _read("data-no-object", "A data part cannot be an object.", "PART-001", _refuse_data(dict)),
    _read(
        "data-no-number",
        "A data part cannot be a number.",
        "PART-004",
        lambda call, params: _refuse_data(float)(call, _refuse_data(int)(call, params)),
    ),
    Fault("early-unfollowable", "A task that was returned early cannot be got.", ("SEND-005",), reply=_unfollowable),
    switch("early-message-task", "returnImmediately makes a task of a message.", "SEND-006"),
    switch("repeats-crash", "A repeated messageId is an internal error.", "SEND-016"),
    switch("crash-raises", "A crash of the agent is the web server's own 500.", "ERR-016"),
    _read("large-500", "A large request is an internal error.", "ERR-018", _large),
    _read("data-no-array", "A data part cannot be an array.", "PART-002", _refuse_data(list)),
    _read("data-no-string", "A data part cannot be a string.", "PART-003", _refuse_data(str)),
    _read("data-no-boolean", "A data part cannot be a boolean.", "PART-005", _refuse_data(bool)),
    _read("data-no-null", "A data part cannot be null.", "PART-006", _refuse_data(type(None))),
    _wire("raw-damaged", "raw is no base64.", ("PART-007",), _corrupt_raw),
    _wire(
        "part-mime-type", "mediaType is called mimeType, as in 0.3.", ("PART-008",), _rename("mediaType", "mimeType")
    ),
    _wire("part-kind", "Parts have a kind, as in 0.3.", ("PART-009", "DM-012"), _kind),
    _wire("part-two-contents", "A part has two contents.", ("PART-009",), _two_contents),
    _sent("task-no-id", "A task has no id.", "DM-001", _no_task_id, bindings=HTTP),
    Fault("task-no-status", "A task has no status.", ("DM-001",), reply=only("GetTask", without("status"))),
    _wire("state-lower-case", "States are in lower case, as in 0.3.", ("DM-002", "DM-009"), _lower_state),
    _wire("message-no-id", "Agent messages have no messageId.", ("DM-003",), _set_in_message("messageId", None)),
    _wire("role-lower-case", "Roles are in lower case, as in 0.3.", ("DM-004", "DM-009"), _lower_role),
    _wire("artifact-no-id", "Artifacts have no artifactId.", ("DM-005",), without("artifactId")),
    _wire("artifact-no-parts", "Artifacts have no parts.", ("DM-005",), _no_parts),
    Fault("artifact-id-twice", "Two artifacts have the same id.", ("DM-006",), reply=each_task(_same_artifact_id)),
    Fault(
        "status-no-state",
        "A status has no state.",
        ("DM-007",),
        bindings=HTTP,
        reply=each_task(lambda task: task["status"].pop("state", None)),
    ),
    _wire("snake-case", "contextId is called context_id.", ("DM-008",), _rename("contextId", "context_id")),
    _wire("timestamp-offset", "Timestamps have an offset in place of Z.", ("DM-010",), _offset),
    _wire("timestamp-seconds", "Timestamps have no milliseconds.", ("DM-011",), _seconds),
    _wire("null-members", "Unset members are null.", ("DM-013",), _null),
    Fault("task-no-context", "A task has no contextId.", ("MT-001",), reply=each_task(without("contextId"))),
    switch("new-context", "A client's contextId is silently replaced.", "MT-002", "MT-007"),
    switch("task-id-of-context", "Every task of a context has the same id.", "MT-003"),
    switch("any-context", "A contextId that is not the task's is accepted.", "MT-005"),
    _read("no-references", "referenceTaskIds are refused.", "MT-008", _no_reference),
    switch("auth-silent", "AUTH_REQUIRED comes without an explanation.", "MT-009"),
    _wire(
        "undeclared-extension",
        "Messages and artifacts use an undeclared extension.",
        ("EXT-006",),
        _no_extensions_member,
    ),
    switch("crash-leaks", "A crash shows its stack trace.", "ERR-017"),
)
