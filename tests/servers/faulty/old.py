"""Version 0.3 for an agent that thinks in 1.0: names, parameters, results and the card, each way (pure).

0.3 has two spellings: JSON-RPC's, in which every object says its ``kind``, and that of its proto file, which HTTP+JSON
and gRPC share. ``proto`` says which one is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from faulty.fault import FaultyCall, Json
from faulty.store import SETTLED_STATES

if TYPE_CHECKING:
    from faulty.agent import FaultyAgent

_PUSH = "tasks/pushNotificationConfig"
METHODS = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    f"{_PUSH}/set": "CreateTaskPushNotificationConfig",
    f"{_PUSH}/get": "GetTaskPushNotificationConfig",
    f"{_PUSH}/list": "ListTaskPushNotificationConfigs",
    f"{_PUSH}/delete": "DeleteTaskPushNotificationConfig",
    "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
}
"""JSON-RPC method -> operation of 1.0."""
GRPC_NAMES = {
    "SubscribeToTask": "TaskSubscription",
    "ListTaskPushNotificationConfigs": "ListTaskPushNotificationConfig",
    "GetExtendedAgentCard": "GetAgentCard",
}
"""Operation of 1.0 -> name in 0.3's service, where that is another."""
_FREE = ("metadata", "data")


def read(agent: FaultyAgent, call: FaultyCall) -> FaultyCall:
    """Return a call whose parameters are those of 1.0, whatever version they are spelled in."""
    if agent.version != "0.3":
        return call
    return call._replace(params=asked(agent, call))


def written(agent: FaultyAgent, call: FaultyCall, result: Any) -> Any:
    """Return a result or an event in the spelling of the version that is spoken, as the fault leaves that."""
    if agent.version != "0.3":
        return result
    fault = agent.faulted(call)
    new = expected(agent, call, result)
    return fault.spelling(call, new) if fault and fault.touches(result) else new


def _is_proto(agent: FaultyAgent, call: FaultyCall) -> bool:
    return call.binding == "GRPC" or (call.binding == "HTTP+JSON" and not agent.on("kinds-over-http"))


def asked(agent: FaultyAgent, call: FaultyCall) -> Json:
    """Return parameters of 0.3 as those of 1.0; what is malformed stays so."""
    operation, params, proto = call.operation, call.params, _is_proto(agent, call)
    is_rpc = call.binding == "JSONRPC"
    if operation in ("SendMessage", "SendStreamingMessage"):
        return _sent(params, proto)
    found = dict(params)
    # The proto file names things by their places: tasks/1/pushNotificationConfigs/2.
    for name in ("name", "parent"):
        steps = str(found.pop(name, "")).split("/") if proto and name in found else []
        found |= dict(zip(("taskId", "id") if "Push" in operation else ("id",), steps[1::2], strict=False))
    if operation == "CreateTaskPushNotificationConfig":
        holder = found if is_rpc else found.get("config")
        given = holder.get("pushNotificationConfig") if isinstance(holder, dict) else None
        named = {"id": found["configId"]} if found.get("configId") else {}
        return {"taskId": found.get("taskId"), **(_config(given) if isinstance(given, dict) else {}), **named}
    if "Push" in operation and is_rpc:
        return {"taskId": params.get("id"), "id": params.get("pushNotificationConfigId")}
    return found


def _sent(params: Json, proto: bool) -> Json:
    given = params.get("configuration")
    configuration = dict(given) if isinstance(given, dict) else {}
    configuration["returnImmediately"] = configuration.pop("blocking", False) is not True
    push = configuration.pop("pushNotification" if proto else "pushNotificationConfig", None)
    if isinstance(push, dict):
        configuration["taskPushNotificationConfig"] = _config(push)
    message = params.get("message")
    if not isinstance(message, dict):
        return {**params, "configuration": configuration}
    said = {name: value for name, value in message.items() if name != "kind"}
    if proto and "content" in said:
        said["parts"] = said.pop("content")
    if said.get("role") in ("user", "agent"):
        said["role"] = f"ROLE_{said['role'].upper()}"
    if isinstance(said.get("parts"), list):
        said["parts"] = [_part(part, proto) if isinstance(part, dict) else part for part in said["parts"]]
    return {"message": said, "configuration": configuration}


def _part(part: Json, proto: bool) -> Json:
    new = {name: value for name, value in part.items() if name not in ("kind", "file")}
    file = part.get("file")
    if isinstance(file, dict):
        for old, name in (
            *(("bytes", "raw"), ("uri", "url"), ("fileWithBytes", "raw"), ("fileWithUri", "url")),
            *(("mimeType", "mediaType"), ("name", "filename")),
        ):
            new |= {name: file[old]} if old in file else {}
    if proto and isinstance(new.get("data"), dict):
        new["data"] = new["data"].get("data", {})
    return new


