"""Faults of getting, listing, cancelling and continuing tasks, and of push notifications about them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pytest_a2a_bench.agents.faulty.fault import (
    ALL,
    HTTP,
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
    switch,
    without,
)
from pytest_a2a_bench.agents.faulty.problems import OperationError, Problem, parse_time
from pytest_a2a_bench.agents.faulty.store import TERMINAL_STATES, new_id, now, page

_STATES = tuple(
    f"TASK_STATE_{state}"
    for state in (
        *("UNSPECIFIED", "SUBMITTED", "WORKING", "COMPLETED", "FAILED", "CANCELED"),
        *("INPUT_REQUIRED", "REJECTED", "AUTH_REQUIRED"),
    )
)


def _get(name: str, says: str, breaks: str, change: Callable[[Json], Any], *, bindings: tuple[str, ...] = ALL) -> Fault:
    """Return a fault of what GetTask gives."""
    return Fault(name, says, (breaks,), bindings=bindings, reply=only("GetTask", change))


def _list(name: str, says: str, breaks: str, change: Callable[[Json], Json]) -> Fault:
    """Return a fault of how the parameters of ListTasks are read."""
    return Fault(name, says, (breaks,), request=asking("ListTasks", change))


def _deaf(name: str, says: str, breaks: str, *ignored: str) -> Fault:
    """Return a fault that consists of not reading parameters of ListTasks."""
    return Fault(name, says, (breaks,), request=ignoring("ListTasks", *ignored))


def _listed(
    name: str, says: str, breaks: str, change: Callable[[Json], Any], *, bindings: tuple[str, ...] = ALL
) -> Fault:
    """Return a fault of what ListTasks gives."""
    return Fault(name, says, (breaks,), bindings=bindings, reply=only("ListTasks", change))


def _made_up(name: str, says: str, breaks: str, kind: str, operation: str, make: Callable[[Json], Json]) -> Fault:
    """Return a fault that answers with a result where an error is due."""
    return Fault(name, says, (breaks,), error=answering(kind, operation, make))


def _no_id(name: str, operation: str, breaks: str) -> Fault:
    """Return a fault of an operation that breaks without an id."""

    def hook(call: FaultyCall, problem: Problem) -> Problem:
        missing = problem.kind == "InvalidParams" and problem.message.startswith("id:") and call.operation == operation
        return Problem("Internal", -32603, 500, "INTERNAL", "Internal error") if missing else problem

    return Fault(name, f"{operation} without an id is an internal error.", (breaks,), error=hook)


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


def _page_total(result: Json) -> None:
    result["totalSize"] = len(result["tasks"])


def _no_token_at_end(result: Json) -> None:
    if not result["nextPageToken"]:
        del result["nextPageToken"]


def _token_at_end(result: Json) -> None:
    if not result["nextPageToken"]:
        result["nextPageToken"] = "YmVmb3JlOjA="


TASK_FAULTS = (
    _get("get-wrapped", "GetTask gives a task in a wrapper.", "GET-001", lambda task: {"task": task}, bindings=HTTP),
    _made_up("get-unknown", "GetTask makes up unknown tasks.", "GET-002", "TaskNotFound", "GetTask", _blank),
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
    _no_id("get-no-id", "GetTask", "GET-006"),
    _get("get-changes", "GetTask changes the status time.", "GET-007", _changing),
    _listed("list-no-token", "The last page has no nextPageToken.", "LIST-001", _no_token_at_end, bindings=HTTP),
    _listed("list-token-at-end", "The last page has a nextPageToken.", "LIST-001", _token_at_end),
    _listed("list-no-total", "ListTasks does not say totalSize.", "LIST-002", without("totalSize"), bindings=HTTP),
    _listed("list-no-page-size", "ListTasks does not say pageSize.", "LIST-002", without("pageSize"), bindings=HTTP),
    _list(
        "list-artifacts",
        "Artifacts are listed unasked.",
        "LIST-003",
        lambda params: {**params, "includeArtifacts": True},
    ),
    _list(
        "list-no-artifacts",
        "includeArtifacts is ignored.",
        "LIST-004",
        lambda params: {**params, "includeArtifacts": False},
    ),
    switch("list-oldest-first", "The oldest tasks come first.", "LIST-005"),
    _deaf("list-no-cursor", "Every page is the first.", "LIST-006", "pageToken"),
    _list(
        "list-big-page", "The default page is larger than 50.", "LIST-007", lambda params: {"pageSize": 100, **params}
    ),
    _list("list-one-more", "A page has one task more than pageSize.", "LIST-008", _one_more),
    _list("list-any-size", "pageSize may be 0 or 101.", "LIST-009", _keep_valid_size),
    _deaf("list-no-context-filter", "ListTasks ignores contextId.", "LIST-010", "contextId"),
    _deaf("list-no-status-filter", "ListTasks ignores status.", "LIST-011", "status"),
    _deaf("list-no-time-filter", "ListTasks ignores statusTimestampAfter.", "LIST-012", "statusTimestampAfter"),
    _list("list-exclusive-time", "statusTimestampAfter leaves out the time itself.", "LIST-012", _shifted),
    _list("list-any-status", "A bogus status lists everything.", "LIST-013", _keep_valid_status),
    _list("list-any-token", "A bogus pageToken gives the first page.", "LIST-014", _drop_bad_token),
    _deaf("list-no-history-length", "ListTasks ignores historyLength.", "LIST-015", "historyLength"),
    _listed("list-page-total", "totalSize counts one page.", "LIST-016", _page_total),
    Fault(
        "cancel-nothing",
        "CancelTask does not change the state.",
        ("CAN-001",),
        switches=frozenset({"cancel-nothing", "zombie"}),
    ),
    _made_up(
        "cancel-terminal",
        "A task that has ended can be cancelled.",
        "CAN-002",
        "TaskNotCancelable",
        "CancelTask",
        _blank,
    ),
    _made_up("cancel-unknown", "An unknown task can be cancelled.", "CAN-003", "TaskNotFound", "CancelTask", _blank),
    switch("zombie", "A cancelled task completes later.", "CAN-005"),
    switch("cancel-deaf-streams", "Streams do not hear of a cancellation.", "CAN-006", by="silent-cancel"),
    _no_id("cancel-no-id", "CancelTask", "CAN-007"),
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


def _lower_only(packet: Packet) -> Packet:
    scheme, _, rest = packet.headers.get("authorization", "").partition(" ")
    return delivery_headers(authorization=f"Basic {rest}")(packet) if scheme == "bearer" else packet


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
    _made_up(
        "push-get-unknown",
        "An unknown configuration is made up.",
        "PUSH-003",
        "TaskNotFound",
        _GET,
        lambda p: {"id": p.get("id", "x"), "taskId": p.get("taskId", "x"), "url": "http://127.0.0.1:9/"},
    ),
    Fault(
        "push-list-first",
        "List gives the first configuration only.",
        ("PUSH-004",),
        reply=only(_LIST, lambda result: {**result, "configs": result["configs"][:1]}),
    ),
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
    _made_up(
        "push-unknown-task",
        "An unknown task gets a configuration.",
        "PUSH-009",
        "TaskNotFound",
        _CREATE,
        lambda p: {"id": "x", **p},
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
        "push-not-at-send",
        "A configuration inside SendMessage is ignored.",
        ("PUSH-015",),
        request=configured("taskPushNotificationConfig"),
    ),
    Fault("push-no-final", "The terminal state is not delivered.", ("PUSH-016",), delivery=_no_final),
    switch("push-reordered", "Webhooks get events in another order.", "PUSH-017"),
    switch("push-any-address", "Link-local webhooks are accepted.", "PUSH-018", by="any-webhook"),
    switch("push-waits", "A slow webhook holds up the task.", "PUSH-019"),
    Fault(
        "push-scheme-case", "Only the scheme Bearer with a capital is understood.", ("PUSH-020",), delivery=_lower_only
    ),
)
