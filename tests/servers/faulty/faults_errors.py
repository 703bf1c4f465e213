"""Faults of errors and envelopes, of the bindings, of the card as it is served, and of who may ask what and how.

What is wrong inside a card is told by the vectors (``conformance/data``), which need no server.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from faulty.fault import (
    Fault,
    FaultyCall,
    Json,
    Packet,
    answering,
    card_fault,
    delivery_headers,
    dropped,
    error_as,
    headers,
    ignoring,
    lacking,
    losing,
    only,
    refusing,
)
from faulty.problems import A2A_KINDS, Problem, failure

# The error, and where the server is that shows it.
_WITH_CODES: dict[str, dict[str, Any]] = {
    "TaskNotFound": {},
    "TaskNotCancelable": {},
    "PushNotificationNotSupported": {"variant": "bare"},
    "UnsupportedOperation": {},
    "ContentTypeNotSupported": {},
    "ExtensionSupportRequired": {"variant": "strict"},
    "VersionNotSupported": {},
    "ExtendedAgentCardNotConfigured": {"variant": "guarded", "switches": frozenset({"no-extended"})},
}
_WRONG_CODES: dict[str, Any] = {
    "JSON": ("JSONRPC", {"code": -32603}),
    "HTTP": ("HTTP+JSON", {"http": 500}),
    "GRPC": ("GRPC", {"grpc": "INTERNAL"}),
}
CODE_FAULTS = tuple(
    Fault(
        name=f"code-{short.lower()}-{kind}",
        says=f"{kind}Error is {', '.join(map(str, fields.values()))} on {binding}.",
        breaks=(f"ERR-{short}-{kind}",),
        bindings=(binding,),
        error=error_as(kind, **fields).error,
        **where,
    )
    for kind, where in _WITH_CODES.items()
    for short, (binding, fields) in _WRONG_CODES.items()
)
"""One fault for each error and binding: a code that is not its own. Words and deeds are of one form."""


def _crash_on(kind: str) -> Any:
    """Return a packet hook for a server that answers one kind of mistake with a web server's page."""

    def hook(call: FaultyCall, packet: Packet) -> Packet:
        shown = json.loads(packet.body or b"{}").get("error", {}) if packet.body.startswith(b"{") else {}
        if shown.get("code") in (kind, -32700) and call.binding == "JSONRPC":
            return Packet(500, {"content-type": "text/plain"}, b"Internal Server Error")
        return packet

    return hook


def _id_as_text(call: FaultyCall, envelope: Json) -> Json:
    return {**envelope, "id": str(envelope["id"])} if isinstance(envelope.get("id"), int) else envelope


def _crash(call: FaultyCall, problem: Problem) -> Problem:
    message = 'Traceback (most recent call last):\n  File "/srv/agent/server.py", line 81, in handle\nKeyError: message'
    return replace(problem, code=-32603, http=500, grpc="INTERNAL", message=message, details=(), kind="Internal")


def _ascii_query(call: FaultyCall, params: Json) -> Json:
    """Read ids as an unescaped query would have them."""
    return {k: quote(v) if k == "contextId" and isinstance(v, str) else v for k, v in params.items()}


def _called(media_type: str) -> Any:
    """Return a packet hook that gives all answers but streams another media type."""
    change = headers(content_type=media_type)

    def hook(call: FaultyCall, packet: Packet) -> Packet:
        return packet if "event-stream" in packet.headers["content-type"] else change(call, packet)

    return hook


def _rpc_error(change: Callable[[Json], None]) -> Fault:
    """Return a fault of the ``error`` member of JSON-RPC, which the change alters in place."""

    def hook(_: FaultyCall, envelope: Json) -> Json:
        if isinstance(envelope.get("error"), dict):
            change(envelope["error"])
        return envelope

    return Fault(envelope=hook)


