"""Faults of error codes, details and envelopes, of versions, credentials, extensions, tenants and the bindings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.agents.faulty.fault import HTTP, Fault, FaultyCall, Json, Packet
from pytest_a2a_bench.agents.faulty.problems import A2A_KINDS, Problem, failure
from pytest_a2a_bench.agents.faulty.rewrite import answering, error_as, headers, only

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


def _extended_codes() -> list[Fault]:
    kind = "ExtendedAgentCardNotConfigured"
    plan = (
        ("JSON", "JSONRPC", {"code": -32603}),
        ("HTTP", "HTTP+JSON", {"http": 500}),
        ("GRPC", "GRPC", {"grpc": "INTERNAL"}),
    )
    return [
        Fault(
            f"code-{place.lower()}-{kind}",
            f"{kind}Error is {next(iter(fields.values()))} on {binding}.",
            (f"ERR-{place}-{kind}",),
            variant="guarded",
            bindings=(binding,),
            switches=frozenset({"no-extended"}),
            error=error_as(kind, **fields),
        )
        for place, binding, fields in plan
    ]


def _no_artifacts(call: FaultyCall, index: int, event: Json) -> tuple[Json, ...]:
    return () if "artifactUpdate" in event else (event,)


def _early(kind: str, code: int) -> Any:
    return error_as(kind, code=code)


def _crash_on(kind: str) -> Any:
    """Return a packet hook for a server that answers one kind of mistake with a web server's page."""

    def hook(call: FaultyCall, packet: Packet) -> Packet:
        shown = json.loads(packet.body or b"{}").get("error", {}) if packet.body.startswith(b"{") else {}
        if shown.get("code") in (kind, -32700) and call.binding == "JSONRPC":
            return Packet(500, {"content-type": "text/plain"}, b"Internal Server Error")
        return packet

    return hook


def _error_member(change: Any) -> Any:
    def hook(call: FaultyCall, envelope: Json) -> Json:
        if isinstance(envelope.get("error"), dict):
            change(envelope["error"])
        return envelope

    return hook


def _details(change: Any) -> Any:
    def hook(call: FaultyCall, problem: Problem) -> Problem:
        return replace(problem, details=tuple(change(dict(d)) for d in problem.details))

    return hook


def _no_details(call: FaultyCall, problem: Problem) -> Problem:
    return replace(problem, details=()) if problem.kind in A2A_KINDS else problem


def _no_violations(call: FaultyCall, problem: Problem) -> Problem:
    return replace(problem, details=()) if problem.kind == "InvalidParams" else problem


def _untyped(detail: Json) -> Json:
    return {k: v for k, v in detail.items() if k != "@type"}


def _wrong_reason(detail: Json) -> Json:
    return {**detail, "reason": "ERROR"} if "reason" in detail else detail


def _wrong_domain(detail: Json) -> Json:
    return {**detail, "domain": "example.com"} if "domain" in detail else detail


def _flat(call: FaultyCall, shown: Json) -> Json:
    return {"status": shown["error"]["code"], "detail": shown["error"]["message"], "errors": []}


def _id_as_text(call: FaultyCall, envelope: Json) -> Json:
    return {**envelope, "id": str(envelope["id"])} if isinstance(envelope.get("id"), int) else envelope


def _no_version(call: FaultyCall, envelope: Json) -> Json:
    return {k: v for k, v in envelope.items() if k != "jsonrpc"}


def _refuse_patch(call: FaultyCall, params: Json) -> Json:
    if call.version.count(".") > 1:
        raise failure("VersionNotSupported", f"version {call.version} is not supported")
    return params


def _crash(call: FaultyCall, problem: Problem) -> Problem:
    message = 'Traceback (most recent call last):\n  File "/srv/agent/server.py", line 81, in handle\nKeyError: message'
    return replace(problem, code=-32603, http=500, grpc="INTERNAL", message=message, details=(), kind="Internal")


def _crash_on_params(call: FaultyCall, problem: Problem) -> Problem:
    return _crash(call, problem) if problem.kind == "InvalidParams" else problem


def _missing(operation: str) -> Any:
    """Return an error and request pair for an operation that the server does not have."""

    def hook(call: FaultyCall, params: Json) -> Json:
        if call.operation == operation:
            raise failure("MethodNotFound", f"there is no method {operation!r}")
        return params

    return hook