def _config(config: Json) -> Json:
    auth = config.get("authentication") or {}
    schemes = auth.get("schemes") or []
    new = {name: value for name, value in config.items() if name not in ("authentication", "name")}
    if schemes:
        new["authentication"] = {"scheme": schemes[0], "credentials": auth.get("credentials", "")}
    return new


def expected(agent: FaultyAgent, call: FaultyCall, result: Any) -> Any:
    """Return a result of 1.0, or an event of a stream, as one of 0.3."""
    operation, proto = call.operation, _is_proto(agent, call)
    if operation == "DeleteTaskPushNotificationConfig":
        return None if call.binding == "JSONRPC" else {}
    if operation == "ListTaskPushNotificationConfigs":
        configs = [_old_config(each, proto) for each in result.get("configs", ())]
        return {"configs": configs} if proto else configs
    if "Push" in operation:
        return _old_config(result, proto)
    if operation == "GetExtendedAgentCard":
        return card(result) if "supportedInterfaces" in result else result
    if operation == "ListTasks":
        return {**result, "tasks": [spelled(task, proto) for task in result.get("tasks", ())]}
    member = next((name for name in ("task", "message", "statusUpdate", "artifactUpdate") if name in result), "")
    if not member:
        return spelled(result, proto)
    inside = spelled(result[member], proto)
    return inside if call.binding == "JSONRPC" else {member: inside}


def _old_config(config: Json, proto: bool) -> Json:
    inner = {name: value for name, value in config.items() if name not in ("taskId", "authentication")}
    auth = config.get("authentication")
    if auth:
        inner["authentication"] = {"schemes": [auth["scheme"]], "credentials": auth.get("credentials", "")}
    place = f"tasks/{config.get('taskId')}/pushNotificationConfigs/{config.get('id')}"
    return {**({"name": place} if proto else {"taskId": config.get("taskId")}), "pushNotificationConfig": inner}


def spelled(value: Any, proto: bool) -> Any:
    """Return an object of 1.0, and all within, as 0.3 spells it."""
    if isinstance(value, list):
        return [spelled(each, proto) for each in value]
    if not isinstance(value, dict):
        return value
    if {"text", "raw", "url", "data"} & set(value) and "artifactId" not in value:
        return _old_part(value, proto)
    new = {name: each if name in _FREE else spelled(each, proto) for name, each in value.items()}
    if "state" in new:
        new["state"] = _state(str(new["state"]), proto)
    if "status" in value and "taskId" in value:
        # The last one of a stream: 0.3 has no other mark of its end.
        new["final"] = value["status"].get("state") in SETTLED_STATES
    if "messageId" in new:
        new = _old_message(new, proto)
    kind = "" if proto else _kind(value)
    return {**new, "kind": kind} if kind else new


def _kind(value: Json) -> str:
    if "messageId" in value:
        return "message"
    if "artifact" in value:
        return "artifact-update"
    return "" if "status" not in value else "status-update" if "taskId" in value else "task"


def _old_message(message: Json, proto: bool) -> Json:
    if not proto:
        return {**message, "role": str(message.get("role", "")).removeprefix("ROLE_").lower()}
    return {("content" if name == "parts" else name): value for name, value in message.items()}


def _state(state: str, proto: bool) -> str:
    if proto:
        return "TASK_STATE_CANCELLED" if state == "TASK_STATE_CANCELED" else state
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def _old_part(part: Json, proto: bool) -> Json:
    kept = {"metadata": part["metadata"]} if "metadata" in part else {}
    if "text" in part:
        return {**({} if proto else {"kind": "text"}), "text": part["text"], **kept}
    if "data" in part:
        return {"data": {"data": part["data"]}, **kept} if proto else {"kind": "data", "data": part["data"], **kept}
    names = {"raw": "fileWithBytes", "url": "fileWithUri"} if proto else {"raw": "bytes", "url": "uri"}
    names |= {"filename": "name", "mediaType": "mimeType"}
    file = {new: part[name] for name, new in names.items() if name in part}
    return {"file": file, **kept} if proto else {"kind": "file", "file": file, **kept}


def card(new: Mapping[str, Any]) -> Json:
    """Return a card of 1.0, whose interfaces have no tenants, as one of 0.3."""
    interfaces = [{"url": i["url"], "transport": i["protocolBinding"]} for i in new["supportedInterfaces"]]
    left_out = ("supportedInterfaces", "securitySchemes", "securityRequirements", "capabilities", "signatures")
    old: Json = {
        "protocolVersion": "0.3.0",
        **{name: value for name, value in new.items() if name not in left_out},
        "url": interfaces[0]["url"],
        "preferredTransport": interfaces[0]["transport"],
        "additionalInterfaces": interfaces,
        "capabilities": {k: v for k, v in new["capabilities"].items() if k != "extendedAgentCard"},
        "supportsAuthenticatedExtendedCard": bool(new["capabilities"].get("extendedAgentCard")),
    }
    if "securitySchemes" in new:
        old["securitySchemes"] = {"bearer": {"type": "http", "scheme": "Bearer"}}
        old["security"] = [{"bearer": []}]
    return old
