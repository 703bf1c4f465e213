"""The payloads of answers of each version: states, tasks, messages, ids, times and every object (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_object, as_objects, as_text

# -- states --

RUNNING = frozenset({"submitted", "working"})
"""States that change by themselves; one that is missing, or none of the protocol's, does not come right by waiting."""


def state_of(task: Any) -> str:
    """Return the state in ``status`` of a task or status update as :func:`neutral_state` spells it, or empty."""
    return neutral_state(spelled_state(task))


def is_running(task: Any) -> bool:
    """Return whether a task changes by itself."""
    return state_of(task) in RUNNING


def spelled_state(task: Any) -> str:
    """Return the state in ``status`` of a task or status update as the agent spells it, or empty."""
    return as_text(as_object(as_object(task).get("status")).get("state"))


def neutral_state(state: Any) -> str:
    """Return ``completed`` for ``TASK_STATE_COMPLETED`` as for ``completed``; empty for other types than text.

    A value in neither version's table stays as it is: a check must see it.
    """
    if not isinstance(state, str):
        return ""
    spelled = state.removeprefix("TASK_STATE_").lower().replace("_", "-")
    # The 0.3 proto file spells the word with two l.
    return "canceled" if spelled == "cancelled" else spelled


# -- tasks, messages and ids --

V03_WRAPPERS = ("task", "message", "msg")
"""The wrappers of a 0.3 result in protobuf's JSON: the field is called msg and its JSON name is message."""


def task_in(result: Any) -> Mapping[str, Any] | None:
    """Return the task of a result: wrapped, or bare as GetTask and 0.3 give it."""
    if not isinstance(result, Mapping):
        return None
    # Wrapped first: a wrapper may hold members of its own beside the task.
    if isinstance(result.get("task"), Mapping):
        found: Mapping[str, Any] = result["task"]
        return found
    # A status update has taskId and status, and possibly an id of an extension; a task is never taken for one.
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
    return {str(m["messageId"]) for m in as_objects(as_object(task).get("history")) if m.get("messageId")}


def push_configs(result: Any) -> list[dict[str, Any]]:
    """Return the push configurations of a result, one or a list of them, in the form of 1.0 whatever its version."""
    # An object with configs is 1.0's page, one without is the configuration itself, and 0.3 gives a bare list.
    inside = result.get("configs", [result]) if isinstance(result, Mapping) else result
    return [_push_config(c) for c in as_objects(inside) if c]


def _push_config(config: Mapping[str, Any]) -> dict[str, Any]:
    inner = config.get("pushNotificationConfig")
    if not isinstance(inner, Mapping):
        return dict(config)
    # 0.3's proto file has the ids in the resource name only: tasks/TASK/pushNotificationConfigs/ID.
    words = str(config.get("name") or "").split("/")
    task, name = (words[1], words[3]) if len(words) == 4 else ("", "")
    return {"taskId": config.get("taskId") or task, **inner, "id": inner.get("id") or name}


def config_ids(result: Any) -> list[str]:
    """Return the ids of the push configurations of a result, of either version."""
    return [str(config["id"]) for config in push_configs(result) if config.get("id")]


PUSH_MEMBERS = ("taskPushNotificationConfig", "pushNotificationConfig", "pushNotification")
"""Where the configuration of a message has its webhook, in each version and binding."""


def configures(params: Mapping[str, Any]) -> bool:
    """Return whether the parameters of a message, of either version, bring a push configuration."""
    configuration = as_object(params.get("configuration"))
    return any(configuration.get(name) for name in PUSH_MEMBERS)


def task_id_in(params: Mapping[str, Any]) -> str:
    """Return the task that parameters about a push configuration, of either version, name; empty for none."""
    return str(params.get("taskId") or params.get("parent") or "").removeprefix("tasks/")


# -- times --

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
"""Section 5.6.1 demands UTC, written with Z."""
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?", re.IGNORECASE)


def parse_timestamp(text: Any) -> float | None:
    """Return seconds since 1970 of an RFC 3339 time, to the microsecond; None if it is none.

    A time without an offset, which some servers write, is read as UTC.
    """
    if not isinstance(text, str) or not _TIMESTAMP.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    # What has no offset would otherwise be read in this machine's zone.
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


# -- every object --

