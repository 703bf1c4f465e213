"""Parameters of 1.0 in the form of 0.3 (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def to_v03_params(operation: str, params: Mapping[str, Any], binding: str) -> dict[str, Any]:
    """Write parameters of 1.0 in the form of 0.3: JSON with ``kind`` for JSON-RPC, protobuf's JSON elsewhere."""
    proto = binding != "JSONRPC"
    out = dict(params)
    if isinstance(out.get("message"), Mapping):
        out["message"] = _message(out["message"], proto)
    if isinstance(out.get("configuration"), Mapping):
        out["configuration"] = _configuration(out["configuration"], proto)
    if "PushNotificationConfig" in operation:
        return _push_params(operation, out, binding)
    if binding == "GRPC" and "id" in out:
        out["name"] = f"tasks/{out.pop('id')}"
    return out


def _message(message: Mapping[str, Any], proto: bool) -> dict[str, Any]:
    out = dict(message)
    if isinstance(out.get("parts"), list):
        parts = [_part(p, proto) for p in out.pop("parts")]
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
        out["blocking"] = not out.pop("returnImmediately")
    if "taskPushNotificationConfig" in out:
        out["pushNotification" if proto else "pushNotificationConfig"] = out.pop("taskPushNotificationConfig")
    return out


def _push_params(operation: str, params: dict[str, Any], binding: str) -> dict[str, Any]:
    task, config = params.get("taskId", ""), params.get("id", "")
    if operation.startswith("Create"):
        body = {k: v for k, v in params.items() if k not in ("taskId", "tenant")}
        if binding == "JSONRPC":
            return {"taskId": task, "pushNotificationConfig": body}
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
