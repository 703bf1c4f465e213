"""The eleven operations and how each binding and version spells them (pure)."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STREAMING = frozenset({"SendStreamingMessage", "SubscribeToTask"})


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of A2A 1.0.

    :param rest: HTTP method and path template of 1.0; ``{id}`` and ``{taskId}`` are taken out of the parameters.
    :param request: name of the protobuf request message of 1.0; the reply's is ``reply``.
    :param rpc03: JSON-RPC method of 0.3, empty where 0.3 has none.
    """

    name: str
    rest: tuple[str, str]
    request: str
    reply: str
    rpc03: str = ""
    rest03: tuple[str, str] = ("", "")
    grpc03: tuple[str, str, str] = ("", "", "")


def _op(name: str, rest: str, reply: str, rpc03: str = "", rest03: str = "", grpc03: str = "") -> Operation:
    verb, _, path = rest.partition(" ")
    verb03, _, path03 = rest03.partition(" ")
    method, request, answer = grpc03.split() if grpc03 else ("", "", "")
    request_type = "TaskPushNotificationConfig" if name.startswith("Create") else f"{name}Request"
    if name == "SendStreamingMessage":
        request_type = "SendMessageRequest"
    return Operation(name, (verb, path), request_type, reply, rpc03, (verb03, path03), (method, request, answer))


_PUSH = "tasks/pushNotificationConfig"
_PUSH_PATH = "/tasks/{taskId}/pushNotificationConfigs"
_P = "TaskPushNotificationConfig"

OPERATIONS: Mapping[str, Operation] = {
    op.name: op
    for op in (
        _op(
            "SendMessage",
            "POST /message:send",
            "SendMessageResponse",
            "message/send",
            "POST /v1/message:send",
            "SendMessage SendMessageRequest SendMessageResponse",
        ),
        _op(
            "SendStreamingMessage",
            "POST /message:stream",
            "StreamResponse",
            "message/stream",
            "POST /v1/message:stream",
            "SendStreamingMessage SendMessageRequest StreamResponse",
        ),
        _op("GetTask", "GET /tasks/{id}", "Task", "tasks/get", "GET /v1/tasks/{id}", "GetTask GetTaskRequest Task"),
        _op("ListTasks", "GET /tasks", "ListTasksResponse", "", "GET /v1/tasks"),
        _op(
            "CancelTask",
            "POST /tasks/{id}:cancel",
            "Task",
            "tasks/cancel",
            "POST /v1/tasks/{id}:cancel",
            "CancelTask CancelTaskRequest Task",
        ),
        _op(
            "SubscribeToTask",
            "POST /tasks/{id}:subscribe",
            "StreamResponse",
            "tasks/resubscribe",
            "GET /v1/tasks/{id}:subscribe",
            "TaskSubscription TaskSubscriptionRequest StreamResponse",
        ),
        _op(
            f"Create{_P}",
            f"POST {_PUSH_PATH}",
            _P,
            f"{_PUSH}/set",
            f"POST /v1{_PUSH_PATH}",
            f"Create{_P} Create{_P}Request {_P}",
        ),
        _op(
            f"Get{_P}",
            f"GET {_PUSH_PATH}/{{id}}",
            _P,
            f"{_PUSH}/get",
            f"GET /v1{_PUSH_PATH}/{{id}}",
            f"Get{_P} Get{_P}Request {_P}",
        ),
        _op(
            f"List{_P}s",
            f"GET {_PUSH_PATH}",
            f"List{_P}sResponse",
            f"{_PUSH}/list",
            f"GET /v1{_PUSH_PATH}",
            f"List{_P} List{_P}Request List{_P}Response",
        ),
        _op(
            f"Delete{_P}",
            f"DELETE {_PUSH_PATH}/{{id}}",
            "google.protobuf.Empty",
            f"{_PUSH}/delete",
            f"DELETE /v1{_PUSH_PATH}/{{id}}",
            f"Delete{_P} Delete{_P}Request google.protobuf.Empty",
        ),
        _op(
            "GetExtendedAgentCard",
            "GET /extendedAgentCard",
            "AgentCard",
            "agent/getAuthenticatedExtendedCard",
            "GET /v1/card",
            "GetAgentCard GetAgentCardRequest AgentCard",
        ),
    )
}
ALIASES = {"ListTaskPushNotificationConfig": f"List{_P}s"}


@dataclass(frozen=True, slots=True)
class RestCall:
    """One request of the HTTP+JSON binding."""

    verb: str
    path: str
    query: Mapping[str, str]
    body: Any = None


def operation(name: str) -> Operation:
    """Return an operation by its 1.0 name.

    :raises KeyError: if there is none.
    """
    return OPERATIONS[ALIASES.get(name, name)]


def rest_call(op: Operation, params: Mapping[str, Any], *, version: str, tenant: str = "") -> RestCall:
    """Spell an operation for HTTP+JSON: ids into the path, the rest into the body or, for GET, into the query."""
    verb, template = op.rest03 if version == "0.3" else op.rest
    rest = dict(params)

    def take(match: re.Match[str]) -> str:
        return urllib.parse.quote(str(rest.pop(match.group(1), "")), safe="")

    path = re.sub(r"\{(\w+)\}", take, template)
    tenant = str(rest.pop("tenant", "") or tenant)
    if tenant:
        path = f"/{urllib.parse.quote(tenant, safe='')}{path}"
    if verb in ("GET", "DELETE"):
        return RestCall(verb, path, {k: query_text(v) for k, v in rest.items() if v is not None})
    keep_empty = bool(rest) or verb == "POST"
    return RestCall(verb, path, {}, rest if keep_empty and not op.name.startswith("Subscribe") else None)


def query_text(value: Any) -> str:
    """Write a value for a query string, as ProtoJSON would."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
