"""Faults of sending messages, of validation, of parts and of the data model on the wire."""

import re
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
    having,
    only,
    tasks_in,
    without,
)
from faulty.problems import failure
from faulty.store import new_id, now

NOWHERE = FaultyCall("", "", {})


def _wire(change: Any) -> Fault:
    """Return a fault that shows in results and streams alike."""
    hook = each_object(change)
    return Fault(reply=hook, event=each_event(lambda event: hook(NOWHERE, event)))


def _of_agent(**members: str | None) -> Any:
    """Return a change of the agent's messages: other members, or none for None."""

    def change(found: Json) -> None:
        if "messageId" in found and found.get("role") == "ROLE_AGENT":
            found.update(members)
            for name in [name for name, value in members.items() if value is None]:
                del found[name]

    return change


def _text(member: str, change: Callable[[str], str]) -> Any:
    """Return a change of a member that is a text."""
    return having(member, then=lambda found: found.update({member: change(found[member])}))


def _renamed(old: str, new: str) -> Any:
    return having(old, then=lambda found: found.update({new: found.pop(old)}))


def _misspelt(state: str) -> str:
    # As in British English, and as in the names of the verbs.
    return "TASK_STATE_CANCELLED" if state.endswith("CANCELED") else state.removesuffix("D")


def _later(timestamp: str) -> str:
    moment = datetime.fromisoformat(timestamp) + timedelta(hours=2)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _with_again(**members: str) -> Any:
    """Return a change of tasks that have their first artifact twice."""
    return having("artifacts", then=lambda task: task["artifacts"].append({**task["artifacts"][0], **members}))


def _kind(found: Json) -> None:
    for content, kind in (("text", "text"), ("raw", "file"), ("url", "file"), ("data", "data")):
        if content in found and "parts" not in found and "id" not in found:
            found["kind"] = kind


def _both(result: Json) -> None:
    if "task" in result:
        result["message"] = {
            "messageId": new_id(),
            "contextId": result["task"]["contextId"],
            "role": "ROLE_AGENT",
            "parts": [{"text": "both"}],
        }


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


def _no_artifacts_without_history(call: FaultyCall, result: Json) -> Json:
    if (call.params.get("configuration") or call.params).get("historyLength") == 0:
        each_task(without("artifacts"))(call, result)
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


def _undeclared(found: Json) -> None:
    if "artifactId" in found or ("messageId" in found and found.get("role") == "ROLE_AGENT"):
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


SEND_FAULTS: dict[str, Fault] = {
    "send-bare-task": only("SendMessage", lambda result: result.get("task")),
    "send-both": only("SendMessage", _both),
    "send-stale": only("SendMessage", lambda result: each_task(without("artifacts"))(NOWHERE, result)),
    "send-any-task": answering("TaskNotFound", "SendMessage", _completed),
    "send-history-zero": configured("historyLength", when=lambda asked: asked.get("historyLength") == 0),
    "send-history": configured("historyLength", when=lambda asked: (asked.get("historyLength") or 0) >= 0),
    "send-output-modes": configured("acceptedOutputModes"),
    "message-no-context": _wire(_of_agent(contextId=None)),
    "message-user-role": _wire(_of_agent(role="ROLE_USER")),
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
    "message-id-again": _wire(_of_agent(messageId="1")),
    "data-drops-null": Fault(request=_no_nulls),
    "message-other-task": _wire(
        having("state", "message", then=lambda f: f["message"].update(taskId=_other(f["message"]["taskId"])))
    ),
    "history-other-context": _wire(
        having("history", then=lambda f: [m.update(contextId=_other(m["contextId"])) for m in f["history"]])
    ),
    "timestamp-local": _wire(_text("timestamp", _later)),
    "no-history-no-artifacts": Fault(reply=_no_artifacts_without_history),
    "push-not-at-once": configured(
        "taskPushNotificationConfig", when=lambda asked: bool(asked.get("returnImmediately"))
    ),
    "data-no-null": Fault(request=_refuse_data(type(None))),
    "raw-damaged": _wire(_text("raw", lambda raw: raw.rstrip("=")[:-3] + "!")),
    "part-mime-type": _wire(_renamed("mediaType", "mimeType")),
    "part-kind": _wire(_kind),
    "part-two-contents": _wire(
        having("text", "mediaType", then=lambda found: found.update(url="https://example.com/also"))
    ),
    "task-no-id": only("SendMessage", lambda result: each_task(without("id"))(NOWHERE, result)),
    "task-no-status": only("GetTask", without("status")),
    "state-misspelt": _wire(_text("state", _misspelt)),
    "state-lower-case": _wire(
        _text("state", lambda state: state.removeprefix("TASK_STATE_").lower().replace("_", "-"))
    ),
    "message-no-id": _wire(_of_agent(messageId=None)),
    "role-lower-case": _wire(_text("role", lambda role: role.removeprefix("ROLE_").lower())),
    "artifact-repeated": Fault(reply=each_task(_with_again(artifactId="again"))),
    "artifact-no-id": _wire(without("artifactId")),
    "artifact-no-parts": _wire(having("artifactId", then=lambda found: found.update(parts=[]))),
    "artifact-id-twice": Fault(reply=each_task(_with_again())),
    "status-no-state": Fault(reply=each_task(lambda task: task["status"].pop("state", None))),
    "snake-case": _wire(_renamed("contextId", "context_id")),
    "timestamp-offset": _wire(_text("timestamp", lambda text: text.replace("Z", "+00:00"))),
    "timestamp-seconds": _wire(_text("timestamp", lambda text: re.sub(r"\..*", "Z", text))),
    "null-members": _wire(having("status", "id", then=lambda found: found.update(metadata=None))),
    "task-no-context": Fault(reply=each_task(without("contextId"))),
    "no-references": Fault(request=_no_reference),
    "undeclared-extension": _wire(_undeclared),
}
