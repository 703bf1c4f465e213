"""Faults of getting, listing, cancelling and continuing tasks, and of push notifications about them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from pytest_a2a_bench.agents.faulty.fault import (
    HTTP,
    Fault,
    FaultyCall,
    Json,
    Packet,
    answering,
    body,
    delivery_headers,
    error_as,
    ignoring,
    only,
    switch,
    without,
)
from pytest_a2a_bench.agents.faulty.problems import OperationError, Problem, parse_time
from pytest_a2a_bench.agents.faulty.store import TERMINAL_STATES, new_id, now, page


def _list(name: str, says: str, breaks: tuple[str, ...], *ignored: str) -> Fault:
    return Fault(name, says, breaks, request=ignoring("ListTasks", *ignored))


def _blank(params: Json) -> Json:
    status = {"state": "TASK_STATE_COMPLETED", "timestamp": now()}
    return {"id": params.get("id") or new_id(), "contextId": new_id(), "status": status}


def _wrap(result: Json) -> Json:
    return {"task": result}


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


def _swapped_token(call: FaultyCall, params: Json) -> Json:
    """Forget the cursor, so that every page is the first."""
    return {k: v for k, v in params.items() if k != "pageToken"} if call.operation == "ListTasks" else params


def _keep_valid_status(call: FaultyCall, params: Json) -> Json:
    status = params.get("status")
    bogus = call.operation == "ListTasks" and isinstance(status, str) and not status.startswith("TASK_STATE_")
    known = ("SUBMITTED", "WORKING", "COMPLETED", "FAILED", "CANCELED", "INPUT_REQUIRED", "REJECTED", "AUTH_REQUIRED")
    if bogus or (isinstance(status, str) and status.removeprefix("TASK_STATE_") not in (*known, "UNSPECIFIED")):
        return {k: v for k, v in params.items() if k != "status"}
    return params


def _keep_valid_size(call: FaultyCall, params: Json) -> Json:
    size = params.get("pageSize")
    if call.operation == "ListTasks" and isinstance(size, int) and not 1 <= size <= 100:
        return {k: v for k, v in params.items() if k != "pageSize"}
    return params


def _drop_bad_token(call: FaultyCall, params: Json) -> Json:
    if call.operation == "ListTasks" and params.get("pageToken"):
        try:
            page([], params)
        except OperationError:
            return {k: v for k, v in params.items() if k != "pageToken"}
    return params


def _no_artifacts(call: FaultyCall, params: Json) -> Json:
    return {**params, "includeArtifacts": False} if call.operation == "ListTasks" else params


def _page_total(result: Json) -> None:
    result["totalSize"] = len(result["tasks"])


def _no_token_at_end(result: Json) -> None:
    if not result["nextPageToken"]:
        del result["nextPageToken"]


def _token_at_end(result: Json) -> None:
    if not result["nextPageToken"]:
        result["nextPageToken"] = "YmVmb3JlOjA="


def _one_more(call: FaultyCall, params: Json) -> Json:
    size = params.get("pageSize")
    grow = call.operation == "ListTasks" and isinstance(size, int) and 1 <= size < 100
    return {**params, "pageSize": size + 1} if grow and isinstance(size, int) else params


def _big_default(call: FaultyCall, params: Json) -> Json:
    return {"pageSize": 100, **params} if call.operation == "ListTasks" else params


def _shifted(call: FaultyCall, params: Json) -> Json:
    """Filter later than asked, so that a task's own timestamp leaves it out."""
    after = params.get("statusTimestampAfter")
    if call.operation != "ListTasks" or not isinstance(after, str) or not after.endswith("Z"):
        return params
    found = parse_time(after)
    later = (found + timedelta(milliseconds=1)).isoformat() if found else after
    return {**params, "statusTimestampAfter": later}


def _no_id_is_unknown(call: FaultyCall, problem: Problem) -> Problem:
    missing = problem.kind == "InvalidParams" and problem.message.startswith("id:") and call.operation == "GetTask"
    return Problem("Internal", -32603, 500, "INTERNAL", "Internal error") if missing else problem


def _no_id_cancelled(call: FaultyCall, problem: Problem) -> Problem:
    missing = problem.kind == "InvalidParams" and problem.message.startswith("id:") and call.operation == "CancelTask"
    return Problem("Internal", -32603, 500, "INTERNAL", "Internal error") if missing else problem