def _ascii_query(call: FaultyCall, params: Json) -> Json:
    """Read ids as an unescaped query would have them."""
    from urllib.parse import quote

    return {k: quote(v) if k == "contextId" and isinstance(v, str) else v for k, v in params.items()}


def _forgets(*names: str) -> Any:
    def hook(call: FaultyCall, params: Json) -> Json:
        return {k: v for k, v in params.items() if k not in names} if call.operation == "ListTasks" else params

    return hook


def _plain_success(call: FaultyCall, packet: Packet) -> Packet:
    return (
        headers(content_type="text/plain")(call, packet)
        if "event-stream" not in packet.headers["content-type"]
        else packet
    )


def _as_json(call: FaultyCall, packet: Packet) -> Packet:
    return (
        headers(content_type="application/json")(call, packet)
        if "event-stream" not in packet.headers["content-type"]
        else packet
    )


def _unauthenticated(**fields: Any) -> Any:
    return error_as("Unauthenticated", **fields)


def _no_challenge(call: FaultyCall, packet: Packet) -> Packet:
    return headers(www_authenticate=None)(call, packet) if packet.status == 401 else packet


def _thin(result: Json) -> Json:
    return {k: v for k, v in result.items() if k not in ("skills", "version")}


def _public_secret(result: Json) -> Json:
    return {**result, "description": "Uses the key sk-live-51H8aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789."}


def _switch(
    name: str, says: str, *breaks: str, variant: str = "full", bindings: tuple[str, ...] = (*HTTP, "GRPC")
) -> Fault:
    return Fault(name, says, breaks, variant=variant, bindings=bindings, switches=frozenset({name}))


