"""Faults of getting, listing, cancelling and continuing tasks, and of push notifications about them."""

from __future__ import annotations

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
    ignoring,
    only,
    without,
)
from faulty.problems import OperationError, Problem, parse_time
from faulty.store import TERMINAL_STATES, new_id, now, page

_STATES = tuple(
    f"TASK_STATE_{state}"
    for state in (
        *("UNSPECIFIED", "SUBMITTED", "WORKING", "COMPLETED", "FAILED", "CANCELED"),
        *("INPUT_REQUIRED", "REJECTED", "AUTH_REQUIRED"),
    )
)


def _get(change: Callable[[Json], Any]) -> Fault:
    """Return a fault of what GetTask gives."""
    return Fault(reply=only("GetTask", change))


def _list(change: Callable[[Json], Json]) -> Fault:
    """Return a fault of how the parameters of ListTasks are read."""
    return Fault(request=asking("ListTasks", change))


def _deaf(*ignored: str) -> Fault:
    """Return a fault that consists of not reading parameters of ListTasks."""
    return Fault(request=ignoring("ListTasks", *ignored))


def _listed(change: Callable[[Json], Any]) -> Fault:
    """Return a fault of what ListTasks gives."""
    return Fault(reply=only("ListTasks", change))


def _no_id(operation: str) -> Fault:
    """Return a fault of an operation that breaks without an id."""

    def hook(call: FaultyCall, problem: Problem) -> Problem:
        missing = problem.kind == "InvalidParams" and problem.message.startswith("id:") and call.operation == operation
        return Problem("Internal", -32603, 500, "INTERNAL", "Internal error") if missing else problem

    return Fault(error=hook)


def _keep_valid_status(params: Json) -> Json:
    return (
        dropped(params, "status")
        if isinstance(status := params.get("status"), str) and status not in _STATES
        else params
    )


def _keep_valid_size(params: Json) -> Json:
    size = params.get("pageSize")
    return dropped(params, "pageSize") if isinstance(size, int) and not 1 <= size <= 100 else params


def _drop_bad_token(params: Json) -> Json:
    if params.get("pageToken"):
        try:
            page([], params)
        except OperationError:
            return dropped(params, "pageToken")
    return params


def _one_more(params: Json) -> Json:
    size = params.get("pageSize")
    return {**params, "pageSize": size + 1} if isinstance(size, int) and 1 <= size < 100 else params


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
        result["history"] = [
            {**message, "messageId": "older", "parts": [{"text": "older"}]} for message in result["history"]
        ]
    return result


def _changing(result: Json) -> None:
    result["status"] = {**result["status"], "timestamp": now()}


def _no_query(result: Json) -> None:
    if isinstance(result.get("url"), str):
        result["url"] = result["url"].partition("?")[0]


def _after_first(*ignored: str) -> Fault:
    """Return a fault of a server that forgets parameters of ListTasks after the first page."""
    return _list(lambda params: dropped(params, *ignored) if params.get("pageToken") else params)


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


def _as_before(task: Json) -> None:
    task["status"] = {**task["status"], "state": "TASK_STATE_WORKING"}


def _page_total(result: Json) -> None:
    result["totalSize"] = len(result["tasks"])


def _no_token_at_end(result: Json) -> None:
    if not result["nextPageToken"]:
        del result["nextPageToken"]


def _token_at_end(result: Json) -> None:
    if not result["nextPageToken"]:
        result["nextPageToken"] = "YmVmb3JlOjA="