TASK_FAULTS = (
    Fault(
        "get-wrapped", "GetTask gives a task in a wrapper.", ("GET-001",), bindings=HTTP, reply=only("GetTask", _wrap)
    ),
    Fault(
        "get-unknown",
        "GetTask makes up unknown tasks.",
        ("GET-002",),
        error=answering("TaskNotFound", "GetTask", _blank),
    ),
    switch("cancel-twice", "A second cancel sets the task to work again.", "CAN-004", by="second-cancel-revives"),
    Fault(
        "get-history",
        "GetTask ignores historyLength.",
        ("GET-003", "GET-004"),
        request=ignoring("GetTask", "historyLength"),
    ),
    Fault(
        "get-old-history",
        "GetTask gives other messages than the most recent ones.",
        ("GET-004",),
        reply=_oldest_history,
    ),
    Fault("get-no-id", "GetTask without an id is an internal error.", ("GET-006",), error=_no_id_is_unknown),
    Fault("get-changes", "GetTask changes the status time.", ("GET-007",), reply=only("GetTask", _changing)),
    Fault(
        "list-no-token",
        "The last page has no nextPageToken.",
        ("LIST-001",),
        bindings=HTTP,
        reply=only("ListTasks", _no_token_at_end),
    ),
    Fault(
        "list-token-at-end", "The last page has a nextPageToken.", ("LIST-001",), reply=only("ListTasks", _token_at_end)
    ),
    Fault(
        "list-no-total",
        "ListTasks does not say totalSize.",
        ("LIST-002",),
        bindings=HTTP,
        reply=only("ListTasks", without("totalSize")),
    ),
    Fault(
        "list-no-page-size",
        "ListTasks does not say pageSize.",
        ("LIST-002",),
        bindings=HTTP,
        reply=only("ListTasks", without("pageSize")),
    ),
    Fault(
        "list-artifacts",
        "Artifacts are listed unasked.",
        ("LIST-003",),
        request=lambda c, p: {**p, "includeArtifacts": True} if c.operation == "ListTasks" else p,
    ),
    Fault("list-no-artifacts", "includeArtifacts is ignored.", ("LIST-004",), request=_no_artifacts),
    switch("list-oldest-first", "The oldest tasks come first.", "LIST-005"),
    Fault("list-no-cursor", "Every page is the first.", ("LIST-006",), request=_swapped_token),
    Fault("list-big-page", "The default page is larger than 50.", ("LIST-007",), request=_big_default),
    Fault("list-one-more", "A page has one task more than pageSize.", ("LIST-008",), request=_one_more),
    Fault("list-any-size", "pageSize may be 0 or 101.", ("LIST-009",), request=_keep_valid_size),
    _list("list-no-context-filter", "ListTasks ignores contextId.", ("LIST-010",), "contextId"),
    _list("list-no-status-filter", "ListTasks ignores status.", ("LIST-011",), "status"),
    _list("list-no-time-filter", "ListTasks ignores statusTimestampAfter.", ("LIST-012",), "statusTimestampAfter"),
    Fault("list-exclusive-time", "statusTimestampAfter leaves out the time itself.", ("LIST-012",), request=_shifted),
    Fault("list-any-status", "A bogus status lists everything.", ("LIST-013",), request=_keep_valid_status),
    Fault("list-any-token", "A bogus pageToken gives the first page.", ("LIST-014",), request=_drop_bad_token),
    _list("list-no-history-length", "ListTasks ignores historyLength.", ("LIST-015",), "historyLength"),
    Fault("list-page-total", "totalSize counts one page.", ("LIST-016",), reply=only("ListTasks", _page_total)),
    Fault(
        "cancel-nothing",
        "CancelTask does not change the state.",
        ("CAN-001",),
        switches=frozenset({"cancel-nothing", "zombie"}),
    ),
    Fault(
        "cancel-terminal",
        "A task that has ended can be cancelled.",
        ("CAN-002",),
        error=answering("TaskNotCancelable", "CancelTask", _blank),
    ),
    Fault(
        "cancel-unknown",
        "An unknown task can be cancelled.",
        ("CAN-003",),
        error=answering("TaskNotFound", "CancelTask", _blank),
    ),
    switch("zombie", "A cancelled task completes later.", "CAN-005"),
    switch("cancel-deaf-streams", "Streams do not hear of a cancellation.", "CAN-006", by="silent-cancel"),
    Fault("cancel-no-id", "CancelTask without an id is an internal error.", ("CAN-007",), error=_no_id_cancelled),
    switch("follow-up-new-task", "A follow-up to INPUT_REQUIRED gets other ids.", "MT-006", by="forks"),
    switch(
        "follow-up-new-context", "A follow-up with a taskId alone gets a new context.", "MT-004", by="forgets-context"
    ),
    switch("auth-required-deaf", "No message is accepted while AUTH_REQUIRED.", "MT-010", by="auth-deaf"),
    Fault(
        "get-not-found-code",
        "An unknown task is Invalid params.",
        ("GET-002", "ERR-JSON-TaskNotFound", "ERR-HTTP-TaskNotFound"),
        error=error_as("TaskNotFound", code=-32602, http=400, grpc="INVALID_ARGUMENT", kind="InvalidParams"),
    ),
)


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


