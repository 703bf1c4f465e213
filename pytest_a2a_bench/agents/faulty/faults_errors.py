"""Faults of error codes, details and envelopes, and of the bindings."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.agents.faulty.fault import (
    ALL,
    GRPC,
    HTTP,
    REST,
    RPC,
    Fault,
    FaultyCall,
    Json,
    Packet,
    dropped,
    error_as,
    headers,
    ignoring,
    losing,
    only,
    setting,
    switch,
)
from pytest_a2a_bench.agents.faulty.problems import Problem, failure

_WRONG = {
    "TaskNotFound": ("full", "GET-002"),
    "TaskNotCancelable": ("full", "CAN-002"),
    "PushNotificationNotSupported": ("bare", "PUSH-008"),
    "UnsupportedOperation": ("full", "SEND-007"),
    "ContentTypeNotSupported": ("full", "SEND-009"),
    "ExtensionSupportRequired": ("strict", "EXT-001"),
    "VersionNotSupported": ("full", "VER-001"),
}


def _codes() -> list[Fault]:
    """Return one fault for each error and binding: a code that is not its own."""
    made = []
    for kind, (variant, _) in _WRONG.items():
        plan: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
            ("json", "JSON", "JSONRPC", {"code": -32603}),
            ("http", "HTTP", "HTTP+JSON", {"http": 500}),
            ("grpc", "GRPC", "GRPC", {"grpc": "INTERNAL"}),
        )
        for short, catalogue, binding, fields in plan:
            value = next(iter(fields.values()))
            made.append(
                Fault(
                    f"code-{short}-{kind}",
                    f"{kind}Error is {value} on {binding}.",
                    (f"ERR-{catalogue}-{kind}",),
                    variant=variant,
                    bindings=(binding,),
                    error=error_as(kind, **fields),
                )
            )
    return made


def _crash_on(kind: str) -> Any:
    """Return a packet hook for a server that answers one kind of mistake with a web server's page."""

    def hook(call: FaultyCall, packet: Packet) -> Packet:
        shown = json.loads(packet.body or b"{}").get("error", {}) if packet.body.startswith(b"{") else {}
        if shown.get("code") in (kind, -32700) and call.binding == "JSONRPC":
            return Packet(500, {"content-type": "text/plain"}, b"Internal Server Error")
        return packet

    return hook


def _wrong_reason(detail: Json) -> Json:
    return {**detail, "reason": "ERROR"} if "reason" in detail else detail


def _wrong_domain(detail: Json) -> Json:
    return {**detail, "domain": "example.com"} if "domain" in detail else detail


def _flat(call: FaultyCall, shown: Json) -> Json:
    return {"status": shown["error"]["code"], "detail": shown["error"]["message"], "errors": []}


def _id_as_text(call: FaultyCall, envelope: Json) -> Json:
    return {**envelope, "id": str(envelope["id"])} if isinstance(envelope.get("id"), int) else envelope


def _crash(call: FaultyCall, problem: Problem) -> Problem:
    message = 'Traceback (most recent call last):\n  File "/srv/agent/server.py", line 81, in handle\nKeyError: message'
    return replace(problem, code=-32603, http=500, grpc="INTERNAL", message=message, details=(), kind="Internal")


def _ascii_query(call: FaultyCall, params: Json) -> Json:
    """Read ids as an unescaped query would have them."""
    from urllib.parse import quote

    return {k: quote(v) if k == "contextId" and isinstance(v, str) else v for k, v in params.items()}


def _called(media_type: str) -> Any:
    """Return a packet hook that gives all answers but streams another media type."""
    change = headers(content_type=media_type)

    def hook(call: FaultyCall, packet: Packet) -> Packet:
        return packet if "event-stream" in packet.headers["content-type"] else change(call, packet)

    return hook


def _lacks(name: str, says: str, breaks: str, operation: str, *, bindings: tuple[str, ...]) -> Fault:
    """Return a fault of a server that does not have an operation."""

    def hook(call: FaultyCall, params: Json) -> Json:
        if call.operation == operation:
            raise failure("MethodNotFound", f"there is no method {operation!r}")
        return params

    return Fault(name, says, (breaks,), bindings=bindings, request=hook)


def _rpc_error(name: str, says: str, breaks: str, change: Callable[[Json], None]) -> Fault:
    """Return a fault of the ``error`` member of JSON-RPC, which the change alters in place."""

    def hook(_: FaultyCall, envelope: Json) -> Json:
        if isinstance(envelope.get("error"), dict):
            change(envelope["error"])
        return envelope

    return Fault(name, says, (breaks,), bindings=RPC, envelope=hook)


def _coded(name: str, says: str, breaks: str, kind: str, code: int) -> Fault:
    """Return a fault that gives a kind of error another code on JSON-RPC."""
    return Fault(name, says, tuple(breaks.split()), bindings=RPC, error=error_as(kind, code=code))


def _detail(
    name: str, says: str, breaks: str, change: Callable[[Json], Json], *, bindings: tuple[str, ...] = ALL
) -> Fault:
    """Return a fault of every detail of an error."""

    def hook(_: FaultyCall, problem: Problem) -> Problem:
        return replace(problem, details=tuple(change(dict(detail)) for detail in problem.details))

    return Fault(name, says, tuple(breaks.split()), bindings=bindings, error=hook)


