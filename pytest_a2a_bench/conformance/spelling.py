"""The same thing in 1.0 and in 0.3: parameters written, tasks and messages found (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TERMINAL = frozenset(
    {
        *("TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"),
        *("TASK_STATE_CANCELLED", "completed", "failed", "canceled", "rejected"),
    }
)
INTERRUPTED = frozenset({"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED", "input-required", "auth-required"})


def state_of(task: Any) -> str:
    """Return a task's (or status update's) state as it is spelled, or empty."""
    status = task.get("status") if isinstance(task, Mapping) else None
    return str(status.get("state") or "") if isinstance(status, Mapping) else ""


def task_in(result: Any) -> Mapping[str, Any] | None:
    """Return the task of a result: wrapped, or bare as GetTask and 0.3 give it."""
    if not isinstance(result, Mapping):
        return None
    if isinstance(result.get("task"), Mapping):
        found: Mapping[str, Any] = result["task"]
        return found
    bare = "status" in result and "id" in result and "taskId" not in result
    return result if bare or result.get("kind") == "task" else None


def message_in(result: Any) -> Mapping[str, Any] | None:
    """Return the message of a result: wrapped, or bare as 0.3 gives it."""
    if not isinstance(result, Mapping):
        return None
    for name in ("message", "msg"):
        if isinstance(result.get(name), Mapping):
            found: Mapping[str, Any] = result[name]
            return found
    return result if result.get("kind") == "message" or "messageId" in result else None


def message_ids(task: Any) -> set[str]:
    """Return the ids of the messages in a task's history."""
    history = task.get("history") if isinstance(task, Mapping) else None
    messages = history if isinstance(history, list) else []
    return {str(m["messageId"]) for m in messages if isinstance(m, Mapping) and m.get("messageId")}


def config_ids(result: Any) -> list[str]:
    """Return the ids of the push configurations of a result: one, or a list of them, as 1.0 and 0.3 give them."""
    inside = result.get("configs", [result]) if isinstance(result, Mapping) else result
    return [found for item in inside if (found := _config_id(item))] if isinstance(inside, list) else []


def _config_id(config: Any) -> str:
    if not isinstance(config, Mapping):
        return ""
    inner = config.get("pushNotificationConfig")
    name = str(config.get("name") or "").rpartition("/")[2]
    return str(config.get("id") or (inner.get("id") if isinstance(inner, Mapping) else "") or name or "")


def configures(params: Mapping[str, Any]) -> bool:
    """Tell whether the parameters of a message, of either version, bring a push configuration."""
    configuration = params.get("configuration")
    names = ("taskPushNotificationConfig", "pushNotificationConfig", "pushNotification")
    return isinstance(configuration, Mapping) and any(configuration.get(name) for name in names)


def task_id_in(params: Mapping[str, Any]) -> str:
    """Return the task that parameters about a push configuration, of either version, name; empty for none."""
    return str(params.get("taskId") or params.get("parent") or "").removeprefix("tasks/")


def spell_params(operation: str, params: Mapping[str, Any], binding: str) -> dict[str, Any]:
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
