"""What a request is: its method and message id, as far as they can be read (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.a2a.card import CARD_PATH, LEGACY_CARD_PATH

_SENDS = ("SendMessage", "SendStreamingMessage", "message/send", "message/stream")
_TASKS = ("GetTask", "SubscribeToTask", "TaskSubscription", "tasks/get", "tasks/resubscribe")
_CARDS = ("GetExtendedAgentCard", "GetAgentCard", "agent/getAuthenticatedExtendedCard")
_REST_SEND = re.compile(r"/message:(send|stream)$")
_REST_TASK = re.compile(r"/tasks/[^/:]+(:subscribe)?$")
_REST_CARD = re.compile(r"/(extendedAgentCard|v1/card)$")


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a client.

    :param transport: ``jsonrpc``, ``rest``, ``grpc``, or ``http`` for what is none of these.
    :param method: JSON-RPC's or gRPC's name, or HTTP's method and path.
    :param kind: ``send``, ``task``, ``card`` or ``other``.
    :param begins: whether it sends a message that names no conversation, so that the answer does.
    """

    transport: str
    method: str
    kind: str
    message_id: str | None = None
    begins: bool = False


def read_http_call(method: str, target: str, body: bytes) -> Call:
    """Read an HTTP request.

    :param target: the request's path with its query.
    """
    path = target.partition("?")[0]
    name = f"{method} {path}"
    if path.endswith((CARD_PATH, LEGACY_CARD_PATH)):
        return Call("http", name, "card")
    if method == "GET" and _REST_CARD.search(path):
        return Call("rest", name, "card")
    if _REST_TASK.search(path) and method in ("GET", "POST"):
        return Call("rest", name, "task")
    content = read_json(body)
    if method == "POST" and _REST_SEND.search(path):
        return Call("rest", name, "send", message_id_in(content), begins=begins_in(content))
    if isinstance(content, Mapping) and isinstance(content.get("method"), str):
        kind, params = kind_of(content["method"]), content.get("params")
        return Call(
            "jsonrpc", content["method"], kind, message_id_in(params), begins=kind == "send" and begins_in(params)
        )
    return Call("http", name, "other")


def kind_of(method: str) -> str:
    """Return the kind of a JSON-RPC or gRPC method."""
    kinds = (("send", _SENDS), ("task", _TASKS), ("card", _CARDS))
    return next((kind for kind, names in kinds if method in names), "other")


def message_id_in(params: Any) -> str | None:
    """Return the message id in the parameters of a send; gRPC's 0.3 calls the message ``request``."""
    found = _message_in(params).get("messageId")
    return found if isinstance(found, str) and found else None


def begins_in(params: Any) -> bool:
    """Tell whether the parameters of a send name no conversation."""
    return not _message_in(params).get("contextId")


def _message_in(params: Any) -> Mapping[str, Any]:
    if not isinstance(params, Mapping):
        return {}
    message = params.get("message") or params.get("request")
    return message if isinstance(message, Mapping) else {}


def read_json(body: bytes | str) -> Any:
    """Return what a JSON text says; None where it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
