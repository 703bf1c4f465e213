"""How calls and answers are spelled in each version and over HTTP: parameters, envelopes, errors and events."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from http import client
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2, conversions, proto_utils
from a2a.types import a2a_pb2
from google.protobuf import json_format

from pytest_a2a_bench.conformance.clients.agent import Answer, Call
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS
from pytest_a2a_bench.conformance.wire.reply import ERROR_INFO, ERRORS
from pytest_a2a_bench.conformance.wire.webhook import HttpAnswer

_ODD = {"notYetInvented": {"members": [1, "of a later version"]}}


def rest_operation(
    version: str, verb: str, path: str, body: Mapping[str, Any], query: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    """Return the operation that a request of HTTP+JSON is, and its parameters; an empty name where it is none."""
    for name, op in OPERATIONS.items():
        wanted, template = op.rest03 if version == "0.3" else op.rest
        verbs = {"GET", "POST"} if name == "SubscribeToTask" else {wanted}  # the specification contradicts itself
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/:]+)", re.escape(template))
        tenant = r"(?:/(?P<tenant>[^/]+))?" if version == "1.0" else ""
        if template and verb in verbs and (found := re.fullmatch(tenant + pattern, path)):
            inside = {k: urllib.parse.unquote(v) for k, v in found.groupdict().items() if v is not None}
            return name, {**query, **body, **inside}
    return "", {}


def read_params(call: Call) -> Mapping[str, Any]:
    """Return parameters with the names of protobuf's JSON, whose readers know those of the proto file as well."""
    op = OPERATIONS.get(call.operation)
    name = "" if op is None else op.request if call.version == "1.0" else op.grpc03[1]
    if not name or (call.version == "0.3" and call.binding == "JSONRPC"):
        return call.params
    module: Any = a2a_pb2 if call.version == "1.0" else a2a_v0_3_pb2
    try:
        message = json_format.ParseDict(call.params, getattr(module, name)(), ignore_unknown_fields=True)
    # ParseDict raises more than its own ParseError for values of a wrong kind.
    except (json_format.ParseError, TypeError, AttributeError, ValueError, RecursionError):
        return call.params
    # 0.3 has the task in the path under another name.
    return {**{k: v for k, v in call.params.items() if k in ("id", "taskId")}, **json_format.MessageToDict(message)}


def spell_http(call: Call, answer: Answer, id: Any) -> HttpAnswer:
    """Return an answer as HTTP has it.

    :param id: of the JSON-RPC request.
    """
    rpc = call.binding == "JSONRPC"
    media = "application/json" if rpc or call.version == "0.3" else "application/a2a+json"

    def write(value: Any, name: str = "result") -> bytes:
        document = {"jsonrpc": "2.0", "id": id, name: value} if rpc else value
        return json.dumps(
            with_odd(document) if answer.situation == "unknown-fields" else document, ensure_ascii=False
        ).encode()

    if answer.status:
        text = json.dumps({"error": client.responses.get(answer.status, "")}).encode()
        return HttpAnswer(answer.status, {"Content-Type": "application/json", **answer.headers}, (text,))
    if answer.error:
        row = ERRORS[answer.error]
        details = [{"@type": f"type.googleapis.com/{ERROR_INFO}", "reason": row.reason, "domain": "a2a-protocol.org"}]
        problem = {"code": row.code, "message": answer.message or row.name, **({"data": details} if row.reason else {})}
        if rpc:
            return HttpAnswer(200, {"Content-Type": media}, (write(problem, "error"),))
        status = {"code": row.http, "status": row.grpc, "message": answer.message, "details": details}
        return HttpAnswer(row.http, {"Content-Type": media}, (json.dumps({"error": status}).encode(),))
    if answer.events is None:
        if answer.cut:
            return HttpAnswer(0)
        return HttpAnswer(200, {"Content-Type": media}, (write(spell(call, answer.kind, answer.result)),))
    events = [write(spell(call, "event", event)).decode() for event in answer.events]
    return HttpAnswer(200, {"Content-Type": "text/event-stream"}, tuple(_sse(events, answer.situation)), answer.cut)


def _sse(events: Iterable[str], situation: str) -> Iterator[bytes]:
    """Write events as the standard allows it (WHATWG HTML, 9.2)."""
    end = {"sse-crlf": "\r\n", "sse-cr": "\r"}.get(situation, "\n")
    for number, event in enumerate(events):
        lines = [f"data: {event}"]
        if situation == "sse-multiline":
            # A line break between two tokens of JSON is none of its text.
            laid_out = json.dumps(json.loads(event), indent=1, ensure_ascii=False)
            lines = [f"data:{' ' if number else ''}{line}" for line in laid_out.split("\n")]
        if situation == "sse-comments":
            lines = [": keep-alive", "", "event: message", f"id: {number}", "retry: 1000", ":", *lines, ": end"]
        yield "".join(line + end for line in [*lines, ""]).encode()


def with_odd(value: Any) -> Any:
    """Add a member that no version of the protocol has to each object."""
    if isinstance(value, list):
        return [with_odd(item) for item in value]
    return {**{k: with_odd(v) for k, v in value.items()}, **_ODD} if isinstance(value, dict) else value


def spell(call: Call, kind: str, value: Any) -> Any:
    """Return a result of 1.0 as the version and the binding of a call have it."""
    if call.version == "1.0":
        return {} if kind == "empty" else value
    proto = call.binding != "JSONRPC"
    if kind == "empty":
        return {} if proto else None
    if kind in ("pushes", "tasks"):
        name = "configs" if kind == "pushes" else "tasks"
        every = [spell(call, kind[:-2] if kind == "pushes" else "task", one) for one in value[name]]
        return {name: every} if proto else every
    if kind == "push":
        config = json_format.ParseDict(value, a2a_pb2.TaskPushNotificationConfig())
        old: Any = conversions.to_compat_task_push_notification_config(config)
        message: Any = proto_utils.ToProto.task_push_notification_config
    else:
        wrapped = {"task": value} if kind == "task" else value
        core = json_format.ParseDict(wrapped, a2a_pb2.StreamResponse())
        old = conversions.to_compat_stream_response(core).result
        state = getattr(getattr(old, "status", None), "state", None)
        if hasattr(old, "final") and state is not None:
            old.final = state.value not in ("submitted", "working")
        message = proto_utils.ToProto.task if kind == "task" else proto_utils.ToProto.stream_response
    if proto:
        return json_format.MessageToDict(message(old))
    return old.model_dump(mode="json", by_alias=True, exclude_none=True)
