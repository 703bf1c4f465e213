"""Faults of sending messages, of validation, of parts and of the data model on the wire."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from faulty.behaviour import text_of
from faulty.fault import (
    Fault,
    FaultyCall,
    Json,
    answering,
    configured,
    dropped,
    each_event,
    each_object,
    each_task,
    only,
    tasks_in,
    without,
)
from faulty.problems import failure
from faulty.store import new_id, now


def _wire(change: Any) -> Fault:
    """Return a fault that shows in results and streams alike."""
    hook = each_object(change)
    nowhere = FaultyCall("", "", {})
    return Fault(reply=hook, event=each_event(lambda event: hook(nowhere, event)))


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


def _misspelt_state(found: Json) -> None:
    if isinstance(found.get("state"), str):
        # As in British English, and as in the names of the verbs.
        state = found["state"]
        found["state"] = "TASK_STATE_CANCELLED" if state.endswith("CANCELED") else state.removesuffix("D")


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


def _no_nulls(call: FaultyCall, params: Json) -> Json:
    """Read data as a server that takes null for what was not given."""
    message = params.get("message")
    if isinstance(message, dict) and isinstance(message.get("parts"), list):
        message["parts"] = [
            {**part, "data": dropped(part["data"], *(n for n, v in part["data"].items() if v is None))}
            if isinstance(part, dict) and isinstance(part.get("data"), dict)
            else part
            for part in message["parts"]
        ]
    return params


def _other(name: str) -> str:
    """Return an id that is always the same for an id, and another."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


def _other_task(found: Json) -> None:
    message = found.get("message") if "state" in found else None
    if isinstance(message, dict):
        message["taskId"] = _other(message["taskId"])


def _other_context(found: Json) -> None:
    for message in found.get("history") or ():
        message["contextId"] = _other(message["contextId"])


def _local_time(found: Json) -> None:
    if isinstance(found.get("timestamp"), str):
        moment = datetime.fromisoformat(found["timestamp"]) + timedelta(hours=2)
        found["timestamp"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _no_artifacts_without_history(call: FaultyCall, result: Json) -> Json:
    if (call.params.get("configuration") or call.params).get("historyLength") == 0:
        _stale(result)
    return result


def _early_without_context(call: FaultyCall, result: Any) -> Any:
    if (call.params.get("configuration") or {}).get("returnImmediately"):
        for task in tasks_in(result):
            task.pop("contextId", None)
    return result


def _early_in_new_context(call: FaultyCall, params: Json) -> Json:
    message = params.get("message")
    if not isinstance(message, dict) or message.get("taskId"):
        return params
    is_early = (params.get("configuration") or {}).get("returnImmediately")
    return {**params, "message": dropped(message, "contextId")} if is_early else params


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


def _sent(change: Callable[[Json], Any]) -> Fault:
    """Return a fault of what SendMessage gives."""
    return Fault(reply=only("SendMessage", change))


def _repeated(task: Json) -> None:
    if task.get("artifacts"):
        task["artifacts"] = [*task["artifacts"], {**task["artifacts"][0], "artifactId": "again"}]


SEND_FAULTS: dict[str, Fault] = {
    "send-bare-task": _sent(_bare_task),
    "send-both": _sent(_both),
    "send-stale": _sent(_stale),
    "send-any-task": Fault(error=answering("TaskNotFound", "SendMessage", _completed)),
    "send-history-zero": Fault(request=configured("historyLength", when=lambda asked: asked.get("historyLength") == 0)),
    "send-history": Fault(
        request=configured("historyLength", when=lambda asked: (asked.get("historyLength") or 0) >= 0)
    ),
    "send-output-modes": Fault(request=configured("acceptedOutputModes")),
    "message-no-context": _wire(_set_in_message("contextId", None)),
    "message-user-role": _wire(_set_in_message("role", "ROLE_USER")),
    "send-strict": Fault(request=_refuse_unknown),
    "data-no-object": Fault(request=_refuse_data(dict)),
    "data-no-number": Fault(request=lambda call, params: _refuse_data(float)(call, _refuse_data(int)(call, params))),
    "early-unfollowable": Fault(reply=_unfollowable),
    "large-500": Fault(request=_large),
    "data-no-array": Fault(request=_refuse_data(list)),
    "data-no-string": Fault(request=_refuse_data(str)),
    "data-no-boolean": Fault(request=_refuse_data(bool)),
    "early-no-context": Fault(reply=_early_without_context),
    "early-new-context": Fault(request=_early_in_new_context),
    "message-id-again": _wire(_set_in_message("messageId", "1")),
    "data-drops-null": Fault(request=_no_nulls),
    "message-other-task": _wire(_other_task),
    "history-other-context": _wire(_other_context),
    "timestamp-local": _wire(_local_time),
    "no-history-no-artifacts": Fault(reply=_no_artifacts_without_history),
    "push-not-at-once": Fault(
        request=configured("taskPushNotificationConfig", when=lambda asked: bool(asked.get("returnImmediately")))
    ),
    "data-no-null": Fault(request=_refuse_data(type(None))),
    "raw-damaged": _wire(_corrupt_raw),
    "part-mime-type": _wire(_rename("mediaType", "mimeType")),
    "part-kind": _wire(_kind),
    "part-two-contents": _wire(_two_contents),
    "task-no-id": _sent(_no_task_id),
    "task-no-status": Fault(reply=only("GetTask", without("status"))),
    "state-misspelt": _wire(_misspelt_state),
    "state-lower-case": _wire(_lower_state),
    "message-no-id": _wire(_set_in_message("messageId", None)),
    "role-lower-case": _wire(_lower_role),
    "artifact-repeated": Fault(reply=each_task(_repeated)),
    "artifact-no-id": _wire(without("artifactId")),
    "artifact-no-parts": _wire(_no_parts),
    "artifact-id-twice": Fault(reply=each_task(_same_artifact_id)),
    "status-no-state": Fault(reply=each_task(lambda task: task["status"].pop("state", None))),
    "snake-case": _wire(_rename("contextId", "context_id")),
    "timestamp-offset": _wire(_offset),
    "timestamp-seconds": _wire(_seconds),
    "null-members": _wire(_null),
    "task-no-context": Fault(reply=each_task(without("contextId"))),
    "no-references": Fault(request=_no_reference),
    "undeclared-extension": _wire(_no_extensions_member),
}