def _detail(change: Callable[[Json], Json]) -> Fault:
    """Return a fault of every detail of an error."""

    def hook(_: FaultyCall, problem: Problem) -> Problem:
        return replace(problem, details=tuple(change(dict(detail)) for detail in problem.details))

    return Fault(error=hook)


def _configured(name: str) -> Callable[[Json], Any]:
    return lambda params: name in (params.get("configuration") or {})


_LIST_TASKS, _CREATE = "ListTasks", "CreateTaskPushNotificationConfig"
BREAKDOWNS: dict[str, tuple[str, Callable[[Json], Any]]] = {
    "list-plain": (_LIST_TASKS, lambda p: not set(p) - {"pageSize"}),
    "list-history": (_LIST_TASKS, lambda p: p.get("historyLength")),
    "list-artifacts": (_LIST_TASKS, lambda p: p.get("includeArtifacts")),
    "list-after": (_LIST_TASKS, lambda p: p.get("statusTimestampAfter")),
    "list-next": (_LIST_TASKS, lambda p: p.get("pageToken")),
    "push-inline": ("SendMessage", _configured("taskPushNotificationConfig")),
    "push-auth": (_CREATE, lambda p: p.get("authentication")),
    "push-token": (_CREATE, lambda p: p.get("token")),
    "output-modes": ("SendMessage", _configured("acceptedOutputModes")),
    "message-metadata": ("SendMessage", lambda p: (p.get("message") or {}).get("metadata")),
    "request-metadata": ("SendMessage", lambda p: p.get("metadata")),
    "cancel-metadata": ("CancelTask", lambda p: p.get("metadata")),
    "get-history": ("GetTask", lambda p: "historyLength" in p),
}
"""Valid requests that an agent may fail at while it answers all others: operation, and what its parameters are then."""


ERROR_FAULTS: dict[str, Fault] = {
    **{f"break-{name}": refusing(*found, "Internal") for name, found in BREAKDOWNS.items()},
    "rest-no-subscribe": lacking("SubscribeToTask"),
    "grpc-no-list": lacking("ListTasks"),
    "grpc-lost-artifacts": losing("artifactUpdate"),
    "error-no-message": _rpc_error(lambda e: e.update(message="")),
    "error-text-code": _rpc_error(lambda e: e.update(code=str(e["code"]))),
    "error-data-object": _rpc_error(lambda e: e.update(data={"hint": "look"})),
    "error-untyped": _detail(lambda detail: dropped(detail, "@type")),
    "error-no-info": Fault(error=lambda call, p: replace(p, details=()) if p.kind in A2A_KINDS else p),
    "cancel-no-info": Fault(error=lambda call, p: replace(p, details=()) if p.kind == "TaskNotCancelable" else p),
    "error-reason": _detail(lambda detail: detail | ({"reason": "ERROR"} if "reason" in detail else {})),
    "error-domain": _detail(lambda detail: detail | ({"domain": "example.com"} if "domain" in detail else {})),
    "error-problem-json": Fault(
        envelope=lambda _, shown: {"status": shown["error"]["code"], "detail": shown["error"]["message"], "errors": []}
    ),
    "error-no-violations": error_as("InvalidParams", details=()),
    "json-500": Fault(packet=_crash_on("x")),
    "rest-json-500": error_as("JSONParse", http=500, grpc="INTERNAL", details=()),
    "json-code": error_as("JSONParse", code=-32600),
    "request-code": error_as("InvalidRequest", code=-32602),
    "method-code": error_as("MethodNotFound", code=-32600),
    "params-code": error_as("InvalidParams", code=-32600),
    "params-crash": Fault(error=lambda call, p: _crash(call, p) if p.kind == "InvalidParams" else p),
    "id-as-text": Fault(envelope=_id_as_text),
    "id-as-text-in-results": Fault(
        envelope=lambda call, envelope: _id_as_text(call, envelope) if "result" in envelope else envelope
    ),
    "id-as-number": Fault(
        envelope=lambda _, envelope: (
            {**envelope, "id": int(envelope["id"])} if str(envelope.get("id")).isdigit() else envelope
        )
    ),
    "id-missing": Fault(envelope=lambda _, envelope: dropped(envelope, "id")),
    "jsonrpc-missing": Fault(envelope=lambda _, envelope: dropped(envelope, "jsonrpc")),
    "jsonrpc-text": Fault(packet=_called("text/plain")),
    "jsonrpc-no-list": lacking("ListTasks"),
    "rest-no-list": lacking("ListTasks"),
    "rest-json": Fault(packet=_called("application/json")),
    "rest-query-names": ignoring("ListTasks", "pageSize"),
    "rest-query-values": ignoring("ListTasks", "status", "includeArtifacts", "statusTimestampAfter"),
    "rest-escapes": Fault(request=_ascii_query),
    "grpc-unimplemented": lacking("GetTask"),
    "grpc-other-task": only("GetTask", lambda r: {**r, "status": {**r["status"], "state": "TASK_STATE_FAILED"}}),
    "rest-other-error": error_as("TaskNotFound", http=400, grpc="INVALID_ARGUMENT", kind="InvalidParams", details=()),
}