ERROR_FAULTS = (
    *_codes(),
    *_extended_codes(),
    _switch("refuse-required", "Callers that know the required extension are refused.", "EXT-002", variant="strict"),
    Fault(
        "no-commas",
        "A list of extensions is read as one.",
        ("EXT-005",),
        "strict",
        HTTP,
        switches=frozenset({"no-commas"}),
    ),
    Fault(
        "rest-only-a2a-json",
        "application/json is refused.",
        ("HJ-003",),
        bindings=("HTTP+JSON",),
        switches=frozenset({"only-a2a-json"}),
    ),
    Fault(
        "rest-no-subscribe",
        "There is no way to subscribe over REST.",
        ("SUB-007",),
        bindings=("HTTP+JSON",),
        request=_missing("SubscribeToTask"),
    ),
    Fault(
        "grpc-no-list",
        "gRPC does not list tasks, the others do.",
        ("EQ-001",),
        bindings=("GRPC",),
        request=_missing("ListTasks"),
    ),
    Fault(
        "grpc-lost-artifacts",
        "gRPC streams no artifacts, the others do.",
        ("EQ-004",),
        bindings=("GRPC",),
        event=_no_artifacts,
    ),
    Fault(
        "error-no-message",
        "Errors have an empty message.",
        ("ERR-001",),
        bindings=("JSONRPC",),
        envelope=_error_member(lambda e: e.update(message="")),
    ),
    Fault(
        "error-text-code",
        "JSON-RPC error codes are strings.",
        ("ERR-001",),
        bindings=("JSONRPC",),
        envelope=_error_member(lambda e: e.update(code=str(e["code"]))),
    ),
    Fault(
        "error-data-object",
        "error.data is an object.",
        ("ERR-002",),
        bindings=("JSONRPC",),
        envelope=_error_member(lambda e: e.update(data={"hint": "look"})),
    ),
    Fault(
        "error-untyped", "Error details have no @type.", ("ERR-002", "ERR-004"), bindings=HTTP, error=_details(_untyped)
    ),
    Fault("error-no-info", "A2A errors have no ErrorInfo.", ("ERR-003", "ERR-005", "ERR-006"), error=_no_details),
    Fault(
        "error-reason",
        "ErrorInfo has a wrong reason.",
        ("ERR-003", "ERR-005", "ERR-006"),
        error=_details(_wrong_reason),
    ),
    Fault(
        "error-domain",
        "ErrorInfo has a wrong domain.",
        ("ERR-003", "ERR-005", "ERR-006"),
        error=_details(_wrong_domain),
    ),
    Fault("error-problem-json", "REST errors are problem+json.", ("ERR-004",), bindings=("HTTP+JSON",), envelope=_flat),
    Fault("error-no-violations", "Validation errors do not name the field.", ("ERR-007",), error=_no_violations),
    Fault(
        "json-500",
        "Malformed JSON gives a plain 500.",
        ("ERR-008",),
        bindings=("JSONRPC",),
        packet=_crash_on("x"),
    ),
    Fault(
        "json-code",
        "Malformed JSON is an invalid request.",
        ("ERR-008",),
        bindings=("JSONRPC",),
        error=_early("JSONParse", -32600),
    ),
    Fault(
        "request-code",
        "An invalid request is invalid params.",
        ("ERR-009", "ERR-010", "ERR-011"),
        bindings=("JSONRPC",),
        error=_early("InvalidRequest", -32602),
    ),
    Fault(
        "method-code",
        "An unknown method is an invalid request.",
        ("ERR-012", "ERR-013"),
        bindings=("JSONRPC",),
        error=_early("MethodNotFound", -32600),
    ),
    Fault(
        "params-code",
        "Invalid params are an invalid request.",
        ("ERR-014", "VAL-001"),
        bindings=("JSONRPC",),
        error=_early("InvalidParams", -32600),
    ),
    Fault(
        "params-crash",
        "Invalid params are an internal error with a stack trace.",
        ("VAL-001", "VAL-004"),
        error=_crash_on_params,
    ),
    Fault("id-as-text", "Response ids are strings always.", ("ERR-015",), bindings=("JSONRPC",), envelope=_id_as_text),
    Fault(
        "id-missing",
        "Responses have no id.",
        ("ERR-015",),
        bindings=("JSONRPC",),
        envelope=lambda c, e: {k: v for k, v in e.items() if k != "id"},
    ),
    Fault("jsonrpc-missing", "Responses have no jsonrpc.", ("JR-003",), bindings=("JSONRPC",), envelope=_no_version),
    Fault(
        "jsonrpc-text", "JSON-RPC responses are text/plain.", ("JR-001",), bindings=("JSONRPC",), packet=_plain_success
    ),
    Fault(
        "jsonrpc-no-list",
        "There is no method ListTasks.",
        ("JR-002",),
        bindings=("JSONRPC",),
        request=_missing("ListTasks"),
    ),
    Fault(
        "rest-no-list", "There is no GET /tasks.", ("HJ-001",), bindings=("HTTP+JSON",), request=_missing("ListTasks")
    ),
    Fault("rest-json", "REST responses are application/json.", ("HJ-002",), bindings=("HTTP+JSON",), packet=_as_json),
    Fault(
        "rest-query-names",
        "pageSize is not read from the query.",
        ("HJ-004",),
        bindings=("HTTP+JSON",),
        request=_forgets("pageSize"),
    ),
    Fault(
        "rest-query-values",
        "status is not read from the query.",
        ("HJ-005",),
        bindings=("HTTP+JSON",),
        request=_forgets("status", "includeArtifacts", "statusTimestampAfter"),
    ),
    Fault(
        "rest-escapes",
        "Percent signs in the query are not decoded.",
        ("HJ-006",),
        bindings=("HTTP+JSON",),
        request=_ascii_query,
    ),
    Fault(
        "grpc-unimplemented",
        "GetTask is not implemented on gRPC.",
        ("GR-001",),
        bindings=("GRPC",),
        request=_missing("GetTask"),
    ),
    Fault(
        "any-version",
        "Every protocol version is accepted.",
        ("VER-001", "VER-002", "VER-004", "VER-007"),
        switches=frozenset({"any-version"}),
    ),
    Fault(
        "any-version-grpc",
        "gRPC ignores the version.",
        ("VER-001", "GR-002", "EQ-003"),
        bindings=("GRPC",),
        switches=frozenset({"any-version"}),
    ),
    Fault(
        "query-version",
        "A version in the query breaks the server.",
        ("VER-006",),
        bindings=("JSONRPC", "HTTP+JSON"),
        switches=frozenset({"query-version-breaks"}),
    ),
    _switch("any-minor", "Every minor version is accepted.", "VER-004"),
    _switch("no-version-is-1.0", "A missing version means 1.0.", "VER-002"),
    Fault("no-patch", "A patch version is refused.", ("VER-003",), request=_refuse_patch),
    _switch(
        "no-auth-missing",
        "Calls without credentials are answered.",
        "AUTH-001",
        "AUTH-005",
        "XCARD-003",
        variant="guarded",
    ),
    _switch("any-token", "Any bearer token is good.", "AUTH-002", variant="guarded"),
    Fault(
        "no-challenge",
        "A refusal has no WWW-Authenticate.",
        ("AUTH-003",),
        variant="guarded",
        bindings=HTTP,
        packet=_no_challenge,
    ),
    Fault(
        "auth-status",
        "A refusal is HTTP 400.",
        ("AUTH-004",),
        variant="guarded",
        error=_unauthenticated(http=400, grpc="INVALID_ARGUMENT"),
    ),
    Fault(
        "grpc-no-auth",
        "gRPC asks for no credentials.",
        ("AUTH-001", "AUTH-009"),
        variant="guarded",
        bindings=("GRPC",),
        switches=frozenset({"no-auth"}),
    ),
    _switch("no-scope", "Everybody sees every task.", "AUTH-006", "AUTH-007", "AUTH-008", variant="guarded"),
    _switch("list-all-owners", "Everybody's tasks are listed.", "LIST-017", variant="guarded"),
    Fault(
        "forbidden-task",
        "Another's task is forbidden, not unknown.",
        ("AUTH-008",),
        variant="guarded",
        switches=frozenset({"forbidden"}),
    ),
    Fault(
        "extended-open",
        "The undeclared extended card is given out.",
        ("XCARD-001",),
        error=answering("UnsupportedOperation", "GetExtendedAgentCard", lambda p: {"name": "x"}),
    ),
    Fault(
        "extended-code",
        "An extended card that is not configured is an internal error.",
        ("XCARD-002",),
        variant="guarded",
        switches=frozenset({"no-extended"}),
        error=error_as(
            "ExtendedAgentCardNotConfigured", code=-32603, http=500, grpc="INTERNAL", kind="Internal", details=()
        ),
    ),
    Fault(
        "extended-thin",
        "The extended card is incomplete.",
        ("XCARD-004",),
        variant="guarded",
        reply=only("GetExtendedAgentCard", _thin),
    ),
    Fault(
        "extended-no-caching",
        "The extended card has no caching headers.",
        ("XCARD-005",),
        variant="guarded",
        bindings=("HTTP+JSON",),
        packet=lambda c, p: (
            headers(cache_control=None, etag=None)(c, p) if c.operation == "GetExtendedAgentCard" else p
        ),
    ),
    Fault(
        "extended-secret",
        "The extended card has a key in it.",
        ("XCARD-006",),
        variant="guarded",
        reply=only("GetExtendedAgentCard", _public_secret),
    ),
    _switch("no-extension-check", "A required extension is not required.", "EXT-001", variant="strict"),
    Fault(
        "refuse-extensions", "Unknown extensions are refused.", ("EXT-003",), switches=frozenset({"refuse-extensions"})
    ),
    Fault(
        "any-extension",
        "Every extension asked for is activated.",
        ("EXT-004",),
        bindings=HTTP,
        switches=frozenset({"any-extension"}),
    ),
    _switch("one-tenant", "Tenants share their tasks.", "TEN-002", variant="tenant"),
    _switch("no-tenant", "A request with a tenant is refused.", "TEN-001", variant="tenant"),
    Fault(
        "grpc-other-task",
        "gRPC shows another status than HTTP.",
        ("EQ-002",),
        bindings=("GRPC",),
        reply=only("GetTask", lambda r: {**r, "status": {**r["status"], "state": "TASK_STATE_FAILED"}}),
    ),
    Fault(
        "rest-other-error",
        "REST gives another error than JSON-RPC.",
        ("EQ-003", "ERR-HTTP-TaskNotFound"),
        bindings=("HTTP+JSON",),
        error=error_as("TaskNotFound", http=400, grpc="INVALID_ARGUMENT", kind="InvalidParams", details=()),
    ),
)
