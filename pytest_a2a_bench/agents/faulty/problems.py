"""The errors of A2A 1.0 and what they are on each binding (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
