"""What is wrong with a request's parameters, read as raw JSON (pure)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pytest_a2a_bench.agents.faulty.problems import Violation

STATES = (
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
)
CONTENTS = ("text", "raw", "url", "data")

_TASK_ID = ("GetTask", "CancelTask", "SubscribeToTask")
_PUSH = {
    "CreateTaskPushNotificationConfig": ("taskId", "url"),
    "GetTaskPushNotificationConfig": ("taskId", "id"),
    "ListTaskPushNotificationConfigs": ("taskId",),
    "DeleteTaskPushNotificationConfig": ("taskId", "id"),
}


def violations(operation: str, params: dict[str, Any]) -> Iterator[Violation]:
    """Yield everything that is wrong with the parameters of an operation."""
    if operation in ("SendMessage", "SendStreamingMessage"):
        yield from _message(params.get("message"))
        yield from _configuration(params.get("configuration"))
    elif operation in _TASK_ID:
        yield from _required(params, ("id",), "no-id")
        yield from _whole(params, "historyLength", "history-length")
    elif operation == "ListTasks":
        yield from _listing(params)
    for name in _PUSH.get(operation, ()):
        yield from _required(params, (name,), f"no-{name}")


def _required(holder: dict[str, Any], names: tuple[str, ...], rule: str, where: str = "") -> Iterator[Violation]:
    for name in names:
        value = holder.get(name)
        if not isinstance(value, str) or not value:
            yield Violation(rule, where + name, "a non-empty string is required")


def _optional_text(holder: dict[str, Any], names: tuple[str, ...], where: str) -> Iterator[Violation]:
    for name in names:
        if holder.get(name) is not None and not isinstance(holder[name], str):
            yield Violation("text-type", where + name, "must be a string")


def _message(message: Any) -> Iterator[Violation]:
    if not isinstance(message, dict):
        yield Violation("no-message", "message", "a message is required")
        return
    yield from _required(message, ("messageId",), "no-message-id", "message.")
    yield from _optional_text(message, ("contextId", "taskId"), "message.")
    role = message.get("role")
    if role is None or role == "ROLE_UNSPECIFIED":
        yield Violation("no-role", "message.role", "a role is required")
    elif role not in ("ROLE_USER", "ROLE_AGENT"):
        yield Violation("role-name", "message.role", "must be ROLE_USER or ROLE_AGENT")
    yield from _parts(message.get("parts"))


def _parts(parts: Any) -> Iterator[Violation]:
    if parts is None:
        yield Violation("no-parts", "message.parts", "at least one part is required")
    elif not isinstance(parts, list):
        yield Violation("parts-type", "message.parts", "must be an array")
    elif not parts:
        yield Violation("empty-parts", "message.parts", "at least one part is required")
    else:
        for index, part in enumerate(parts):
            yield from _part(part, f"message.parts[{index}]")


def _part(part: Any, where: str) -> Iterator[Violation]:
    if not isinstance(part, dict):
        yield Violation("part-type", where, "must be an object")
        return
    members = [name for name in CONTENTS if name in part]
    if not members:
        yield Violation("empty-part", where, f"one of {', '.join(CONTENTS)} is required")
    if len(members) > 1:
        yield Violation("two-contents", where, f"only one of {', '.join(CONTENTS)} is allowed")
    yield from _optional_text(part, ("text", "url", "filename", "mediaType"), f"{where}.")
    if "raw" in part and not _is_base64(part["raw"]):
        yield Violation("base64", f"{where}.raw", "must be base64")


def _is_base64(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        base64.b64decode(value.replace("-", "+").replace("_", "/") + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _configuration(configuration: Any) -> Iterator[Violation]:
    if configuration is None:
        return
    if not isinstance(configuration, dict):
        yield Violation("configuration-type", "configuration", "must be an object")
        return
    yield from _whole(configuration, "historyLength", "history-length", "configuration.")
    push = configuration.get("taskPushNotificationConfig")
    if isinstance(push, dict):
        yield from _required(push, ("url",), "no-url", "configuration.taskPushNotificationConfig.")


def _whole(holder: dict[str, Any], name: str, rule: str, where: str = "", low: int = 0) -> Iterator[Violation]:
    value = holder.get(name)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < low:
        yield Violation(rule, where + name, f"must be a whole number, {low} or more")


def _listing(params: dict[str, Any]) -> Iterator[Violation]:
    yield from _whole(params, "historyLength", "history-length")
    size = list(_whole(params, "pageSize", "page-size", low=1))
    if not size and params.get("pageSize") is not None and params["pageSize"] > 100:
        size = [Violation("page-size", "pageSize", "must be 1 to 100")]
    yield from size
    status = params.get("status")
    if status is not None and status not in (*STATES, "TASK_STATE_UNSPECIFIED"):
        yield Violation("status-name", "status", f"must be one of {', '.join(STATES)}")
    after = params.get("statusTimestampAfter")
    if after is not None and parse_time(after) is None:
        yield Violation("timestamp", "statusTimestampAfter", "must be an ISO 8601 time")


def parse_time(text: Any) -> datetime | None:
    """Read a timestamp with its offset, or return None."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None
