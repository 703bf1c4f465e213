"""Faults of getting, listing, cancelling and continuing tasks, and of push notifications about them."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from faulty.fault import (
    Fault,
    FaultyCall,
    Json,
    Packet,
    answering,
    asking,
    body,
    configured,
    delivery_headers,
    dropped,
    error_as,
    having,
    ignoring,
    only,
    without,
)
from faulty.problems import STATES, OperationError, Problem, parse_time
from faulty.store import TERMINAL_STATES, new_id, now, page

_STATES = ("TASK_STATE_UNSPECIFIED", *STATES)


def _no_id(operation: str) -> Fault:
    """Return a fault of an operation that breaks without an id."""

    def hook(call: FaultyCall, problem: Problem) -> Problem:
        missing = problem.kind == "InvalidParams" and problem.message.startswith("id:") and call.operation == operation
        return Problem("Internal", -32603, 500, "INTERNAL", "Internal error") if missing else problem

    return Fault(error=hook)


def _sized(when: Callable[[int], bool], change: Callable[[Json], Json]) -> Fault:
    """Return a fault of how some sizes of pages are read."""
    return asking("ListTasks", lambda p: change(p) if isinstance(p.get("pageSize"), int) and when(p["pageSize"]) else p)


def _drop_bad_token(params: Json) -> Json:
    if params.get("pageToken"):
        try:
            page([], params)
        except OperationError:
            return dropped(params, "pageToken")
    return params


def _shifted(params: Json) -> Json:
    """Filter later than asked, so that a task's own timestamp leaves it out."""
    after = params.get("statusTimestampAfter")
    if not isinstance(after, str) or not after.endswith("Z"):
        return params
    found = parse_time(after)
    later = (found + timedelta(milliseconds=1)).isoformat() if found else after
    return {**params, "statusTimestampAfter": later}


def _blank(params: Json) -> Json:
    status = {"state": "TASK_STATE_COMPLETED", "timestamp": now()}
    return {"id": params.get("id") or new_id(), "contextId": new_id(), "status": status}


def _oldest_history(call: FaultyCall, result: Any) -> Any:
    asked = call.params.get("historyLength")
    if call.operation == "GetTask" and asked and result.get("history"):
        # What history there is has been cut to the most recent already; an older message stands in for it.
        older = {"messageId": "older", "parts": [{"text": "older"}]}
        result["history"] = [message | older for message in result["history"]]
    return result


def _after_first(*ignored: str) -> Fault:
    """Return a fault of a server that forgets parameters of ListTasks after the first page."""
    return asking("ListTasks", lambda params: dropped(params, *ignored) if params.get("pageToken") else params)


def _later_total(call: FaultyCall, result: Any) -> Any:
    is_later = call.operation == "ListTasks" and call.params.get("pageToken")
    return {**result, "totalSize": len(result["tasks"])} if is_later else result


def _no_context_of_artifacts(packet: Packet) -> Packet:
    return body(
        lambda event: (
            dropped(event, "artifactUpdate") | {"artifactUpdate": dropped(event["artifactUpdate"], "contextId")}
            if "artifactUpdate" in event
            else None
        )
    )(packet)


