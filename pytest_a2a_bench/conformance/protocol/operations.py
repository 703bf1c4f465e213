"""The eleven operations, how each binding and version spells them, and parameters of 1.0 in the form of 0.3 (pure)."""

from __future__ import annotations

import re
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.conformance import data

STREAMING = frozenset({"SendStreamingMessage", "SubscribeToTask"})
SENDING = ("SendMessage", "SendStreamingMessage")


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of A2A 1.0.

    :param rest: HTTP method and path template of 1.0; ``{id}`` and ``{taskId}`` are taken out of the parameters.
    :param request: name of the protobuf request message of 1.0; the reply's is ``reply``.
    :param rpc03: JSON-RPC method of 0.3, empty where 0.3 has none.
    :param grpc03: gRPC method, request and reply message of 0.3.
    """

    name: str
    rest: tuple[str, ...]
    request: str
    reply: str
    rpc03: str = ""
    rest03: tuple[str, ...] = ("", "")
    grpc03: tuple[str, ...] = ("", "", "")


def _load() -> Iterator[Operation]:
    for row in data.load("operations.jsonl"):
        spelled = {key: tuple(row[key].split()) for key in ("rest", "rest03", "grpc03") if key in row}
        yield Operation(**{**row, **spelled})


OPERATIONS: Mapping[str, Operation] = {op.name: op for op in _load()}


PUSH = tuple(name for name in OPERATIONS if "PushNotification" in name)
CAPABILITIES: Mapping[str, str] = {
    "GetExtendedAgentCard": "extendedAgentCard",
    **dict.fromkeys(STREAMING, "streaming"),
    **dict.fromkeys(PUSH, "pushNotifications"),
}
"""Operation -> the capability of the card that it needs; the others need none."""
NEVER_CALLED = "https://webhook.example.org/never-called?attempt=1&of=a%20b"
"""A reserved name (RFC 2606): a webhook there leads nowhere."""


def message(text: Any, **fields: Any) -> dict[str, Any]:
    """Return a message of the user in the form of 1.0; ``fields`` are added, or replace members."""
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **fields}


def about(operation: str, task: str) -> dict[str, Any]:
    """Return parameters of an operation about a task; where no agent knows its id, they change nothing."""
    if operation.startswith("Send"):
        return {"message": message("x", taskId=task)}
    if operation in PUSH:
        named = {} if operation.startswith("List") else {"id": "any"}
        return {"taskId": task, **named, **({"url": NEVER_CALLED} if operation.startswith("Create") else {})}
    if operation in ("ListTasks", "GetExtendedAgentCard"):
        return {"pageSize": 1} if operation == "ListTasks" else {}
    return {"id": task}


@dataclass(frozen=True, slots=True)
class RestCall:
    """One request of the HTTP+JSON binding."""

    verb: str
    path: str
    query: Mapping[str, str]
    body: Any = None


def rest_call(op: Operation, params: Mapping[str, Any], *, version: str, tenant: str = "") -> RestCall:
    """Spell an operation for HTTP+JSON: ids into the path, the rest into the body or, for GET, into the query."""
    verb, template = op.rest03 if version == "0.3" else op.rest
    rest = dict(params)

    def take(match: re.Match[str]) -> str:
        # safe="" so that an id with a slash stays one segment of the path.
        return urllib.parse.quote(str(rest.pop(match.group(1), "")), safe="")

    path = re.sub(r"\{(\w+)\}", take, template)
    # A tenant in the parameters is the check's own and wins over the interface's.
    tenant = str(rest.pop("tenant", "") or tenant)
    if tenant:
        path = f"/{urllib.parse.quote(tenant, safe='')}{path}"
    # ProtoJSON's mapping of a request without a body: what is left goes into the query.
    if verb in ("GET", "DELETE"):
        texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in rest.items() if v is not None}
        return RestCall(verb, path, texts)
    keep_empty = bool(rest) or verb == "POST"
    return RestCall(verb, path, {}, rest if keep_empty and not op.name.startswith("Subscribe") else None)


# -- parameters of 0.3 --


def to_v03_params(
    operation: str, params: Mapping[str, Any], binding: str, *, is_tagged: bool = False
) -> dict[str, Any]:
    """Write parameters of 1.0 in the form of 0.3: JSON with ``kind`` for JSON-RPC, protobuf's JSON elsewhere.

    :param is_tagged: whether HTTP+JSON has the JSON with ``kind``, too.
    """
    # The SDKs made REST and gRPC from the proto file, whose names differ from those of the JSON schema.
    proto = binding != "JSONRPC" and not is_tagged
    out = dict(params)
    if isinstance(out.get("message"), Mapping):
        out["message"] = _message(out["message"], proto)
    if isinstance(out.get("configuration"), Mapping):
        out["configuration"] = _configuration(out["configuration"], proto)
    if "PushNotificationConfig" in operation:
        return _push_params(operation, out, binding, is_tagged)
    if binding == "GRPC" and "id" in out:
        # 0.3's gRPC names things by resource names.
        out["name"] = f"tasks/{out.pop('id')}"
    return out


def _message(message: Mapping[str, Any], proto: bool) -> dict[str, Any]:
    out = dict(message)
    if isinstance(out.get("parts"), list):
        parts = [_part(p, proto) for p in out.pop("parts")]
        # The proto file calls the parts content.
        out["content" if proto else "parts"] = parts
    if not proto:
        roles = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}
        out["role"] = roles.get(str(out.get("role")), out.get("role"))
        out["kind"] = "message"
    return out


def _part(part: Any, proto: bool) -> Any:
    if not isinstance(part, Mapping):
        return part
    extra = {"metadata": part["metadata"]} if "metadata" in part else {}
    if "text" in part:
        return {"text": part["text"], **extra} if proto else {"kind": "text", "text": part["text"], **extra}
    if "data" in part:
        data = {"data": part["data"]} if proto else part["data"]
        return {"data": data, **extra} if proto else {"kind": "data", "data": data, **extra}
    if "raw" in part or "url" in part:
        names = {"raw": "fileWithBytes", "url": "fileWithUri"} if proto else {"raw": "bytes", "url": "uri"}
        file = {new: part[old] for old, new in names.items() if old in part}
        file |= {new: part[old] for old, new in (("filename", "name"), ("mediaType", "mimeType")) if old in part}
        return {"file": file, **extra} if proto else {"kind": "file", "file": file, **extra}
    return dict(part)


def _configuration(configuration: Mapping[str, Any], proto: bool) -> dict[str, Any]:
    out = dict(configuration)
    if "returnImmediately" in out:
        # The same switch, turned around: 1.0 asks not to wait, 0.3 asks to wait.
        out["blocking"] = not out.pop("returnImmediately")
    if "taskPushNotificationConfig" in out:
        name = "pushNotification" if proto else "pushNotificationConfig"
        out[name] = _webhook(out.pop("taskPushNotificationConfig"))
    return out


def _webhook(config: Any) -> Any:
    """Return a push configuration of 1.0 as 0.3 has it: its authentication has a list of schemes (0.3.0 §6.9)."""
    auth = config.get("authentication") if isinstance(config, Mapping) else None
    if not isinstance(auth, Mapping) or "scheme" not in auth:
        return config
    rest = {name: value for name, value in auth.items() if name != "scheme"}
    return {**config, "authentication": {"schemes": [auth["scheme"]], **rest}}


def _push_params(operation: str, params: dict[str, Any], binding: str, is_tagged: bool) -> dict[str, Any]:
    # Both may be missing on purpose.
    task, config = params.get("taskId", ""), params.get("id", "")
    if operation.startswith("Create"):
        body = _webhook({k: v for k, v in params.items() if k not in ("taskId", "tenant")})
        if binding == "JSONRPC":
            return {"taskId": task, "pushNotificationConfig": body}
        if is_tagged:
            return {"taskId": task, "config": {"taskId": task, "pushNotificationConfig": body}}
        name = f"tasks/{task}/pushNotificationConfigs/{config}"
        spelled = {"parent": f"tasks/{task}", "configId": config}
        spelled |= {"config": {"name": name, "pushNotificationConfig": body}}
        # HTTP+JSON has the task in its path, and servers read the parent from the body, too.
        return spelled if binding == "GRPC" else {"taskId": task, **spelled}
    if binding == "GRPC":
        parent = f"tasks/{task}"
        if operation.startswith("List"):
            return {"parent": parent}
        return {"name": f"{parent}/pushNotificationConfigs/{config}"}
    if binding == "JSONRPC":
        found = {"id": task}
        return {**found, "pushNotificationConfigId": config} if config else found
    return params
