"""What is wrong with a request's parameters, and the errors of the specification that say so (pure)."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
DOMAIN = "a2a-protocol.org"

GRPC_CODES = {
    "INVALID_ARGUMENT": 3,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "FAILED_PRECONDITION": 9,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAUTHENTICATED": 16,
}


class _Kind(NamedTuple):
    code: int
    http: int
    grpc: str
    message: str


_KINDS = {
    "TaskNotFound": _Kind(-32001, 404, "NOT_FOUND", "Task not found"),
    "TaskNotCancelable": _Kind(-32002, 400, "FAILED_PRECONDITION", "Task cannot be canceled"),
    "PushNotificationNotSupported": _Kind(-32003, 400, "FAILED_PRECONDITION", "Push notifications are not supported"),
    "UnsupportedOperation": _Kind(-32004, 400, "FAILED_PRECONDITION", "This operation is not supported"),
    "ContentTypeNotSupported": _Kind(-32005, 400, "INVALID_ARGUMENT", "Incompatible content types"),
    "ExtendedAgentCardNotConfigured": _Kind(-32007, 400, "FAILED_PRECONDITION", "No extended card is configured"),
    "ExtensionSupportRequired": _Kind(-32008, 400, "FAILED_PRECONDITION", "A required extension is not supported"),
    "VersionNotSupported": _Kind(-32009, 400, "FAILED_PRECONDITION", "This protocol version is not supported"),
    "JSONParse": _Kind(-32700, 400, "INVALID_ARGUMENT", "Invalid JSON payload"),
    "InvalidRequest": _Kind(-32600, 400, "INVALID_ARGUMENT", "Request payload validation error"),
    "MethodNotFound": _Kind(-32601, 404, "UNIMPLEMENTED", "Method not found"),
    "InvalidParams": _Kind(-32602, 400, "INVALID_ARGUMENT", "Invalid parameters"),
    "Internal": _Kind(-32603, 500, "INTERNAL", "Internal error"),
    "Forbidden": _Kind(-32000, 403, "PERMISSION_DENIED", "This belongs to somebody else"),
    "Unauthenticated": _Kind(-32000, 401, "UNAUTHENTICATED", "A bearer token is required"),
}

A2A_KINDS = tuple(name for name, kind in _KINDS.items() if -32009 <= kind.code <= -32001)


class Violation(NamedTuple):
    """One thing that is wrong with a request.

    :param rule: the name by which a fault waives it.
    """

    rule: str
    field: str
    description: str


@dataclass(frozen=True)
class Problem:
    """One error as every binding will show it; a fault may change any of its fields.

    :param kind: its name in the specification, without ``Error``.
    :param grpc: name of the gRPC status code; the REST body's ``status`` too.
    :param details: ``google.rpc`` details in ProtoJSON form.
    """

    kind: str
    code: int
    http: int
    grpc: str
    message: str
    details: tuple[dict[str, Any], ...] = ()


class OperationError(Exception):
    """Ends an operation with a :class:`Problem`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def failure(kind: str, message: str = "", **metadata: str) -> OperationError:
    """Return the error of that kind, with the details that the specification wants."""
    known = _KINDS[kind]
    details: tuple[dict[str, Any], ...] = ()
    if kind in A2A_KINDS:
        info: dict[str, Any] = {"@type": ERROR_INFO, "reason": reason(kind), "domain": DOMAIN}
        details = ({**info, "metadata": metadata} if metadata else info,)
    return OperationError(Problem(kind, known.code, known.http, known.grpc, message or known.message, details))


def invalid(violations: Sequence[Violation]) -> OperationError:
    """Return the error that names every violation."""
    error = failure("InvalidParams", "; ".join(f"{v.field}: {v.description}" for v in violations))
    listed = [{"field": v.field, "description": v.description} for v in violations]
    details = ({"@type": BAD_REQUEST, "fieldViolations": listed},)
    return OperationError(replace(error.problem, details=details))


def reason(kind: str) -> str:
    """Return the UPPER_SNAKE_CASE reason of an error kind."""
    return "".join(f"_{c}" if c.isupper() else c.upper() for c in kind).lstrip("_")


# -- parameters --


_STATES = "SUBMITTED WORKING COMPLETED FAILED CANCELED INPUT_REQUIRED REJECTED AUTH_REQUIRED".split()
STATES = tuple(f"TASK_STATE_{state}" for state in _STATES)
CONTENTS = ("text", "raw", "url", "data")

_TASK_ID = ("GetTask", "CancelTask", "SubscribeToTask")
_PUSH = {
    "CreateTaskPushNotificationConfig": ("taskId", "url"),
    "GetTaskPushNotificationConfig": ("taskId", "id"),
    "ListTaskPushNotificationConfigs": ("taskId",),
    "DeleteTaskPushNotificationConfig": ("taskId", "id"),
}


