"""Faults of 0.3 that no fault of 1.0 is like: its spelling and its JSON-RPC."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from faulty.fault import (
    GRPC,
    HTTP,
    REST,
    Fault,
    FaultyCall,
    Json,
    delivery_headers,
    dropped,
    each_object,
    error_as,
    having,
    headers,
    lacking,
)
from faulty.problems import failure


def _each(change: Callable[[Json], Any]) -> Fault:
    """Return a fault of every object of a result or event, which the change alters in place."""
    return Fault(spelling=each_object(change))


def _with(member: str, change: Callable[[Json], Any]) -> Fault:
    """Return the like for the objects with a member."""
    return _each(having(member, then=change))


def _state(old: str, new: str) -> Fault:
    return _with("state", lambda found: found.update(state=str(found["state"]).replace(old, new)))


def _role(found: Json) -> None:
    found["role"] = f"ROLE_{found['role'].upper()}" if found["role"] in ("user", "agent") else found["role"].lower()


def _bytes_and_uri(found: Json) -> None:
    file = found["file"]
    proto = "fileWithBytes" in file or "fileWithUri" in file
    file.setdefault("fileWithBytes" if proto else "bytes", "eA==")
    file.setdefault("fileWithUri" if proto else "uri", "https://example.com/x")


def _wrap(call: FaultyCall, result: Any) -> Any:
    if call.operation != "SendMessage":
        return result
    return {"task": result} if call.binding == "JSONRPC" else next(iter(result.values()))


def _bare_event(call: FaultyCall, envelope: Json) -> Json:
    is_event = call.operation in ("SendStreamingMessage", "SubscribeToTask") and "result" in envelope
    return envelope["result"] if is_event else envelope


def _config(change: Callable[[Json], Any]) -> Fault:
    def hook(call: FaultyCall, result: Any) -> Any:
        if "PushNotificationConfig" in call.operation and isinstance(result, dict):
            change(result)
        return result

    return Fault(spelling=hook)


_BROKEN = Fault(error=lambda _, found: failure("Internal").problem if found.kind == "TaskNotFound" else found)

OLD_FAULTS: dict[str, Fault] = {
    "old-no-resubscribe": lacking("SubscribeToTask"),
    "old-no-cancel": lacking("CancelTask"),
    "old-no-get": lacking("GetTask"),
    "old-text-answers": Fault(packet=headers(content_type="text/plain")),
    "old-other-id": Fault(envelope=lambda call, envelope: {**envelope, "id": "other"}),
    "old-jsonrpc-1.0": Fault(envelope=lambda call, envelope: {**envelope, "jsonrpc": "1.0"}),
    "old-method-code": error_as("MethodNotFound", code=-32000),
    "old-params-code": error_as("InvalidParams", code=-32000),
    "old-parse-code": error_as("JSONParse", code=-32603),
    "old-task-code": error_as("TaskNotFound", code=-32000),
    "old-cancelable-code": error_as("TaskNotCancelable", code=-32000),
    "old-no-kind": _with("kind", lambda found: found.pop("kind") if "status" in found else None),
    "old-parts-no-kind": _with("text", lambda found: found.pop("kind", None)),
    "old-states-of-1.0": _with("state", lambda found: found.update(state=f"TASK_STATE_{found['state'].upper()}")),
    "old-completed": _state("ompleted", "omplete"),
    "old-states-in-capitals": _state("COMPLETED", "DONE"),
    "old-roles": _with("role", _role),
    "old-task-no-context": _with("status", lambda found: found.pop("contextId", None) if "id" in found else None),
    "old-task-no-id": _with("status", lambda found: found.pop("id", None)),
    "old-update-no-context": _with("artifact", lambda found: found.pop("contextId", None)),
    "old-timestamps": _with("timestamp", lambda found: found.update(timestamp=1_767_225_600)),
    "old-file-both": _with("file", _bytes_and_uri),
    "old-file-empty": _with(
        "file", lambda found: found.update(file=dropped(found["file"], "bytes", "uri", "fileWithBytes", "fileWithUri"))
    ),
    "old-data-list": _with("data", lambda found: found.update(data=[found["data"]])),
    "old-snake-case": _with("artifactId", lambda found: found.update(artifact_id=found.pop("artifactId"))),
    "old-wrapped": Fault(spelling=_wrap),
    "old-bare-events": Fault(envelope=_bare_event),
    "old-never-final": _with("final", lambda found: found.update(final=False)),
    "old-always-final": _with("final", lambda found: found.update(final=True)),
    "old-config-no-task": _config(lambda found: found.pop("taskId", None)),
    "old-config-no-url": _config(lambda found: found.get("pushNotificationConfig", {}).pop("url", None)),
    "old-config-bare": replace(_config(lambda found: found.update(found.pop("pushNotificationConfig"))), bindings=HTTP),
    "old-push-no-token": Fault(delivery=delivery_headers(x_a2a_notification_token=None)),
    "old-push-wrapped": Fault(delivery=lambda packet: packet._replace(body=b'{"task": ' + packet.body + b"}")),
    "old-rest-flat": Fault(spelling=_wrap),
    "old-grpc-broken": replace(_BROKEN, bindings=GRPC),
    "old-rest-broken": replace(_BROKEN, bindings=REST),
}