# Rules about names and null apply to the protocol's members; what an agent puts into metadata is its own.
FREE_FORM = frozenset({"metadata", "data", "params", "header"})
"""Members whose content is the agent's own, so that no rule of the protocol applies inside."""

_NAMES = frozenset(
    "append artifact artifactId artifactUpdate artifacts authentication bytes configs contextId credentials data "
    "description extensions file filename final history id kind lastChunk mediaType message messageId metadata "
    "mimeType name nextPageToken pageSize parts pushNotificationConfig raw referenceTaskIds role scheme schemes "
    "state status statusUpdate task taskId tasks tenant text timestamp token totalSize uri url".split()
)
"""Members of the objects that operations answer with, in 1.0 and in 0.3."""
_RUN_TOGETHER = frozenset(name.lower() for name in _NAMES)
_CAMEL = re.compile(r"[a-z][A-Za-z0-9]*")

# With the names of 0.3 where those differ: its proto file has msg, content and update.
_CHILDREN: Mapping[str, Mapping[str, str]] = {
    "response": {
        **{name: name for name in ("task", "message", "statusUpdate", "artifactUpdate")},
        "msg": "message",
        "tasks": "task",
    },
    "task": {"status": "status", "artifacts": "artifact", "history": "message"},
    "status": {"message": "message", "update": "message"},
    "statusUpdate": {"status": "status"},
    "artifactUpdate": {"artifact": "artifact"},
    "message": {"parts": "part", "content": "part"},
    "artifact": {"parts": "part"},
}


class Node(NamedTuple):
    """One object.

    :param kind: ``task``, ``status``, ``message``, ``artifact``, ``part``, ``statusUpdate``, ``artifactUpdate`` or
        ``response`` for what wraps them.
    :param owner: the kind of the object that it is in.
    """

    kind: str
    pointer: str
    value: Mapping[str, Any]
    owner: str = ""


class Member(NamedTuple):
    """One member of any object, outside free-form content."""

    name: str
    pointer: str
    value: Any


def nodes(result: Any) -> Iterator[Node]:
    """Yield the objects of a result; one of 0.3 is known by its ``kind``, a bare task by its ``status``."""
    if isinstance(result, Mapping):
        yield from _descend(_bare_kind(result), result, "", "")


KINDS = {"status-update": "statusUpdate", "artifact-update": "artifactUpdate", "task": "task", "message": "message"}
"""``kind`` of 0.3 -> the member of a StreamResponse."""


def _bare_kind(result: Mapping[str, Any]) -> str:
    # Whatever else is missing.
    if kind := KINDS.get(str(result.get("kind"))):
        return kind
    # A page of ListTasks has tasks, so it counts as a wrapper, too.
    if any(name in result for name in _CHILDREN["response"]):
        return "response"
    if "messageId" in result:
        return "message"
    if "taskId" in result:
        return "artifactUpdate" if "artifact" in result else "statusUpdate" if "status" in result else "response"
    return "task" if "status" in result or "artifacts" in result else "response"


def _descend(kind: str, value: Mapping[str, Any], pointer: str, owner: str) -> Iterator[Node]:
    yield Node(kind, pointer, value, owner)
    for name, child in _CHILDREN.get(kind, {}).items():
        found = value.get(name)
        several = found if isinstance(found, list) else [found]
        for index, item in enumerate(several):
            if isinstance(item, Mapping):
                where = f"{pointer}/{name}/{index}" if isinstance(found, list) else f"{pointer}/{name}"
                yield from _descend(child, item, where, kind)


def members(value: Any, pointer: str = "") -> Iterator[Member]:
    """Yield every member of every object, but nothing inside free-form content."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            where = f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}"
            yield Member(str(name), where, item)
            if name not in FREE_FORM:
                yield from members(item, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from members(item, f"{pointer}/{index}")


# Section 5.7: members that nobody knows are to be ignored, so that agents may add some of their own.
def is_known(name: str) -> bool:
    """Return whether the protocol has a member of that name."""
    return name in _NAMES


def is_misspelt(name: str) -> bool:
    """Return whether a name is that of a member of the protocol, and not in camelCase."""
    return not _CAMEL.fullmatch(name) and re.sub(r"[^a-z0-9]", "", name.lower()) in _RUN_TOGETHER