def violations(operation: str, params: dict[str, Any]) -> Iterator[Violation]:
    """Yield everything that is wrong with the parameters of an operation."""
    if operation in ("SendMessage", "SendStreamingMessage"):
        yield from _message(params.get("message"))
        yield from _configuration(params.get("configuration"))
    elif operation in _TASK_ID:
        yield from _required(params, ("id",), "no-id")
        yield from _whole(params, "historyLength", "history-length")
    elif operation == "ListTasks":
        yield from _listing(params)
    for name in _PUSH.get(operation, ()):
        yield from _required(params, (name,), f"no-{name}")


def _required(holder: dict[str, Any], names: tuple[str, ...], rule: str, where: str = "") -> Iterator[Violation]:
    for name in names:
        value = holder.get(name)
        if not isinstance(value, str) or not value:
            yield Violation(rule, where + name, "a non-empty string is required")


def _optional_text(holder: dict[str, Any], names: tuple[str, ...], where: str) -> Iterator[Violation]:
    for name in names:
        if holder.get(name) is not None and not isinstance(holder[name], str):
            yield Violation("text-type", where + name, "must be a string")


def _message(message: Any) -> Iterator[Violation]:
    if not isinstance(message, dict):
        yield Violation("no-message", "message", "a message is required")
        return
    yield from _required(message, ("messageId",), "no-message-id", "message.")
    yield from _optional_text(message, ("contextId", "taskId"), "message.")
    role = message.get("role")
    if role is None or role == "ROLE_UNSPECIFIED":
        yield Violation("no-role", "message.role", "a role is required")
    elif role not in ("ROLE_USER", "ROLE_AGENT"):
        yield Violation("role-name", "message.role", "must be ROLE_USER or ROLE_AGENT")
    yield from _parts(message.get("parts"))


def _parts(parts: Any) -> Iterator[Violation]:
    if parts is None:
        yield Violation("no-parts", "message.parts", "at least one part is required")
    elif not isinstance(parts, list):
        yield Violation("parts-type", "message.parts", "must be an array")
    elif not parts:
        yield Violation("empty-parts", "message.parts", "at least one part is required")
    else:
        for index, part in enumerate(parts):
            yield from _part(part, f"message.parts[{index}]")


def _part(part: Any, where: str) -> Iterator[Violation]:
    if not isinstance(part, dict):
        yield Violation("part-type", where, "must be an object")
        return
    members = [name for name in CONTENTS if name in part]
    if not members:
        yield Violation("empty-part", where, f"one of {', '.join(CONTENTS)} is required")
    if len(members) > 1:
        yield Violation("two-contents", where, f"only one of {', '.join(CONTENTS)} is allowed")
    yield from _optional_text(part, ("text", "url", "filename", "mediaType"), f"{where}.")
    if "raw" in part and not _is_base64(part["raw"]):
        yield Violation("base64", f"{where}.raw", "must be base64")


def _is_base64(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        base64.b64decode(value.replace("-", "+").replace("_", "/") + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _configuration(configuration: Any) -> Iterator[Violation]:
    if configuration is None:
        return
    if not isinstance(configuration, dict):
        yield Violation("configuration-type", "configuration", "must be an object")
        return
    yield from _whole(configuration, "historyLength", "history-length", "configuration.")
    push = configuration.get("taskPushNotificationConfig")
    if isinstance(push, dict):
        yield from _required(push, ("url",), "no-url", "configuration.taskPushNotificationConfig.")


def _whole(holder: dict[str, Any], name: str, rule: str, where: str = "", low: int = 0) -> Iterator[Violation]:
    value = holder.get(name)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < low:
        yield Violation(rule, where + name, f"must be a whole number, {low} or more")


def _listing(params: dict[str, Any]) -> Iterator[Violation]:
    yield from _whole(params, "historyLength", "history-length")
    size = list(_whole(params, "pageSize", "page-size", low=1))
    if not size and params.get("pageSize") is not None and params["pageSize"] > 100:
        size = [Violation("page-size", "pageSize", "must be 1 to 100")]
    yield from size
    status = params.get("status")
    if status is not None and status not in (*STATES, "TASK_STATE_UNSPECIFIED"):
        yield Violation("status-name", "status", f"must be one of {', '.join(STATES)}")
    after = params.get("statusTimestampAfter")
    if after is not None and parse_time(after) is None:
        yield Violation("timestamp", "statusTimestampAfter", "must be an ISO 8601 time")


def parse_time(text: Any) -> datetime | None:
    """Read a timestamp with its offset, or return None."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None
