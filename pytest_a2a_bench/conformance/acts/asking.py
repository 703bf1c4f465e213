"""Steps on the wire: operations of ACTS in our own words, requests made by hand, and answers as it addresses them."""

from __future__ import annotations

import itertools
import json
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.a2a.card import card_urls
from pytest_a2a_bench.conformance.acts.document import ExpectStream, Raw
from pytest_a2a_bench.conformance.acts.streams import view
from pytest_a2a_bench.conformance.acts.values import MISSING
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS, SENDING, STREAMING
from pytest_a2a_bench.conformance.wire.exchange import Redactor
from pytest_a2a_bench.conformance.wire.http import HttpWire
from pytest_a2a_bench.conformance.wire.reply import UNSET, WireReply, WireRequest

STREAM_SECONDS = 30.0
"""How long a stream may take that says nothing about it; no test of the public suite does."""

CARD = "GetAgentCard"
NAMES: Mapping[str, str] = {
    "send_message": "SendMessage",
    "send_streaming_message": "SendStreamingMessage",
    "get_task": "GetTask",
    "list_tasks": "ListTasks",
    "cancel_task": "CancelTask",
    "subscribe_to_task": "SubscribeToTask",
    "get_agent_card": CARD,
    "get_extended_agent_card": "GetExtendedAgentCard",
    "create_push_config": "CreateTaskPushNotificationConfig",
    "get_push_config": "GetTaskPushNotificationConfig",
    "list_push_configs": "ListTaskPushNotificationConfigs",
    "delete_push_config": "DeleteTaskPushNotificationConfig",
}
_METHODS = {method: op.name for op in OPERATIONS.values() for method in (op.name, op.rpc03) if method}
_PATHS = {
    re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(op.rest[1])) + "$"): op.name
    for op in OPERATIONS.values()
    if op.rest[0] == "POST"
}
_OF_MESSAGE = ("taskId", "contextId")
# What AIP-193 makes of a gRPC status; ACTS says of every binding what HTTP would say.
_HTTP = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one step.

    :param body: what assertions are about: the operation's result, or of a request by hand the whole document.
    :param events: of a stream, as :func:`.streams.view` gives them; None where no stream was asked for.
    """

    reply: WireReply
    body: Any
    events: list[Any] | None = None
    status: int | None = field(default=None)

    @property
    def source(self) -> Any:
        """What ``{{step.response}}`` means."""
        return self.body if self.events is None else self.events


def operation_of(name: str, params: Mapping[str, Any]) -> str:
    """Return our name of an operation; one parameter of ``get_agent_card`` makes it another."""
    if name == "get_agent_card" and params.get("extended") is True:
        return "GetExtendedAgentCard"
    return NAMES[name]


def sent_by(raw: Raw) -> str:
    """Return the operation of a request by hand; empty where it is none.

    A POST that nobody knows is taken for a message: a budget must hold for whatever an agent takes for one.
    """
    path = urllib.parse.unquote(re.split(r"[?#]", raw.path)[0]).rstrip("/")
    # A tenant, or the path of the interface, may stand before it.
    by_path = next((name for end, name in _PATHS.items() if end.search(path)), "")
    document = document_of(raw)
    method = document.get("method") if isinstance(document, Mapping) else None
    by_method = _METHODS.get(method, "") if isinstance(method, str) else ""
    found = by_path if by_path in SENDING else by_method or by_path
    return found or ("SendMessage" if raw.method == "POST" else "")


def document_of(raw: Raw) -> Any:
    """Return the body of a request by hand as JSON; None where it is none."""
    if raw.body_raw is None:
        return raw.body
    try:
        return json.loads(raw.body_raw)
    except (ValueError, RecursionError):
        return None


def params_of(raw: Raw) -> Mapping[str, Any]:
    """Return the parameters of a request by hand, as far as can be told."""
    document = document_of(raw)
    found = document.get("params") if isinstance(document, Mapping) and "method" in document else document
    return found if isinstance(found, Mapping) else {}


async def ask(
    ctx: Context, name: str, params: Mapping[str, Any], stream: ExpectStream | None, cut: int | None = None
) -> Answer:
    """Ask an operation.

    :param cut: how many events of a stream are read before it is hung up; None to read it to its end.
    """
    operation = operation_of(name, params)
    if operation == CARD:
        return await _card(ctx)
    sent = placed(operation, params, ctx.message("")["messageId"])
    if operation not in STREAMING:
        return _answer(await ctx.call(operation, sent))
    reply = await ctx.call(operation, sent, **_reading(stream, cut))
    return _answer(reply, events=[view(event) for event in reply.events])


async def ask_by_hand(
    ctx: Context, raw: Raw, stream: ExpectStream | None, cut: int | None = None, *, auth: bool
) -> Answer:
    """Send a request as it is written.

    :param cut: as :func:`ask` takes it.
    :param auth: whether to send the user's credentials with it.
    """
    body = raw.body_raw if raw.body_raw is not None else raw.body
    at_root = raw.path in ("", "/")
    reply = await ctx.call(
        sent_by(raw) or "Request",
        params_of(raw),
        headers=raw.headers,
        version_header=None,
        body=body if body is not None else UNSET,
        http_method=raw.method,
        # The address of the interface as the card has it: with a slash more it may be another one.
        path=None if at_root and ctx.binding == "JSONRPC" else raw.path,
        auth=auth,
        spell=False,
        **(_reading(stream, cut) if stream is not None else {"stream": False}),
    )
    document = reply.document if reply.document is not None else MISSING
    return _answer(reply, body=document, events=list(reply.documents) if stream is not None else None)


def _reading(stream: ExpectStream | None, cut: int | None) -> dict[str, Any]:
    seconds = stream.timeout_ms / 1000 if stream is not None and stream.timeout_ms is not None else STREAM_SECONDS
    read = itertools.count(1)
    return {"stream": True, "timeout": seconds, "until": (lambda _: next(read) >= cut) if cut is not None else None}


def _answer(reply: WireReply, body: Any = None, events: list[Any] | None = None) -> Answer:
    status = reply.status
    if reply.exchange.binding == "GRPC":
        grpc = reply.error.grpc_status if reply.error is not None else ""
        status = 200 if reply.ok else _HTTP.get(grpc, 500) if grpc else None
    found = body if body is not None else reply.result if reply.result is not None else MISSING
    return Answer(reply, found, events, status)


def placed(operation: str, params: Mapping[str, Any], message_id: str) -> dict[str, Any]:
    """Put members where the request has them: ACTS writes some beside the message or the configuration they are of.

    :param message_id: of a message that has none.
    """
    found = dict(params)
    if operation in SENDING and isinstance(found.get("message"), Mapping):
        moved = {name: found.pop(name) for name in _OF_MESSAGE if name in found}
        found["message"] = {"messageId": message_id, **moved, **found["message"]}
    if operation == NAMES["create_push_config"] and isinstance(found.get("pushNotificationConfig"), Mapping):
        found = {**found.pop("pushNotificationConfig"), **found}
    if operation == NAMES["get_extended_agent_card"]:
        found.pop("extended", None)
    return found


async def _card(ctx: Context) -> Answer:
    """Get the card, as it is served; once for all tests of the interface."""
    return await ctx.shared("acts-card", lambda: _get_card(ctx))


async def _get_card(ctx: Context) -> Answer:
    target = ctx.target
    for url in card_urls(target.endpoint or target.url):
        wire = HttpWire(
            url, "HTTP+JSON", "1.0", auth=target.auth, network=target.network, redactor=Redactor(target.secrets)
        )
        try:
            request = WireRequest(CARD, version_header="1.0", http_method="GET", path="", timeout=target.timeout)
            found = _answer(await wire.call(request))
        finally:
            await wire.close()
        if found.reply.ok:
            break
    return found