def _first_only(result: Json) -> Json:
    return {**result, "configs": result["configs"][:1]}


def _lower_only(packet: Packet) -> Packet:
    scheme, _, rest = packet.headers.get("authorization", "").partition(" ")
    return delivery_headers(authorization=f"Basic {rest}")(packet) if scheme == "bearer" else packet


def _no_config_at_send(call: FaultyCall, params: Json) -> Json:
    configuration = params.get("configuration")
    if not isinstance(configuration, dict):
        return params
    kept = {k: v for k, v in configuration.items() if k != "taskPushNotificationConfig"}
    return {**params, "configuration": kept}


PUSH_FAULTS = (
    Fault("push-no-id", "A new configuration has no id.", ("PUSH-001",), reply=only(_CREATE, without("id"))),
    Fault(
        "push-no-task-id", "A new configuration has no taskId.", ("PUSH-001",), reply=only(_CREATE, without("taskId"))
    ),
    Fault(
        "push-other-url",
        "Get gives another URL than was stored.",
        ("PUSH-002",),
        reply=only(_GET, lambda r: {**r, "url": "http://127.0.0.1:9/other"}),
    ),
    Fault(
        "push-get-unknown",
        "An unknown configuration is made up.",
        ("PUSH-003",),
        error=answering(
            "TaskNotFound",
            _GET,
            lambda p: {"id": p.get("id", "x"), "taskId": p.get("taskId", "x"), "url": "http://127.0.0.1:9/"},
        ),
    ),
    Fault("push-list-first", "List gives the first configuration only.", ("PUSH-004",), reply=only(_LIST, _first_only)),
    switch("push-delete-nothing", "Delete deletes nothing.", "PUSH-005", by="delete-nothing"),
    switch("push-delete-twice", "A second delete is an error.", "PUSH-006", by="delete-once"),
    switch(
        "push-forgets", "A configuration is gone after the first event.", "PUSH-007", "PUSH-016", by="forgets-configs"
    ),
    switch(
        "push-undeclared",
        "Undeclared push notifications are configurable.",
        "PUSH-008",
        variant="bare",
        by="no-capability-check",
    ),
    Fault(
        "push-undeclared-code",
        "Undeclared push notifications give Unsupported operation.",
        ("PUSH-008", "ERR-JSON-PushNotificationNotSupported"),
        variant="bare",
        error=error_as(
            "PushNotificationNotSupported",
            kind="UnsupportedOperation",
            code=-32004,
            http=501,
            grpc="UNIMPLEMENTED",
            details=(),
        ),
    ),
    Fault(
        "push-unknown-task",
        "An unknown task gets a configuration.",
        ("PUSH-009",),
        error=answering("TaskNotFound", _CREATE, lambda p: {"id": "x", **p}),
    ),
    Fault(
        "push-no-url",
        "A configuration without url is accepted.",
        ("PUSH-010",),
        waive=frozenset({"no-url"}),
        switches=frozenset({"any-url"}),
    ),
    Fault("push-nothing", "No webhook is called.", ("PUSH-011",), delivery=lambda packet: None),
    Fault("push-bare", "The webhook's body is a bare update.", ("PUSH-012",), delivery=body(_bare)),
    Fault(
        "push-content-type",
        "The webhook gets application/json.",
        ("PUSH-013",),
        delivery=delivery_headers(content_type="application/json"),
    ),
    Fault(
        "push-no-auth",
        "The webhook gets no Authorization.",
        ("PUSH-014",),
        delivery=delivery_headers(authorization=None),
    ),
    Fault(
        "push-not-at-send", "A configuration inside SendMessage is ignored.", ("PUSH-015",), request=_no_config_at_send
    ),
    Fault("push-no-final", "The terminal state is not delivered.", ("PUSH-016",), delivery=_no_final),
    switch("push-reordered", "Webhooks get events in another order.", "PUSH-017"),
    switch("push-any-address", "Link-local webhooks are accepted.", "PUSH-018", by="any-webhook"),
    switch("push-waits", "A slow webhook holds up the task.", "PUSH-019"),
    Fault(
        "push-scheme-case", "Only the scheme Bearer with a capital is understood.", ("PUSH-020",), delivery=_lower_only
    ),
)