ERROR_FAULTS = (
    *_codes(),
    switch("rest-only-a2a-json", "application/json is refused.", "HJ-003", bindings=REST, by="only-a2a-json"),
    _lacks("rest-no-subscribe", "There is no way to subscribe over REST.", "SUB-007", "SubscribeToTask", bindings=REST),
    _lacks("grpc-no-list", "gRPC does not list tasks, the others do.", "EQ-001", "ListTasks", bindings=GRPC),
    Fault(
        "grpc-lost-artifacts",
        "gRPC streams no artifacts, the others do.",
        ("EQ-004",),
        bindings=GRPC,
        event=losing("artifactUpdate"),
    ),
    _rpc_error("error-no-message", "Errors have an empty message.", "ERR-001", lambda e: e.update(message="")),
    _rpc_error(
        "error-text-code", "JSON-RPC error codes are strings.", "ERR-001", lambda e: e.update(code=str(e["code"]))
    ),
    _rpc_error("error-data-object", "error.data is an object.", "ERR-002", lambda e: e.update(data={"hint": "look"})),
    _detail(
        "error-untyped",
        "Error details have no @type.",
        "ERR-002 ERR-004",
        lambda detail: dropped(detail, "@type"),
        bindings=HTTP,
    ),
    Fault(
        "error-no-info", "A2A errors have no ErrorInfo.", ("ERR-003", "ERR-005", "ERR-006"), error=setting(details=())
    ),
    _detail("error-reason", "ErrorInfo has a wrong reason.", "ERR-003 ERR-005 ERR-006", _wrong_reason),
    _detail("error-domain", "ErrorInfo has a wrong domain.", "ERR-003 ERR-005 ERR-006", _wrong_domain),
    Fault("error-problem-json", "REST errors are problem+json.", ("ERR-004",), bindings=REST, envelope=_flat),
    Fault(
        "error-no-violations",
        "Validation errors do not name the field.",
        ("ERR-007",),
        error=error_as("InvalidParams", details=()),
    ),
    Fault("json-500", "Malformed JSON gives a plain 500.", ("ERR-008",), bindings=RPC, packet=_crash_on("x")),
    _coded("json-code", "Malformed JSON is an invalid request.", "ERR-008", "JSONParse", -32600),
    _coded(
        "request-code", "An invalid request is invalid params.", "ERR-009 ERR-010 ERR-011", "InvalidRequest", -32602
    ),
    _coded("method-code", "An unknown method is an invalid request.", "ERR-012 ERR-013", "MethodNotFound", -32600),
    _coded("params-code", "Invalid params are an invalid request.", "ERR-014 VAL-001", "InvalidParams", -32600),
    Fault(
        "params-crash",
        "Invalid params are an internal error with a stack trace.",
        ("VAL-001", "VAL-004"),
        error=lambda call, p: _crash(call, p) if p.kind == "InvalidParams" else p,
    ),
    Fault("id-as-text", "Response ids are strings always.", ("ERR-015",), bindings=RPC, envelope=_id_as_text),
    Fault(
        "id-missing",
        "Responses have no id.",
        ("ERR-015",),
        bindings=RPC,
        envelope=lambda _, envelope: dropped(envelope, "id"),
    ),
    Fault(
        "jsonrpc-missing",
        "Responses have no jsonrpc.",
        ("JR-003",),
        bindings=RPC,
        envelope=lambda _, envelope: dropped(envelope, "jsonrpc"),
    ),
    Fault(
        "jsonrpc-text", "JSON-RPC responses are text/plain.", ("JR-001",), bindings=RPC, packet=_called("text/plain")
    ),
    _lacks("jsonrpc-no-list", "There is no method ListTasks.", "JR-002", "ListTasks", bindings=RPC),
    _lacks("rest-no-list", "There is no GET /tasks.", "HJ-001", "ListTasks", bindings=REST),
    Fault(
        "rest-json",
        "REST responses are application/json.",
        ("HJ-002",),
        bindings=REST,
        packet=_called("application/json"),
    ),
    Fault(
        "rest-query-names",
        "pageSize is not read from the query.",
        ("HJ-004",),
        bindings=REST,
        request=ignoring("ListTasks", "pageSize"),
    ),
    Fault(
        "rest-query-values",
        "status is not read from the query.",
        ("HJ-005",),
        bindings=REST,
        request=ignoring("ListTasks", "status", "includeArtifacts", "statusTimestampAfter"),
    ),
    Fault(
        "rest-escapes", "Percent signs in the query are not decoded.", ("HJ-006",), bindings=REST, request=_ascii_query
    ),
    _lacks("grpc-unimplemented", "GetTask is not implemented on gRPC.", "GR-001", "GetTask", bindings=GRPC),
    Fault(
        "grpc-other-task",
        "gRPC shows another status than HTTP.",
        ("EQ-002",),
        bindings=GRPC,
        reply=only("GetTask", lambda r: {**r, "status": {**r["status"], "state": "TASK_STATE_FAILED"}}),
    ),
    Fault(
        "rest-other-error",
        "REST gives another error than JSON-RPC.",
        ("EQ-003", "ERR-HTTP-TaskNotFound"),
        bindings=REST,
        error=error_as("TaskNotFound", http=400, grpc="INVALID_ARGUMENT", kind="InvalidParams", details=()),
    ),
)