# -- the card, versions, credentials and extensions --


def _refuse_patch(call: FaultyCall, params: Json) -> Json:
    if call.version.count(".") > 1:
        raise failure("VersionNotSupported", f"version {call.version} is not supported")
    return params


def _no_challenge(call: FaultyCall, packet: Packet) -> Packet:
    return headers(www_authenticate=None)(call, packet) if packet.status == 401 else packet


ACCESS_FAULTS: dict[str, Fault] = {
    "card-not-served": card_fault(
        lambda card: card["supportedInterfaces"].append({**card["supportedInterfaces"][0], "protocolVersion": "0.3"})
    ),
    "card-doubled-path": card_fault(
        lambda card: [i.update(url=f"{i['url'].rstrip('/')}/a2a/a2a") for i in card["supportedInterfaces"][:1]]
    ),
    "card-hidden-binding": card_fault(
        lambda card: card.update(
            supportedInterfaces=[i for i in card["supportedInterfaces"] if i["protocolBinding"] == "JSONRPC"]
        )
    ),
    "card-wrong-binding": card_fault(lambda card: card["supportedInterfaces"][0].update(protocolBinding="HTTP+JSON")),
    "card-no-name": card_fault(lambda card: card.pop("name")),
    "card-missing": Fault(card_packet=lambda packet: Packet(404, {"content-type": "text/plain"}, b"not found")),
    "card-array": Fault(card_packet=lambda packet: packet._replace(body=b"[" + packet.body + b"]")),
    "card-no-cache-control": Fault(card_packet=delivery_headers(cache_control=None)),
    "card-no-etag": Fault(card_packet=delivery_headers(etag=None)),
    "sign-stale": Fault(signed=lambda card: {**card, "description": "What it was once."}),
    "old-card-wrong-transport": card_fault(
        lambda card: card["additionalInterfaces"][1].update(url=f"{card['url'].rstrip('/')}/nowhere")
    ),
    "no-patch": Fault(request=_refuse_patch),
    "no-challenge": Fault(packet=_no_challenge),
    "auth-status": error_as("Unauthenticated", http=400, grpc="INVALID_ARGUMENT"),
    "extended-open": answering("UnsupportedOperation", "GetExtendedAgentCard", lambda p: {"name": "x"}),
    "extended-code": error_as(
        "ExtendedAgentCardNotConfigured", code=-32603, http=500, grpc="INTERNAL", kind="Internal", details=()
    ),
    "extended-thin": only("GetExtendedAgentCard", lambda card: dropped(card, "skills", "version")),
    "extended-no-caching": Fault(
        packet=lambda c, p: headers(cache_control=None, etag=None)(c, p) if c.operation == "GetExtendedAgentCard" else p
    ),
    "extended-secret": only(
        "GetExtendedAgentCard",
        lambda card: card.update(description="Uses the key sk-live-51H8aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789."),
    ),
}