TASK_FAULTS: dict[str, Fault] = {
    "get-wrapped": only("GetTask", lambda task: {"task": task}),
    "get-unknown": answering("TaskNotFound", "GetTask", _blank),
    "get-history": ignoring("GetTask", "historyLength"),
    "get-old-history": Fault(reply=_oldest_history),
    "get-no-id": _no_id("GetTask"),
    "get-changes": only("GetTask", lambda task: task["status"].update(timestamp=now())),
    "list-no-token": only("ListTasks", lambda page: page if page["nextPageToken"] else dropped(page, "nextPageToken")),
    "list-token-at-end": only(
        "ListTasks", lambda page: {**page, "nextPageToken": page["nextPageToken"] or "YmVmb3JlOjA="}
    ),
    "list-no-total": only("ListTasks", without("totalSize")),
    "list-no-page-size": only("ListTasks", without("pageSize")),
    "list-artifacts": asking("ListTasks", lambda params: {**params, "includeArtifacts": True}),
    "list-no-artifacts": asking("ListTasks", lambda params: {**params, "includeArtifacts": False}),
    "list-no-cursor": ignoring("ListTasks", "pageToken"),
    "list-big-page": asking("ListTasks", lambda params: {"pageSize": 100, **params}),
    "list-one-more": _sized(
        lambda size: 1 <= size < 100, lambda params: {**params, "pageSize": params["pageSize"] + 1}
    ),
    "list-any-size": _sized(lambda size: not 1 <= size <= 100, lambda params: dropped(params, "pageSize")),
    "list-no-context-filter": ignoring("ListTasks", "contextId"),
    "list-no-status-filter": ignoring("ListTasks", "status"),
    "list-no-time-filter": ignoring("ListTasks", "statusTimestampAfter"),
    "list-exclusive-time": asking("ListTasks", _shifted),
    "list-any-status": asking(
        "ListTasks",
        lambda p: dropped(p, "status") if isinstance(p.get("status"), str) and p["status"] not in _STATES else p,
    ),
    "list-any-token": asking("ListTasks", _drop_bad_token),
    "list-no-history-length": ignoring("ListTasks", "historyLength"),
    "list-later-total": Fault(reply=_later_total),
    "list-later-artifacts": _after_first("includeArtifacts"),
    "list-later-filter": _after_first("contextId", "status"),
    "list-page-total": only("ListTasks", lambda page: page.update(totalSize=len(page["tasks"]))),
    "cancel-terminal": answering("TaskNotCancelable", "CancelTask", _blank),
    "cancel-old-state": only("CancelTask", lambda task: task["status"].update(state="TASK_STATE_WORKING")),
    "cancel-unknown": answering("TaskNotFound", "CancelTask", _blank),
    "cancel-no-id": _no_id("CancelTask"),
    "get-not-found-code": error_as(
        "TaskNotFound", code=-32602, http=400, grpc="INVALID_ARGUMENT", kind="InvalidParams"
    ),
}


# -- push notifications --


_CREATE = "CreateTaskPushNotificationConfig"
_GET = "GetTaskPushNotificationConfig"
_LIST = "ListTaskPushNotificationConfigs"


def _bearer_as(scheme: str, when: Callable[[str], bool] = lambda sent: True) -> Fault:
    """Return a fault of a server that names another authentication scheme than it was told."""

    def hook(packet: Packet) -> Packet:
        sent, _, rest = packet.headers.get("authorization", "").partition(" ")
        return delivery_headers(authorization=f"{scheme} {rest}")(packet) if rest and when(sent) else packet

    return Fault(delivery=hook)


def _no_final(packet: Packet) -> Packet | None:
    update = json.loads(packet.body).get("statusUpdate", {})
    return None if update.get("status", {}).get("state") in TERMINAL_STATES else packet


PUSH_FAULTS: dict[str, Fault] = {
    "push-artifact-no-context": Fault(delivery=_no_context_of_artifacts),
    "push-url-no-query": only(
        (_CREATE, _GET), having("url", then=lambda found: found.update(url=found["url"].partition("?")[0]))
    ),
    "push-no-id": only(_CREATE, without("id")),
    "push-no-task-id": only(_CREATE, without("taskId")),
    "push-other-url": only(_GET, lambda r: {**r, "url": "http://127.0.0.1:9/other"}),
    "push-get-unknown": answering(
        "TaskNotFound",
        _GET,
        lambda p: {"id": p.get("id", "x"), "taskId": p.get("taskId", "x"), "url": "http://127.0.0.1:9/"},
    ),
    "push-list-first": only(_LIST, lambda result: {**result, "configs": result["configs"][:1]}),
    "push-undeclared-code": error_as(
        "PushNotificationNotSupported",
        kind="UnsupportedOperation",
        code=-32004,
        http=501,
        grpc="UNIMPLEMENTED",
        details=(),
    ),
    "push-unknown-task": answering("TaskNotFound", _CREATE, lambda p: {"id": "x", **p}),
    "push-nothing": Fault(delivery=lambda packet: None),
    "push-bare": Fault(delivery=body(lambda event: next(iter(event.values())))),
    "push-content-type": Fault(delivery=delivery_headers(content_type="application/json")),
    "push-always-bearer": _bearer_as("Bearer"),
    "push-no-auth": Fault(delivery=delivery_headers(authorization=None)),
    "push-not-at-send": configured("taskPushNotificationConfig"),
    "push-no-final": Fault(delivery=_no_final),
    "push-scheme-case": _bearer_as("Basic", lambda sent: sent == "bearer"),
}