TASK_FAULTS: dict[str, Fault] = {
    "get-wrapped": _get(lambda task: {"task": task}),
    "get-unknown": Fault(error=answering("TaskNotFound", "GetTask", _blank)),
    "get-history": Fault(request=ignoring("GetTask", "historyLength")),
    "get-old-history": Fault(reply=_oldest_history),
    "get-no-id": _no_id("GetTask"),
    "get-changes": _get(_changing),
    "list-no-token": _listed(_no_token_at_end),
    "list-token-at-end": _listed(_token_at_end),
    "list-no-total": _listed(without("totalSize")),
    "list-no-page-size": _listed(without("pageSize")),
    "list-artifacts": _list(lambda params: {**params, "includeArtifacts": True}),
    "list-no-artifacts": _list(lambda params: {**params, "includeArtifacts": False}),
    "list-no-cursor": _deaf("pageToken"),
    "list-big-page": _list(lambda params: {"pageSize": 100, **params}),
    "list-one-more": _list(_one_more),
    "list-any-size": _list(_keep_valid_size),
    "list-no-context-filter": _deaf("contextId"),
    "list-no-status-filter": _deaf("status"),
    "list-no-time-filter": _deaf("statusTimestampAfter"),
    "list-exclusive-time": _list(_shifted),
    "list-any-status": _list(_keep_valid_status),
    "list-any-token": _list(_drop_bad_token),
    "list-no-history-length": _deaf("historyLength"),
    "list-later-total": Fault(reply=_later_total),
    "list-later-artifacts": _after_first("includeArtifacts"),
    "list-later-filter": _after_first("contextId", "status"),
    "list-page-total": _listed(_page_total),
    "cancel-terminal": Fault(error=answering("TaskNotCancelable", "CancelTask", _blank)),
    "cancel-old-state": Fault(reply=only("CancelTask", _as_before)),
    "cancel-unknown": Fault(error=answering("TaskNotFound", "CancelTask", _blank)),
    "cancel-no-id": _no_id("CancelTask"),
    "get-not-found-code": Fault(
        error=error_as("TaskNotFound", code=-32602, http=400, grpc="INVALID_ARGUMENT", kind="InvalidParams")
    ),
}


# -- push notifications --


_CREATE = "CreateTaskPushNotificationConfig"
_GET = "GetTaskPushNotificationConfig"
_LIST = "ListTaskPushNotificationConfigs"


def _bare(event: Json) -> Json:
    return dict(next(iter(event.values())))


def _no_final(packet: Packet) -> Packet | None:
    event = json.loads(packet.body)
    state = event.get("statusUpdate", {}).get("status", {}).get("state")
    return None if state in TERMINAL_STATES else packet


def _lower_only(packet: Packet) -> Packet:
    scheme, _, rest = packet.headers.get("authorization", "").partition(" ")
    return delivery_headers(authorization=f"Basic {rest}")(packet) if scheme == "bearer" else packet


def _always_bearer(packet: Packet) -> Packet:
    _, _, rest = packet.headers.get("authorization", "").partition(" ")
    return delivery_headers(authorization=f"Bearer {rest}")(packet) if rest else packet


PUSH_FAULTS: dict[str, Fault] = {
    "push-artifact-no-context": Fault(delivery=_no_context_of_artifacts),
    "push-url-no-query": Fault(reply=only((_CREATE, _GET), _no_query)),
    "push-no-id": Fault(reply=only(_CREATE, without("id"))),
    "push-no-task-id": Fault(reply=only(_CREATE, without("taskId"))),
    "push-other-url": Fault(reply=only(_GET, lambda r: {**r, "url": "http://127.0.0.1:9/other"})),
    "push-get-unknown": Fault(
        error=answering(
            "TaskNotFound",
            _GET,
            lambda p: {"id": p.get("id", "x"), "taskId": p.get("taskId", "x"), "url": "http://127.0.0.1:9/"},
        )
    ),
    "push-list-first": Fault(reply=only(_LIST, lambda result: {**result, "configs": result["configs"][:1]})),
    "push-undeclared-code": Fault(
        error=error_as(
            "PushNotificationNotSupported",
            kind="UnsupportedOperation",
            code=-32004,
            http=501,
            grpc="UNIMPLEMENTED",
            details=(),
        )
    ),
    "push-unknown-task": Fault(error=answering("TaskNotFound", _CREATE, lambda p: {"id": "x", **p})),
    "push-nothing": Fault(delivery=lambda packet: None),
    "push-bare": Fault(delivery=body(_bare)),
    "push-content-type": Fault(delivery=delivery_headers(content_type="application/json")),
    "push-always-bearer": Fault(delivery=_always_bearer),
    "push-no-auth": Fault(delivery=delivery_headers(authorization=None)),
    "push-not-at-send": Fault(request=configured("taskPushNotificationConfig")),
    "push-no-final": Fault(delivery=_no_final),
    "push-scheme-case": Fault(delivery=_lower_only),
}
