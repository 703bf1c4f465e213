"""Every object of the data model in an answer, with where it is (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

FREE_FORM = frozenset({"metadata", "data", "params", "header"})
"""Members whose content is the agent's own, so that no rule of the protocol applies inside."""

_CHILDREN: Mapping[str, Mapping[str, str]] = {
    "response": {
        "task": "task",
        "message": "message",
        "statusUpdate": "statusUpdate",
        "artifactUpdate": "artifactUpdate",
        "tasks": "task",
    },
    "task": {"status": "status", "artifacts": "artifact", "history": "message"},
    "status": {"message": "message"},
    "statusUpdate": {"status": "status"},
    "artifactUpdate": {"artifact": "artifact"},
    "message": {"parts": "part"},
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


def nodes(result: Any, pointer: str = "") -> Iterator[Node]:
    """Yield the objects of a result; a bare task (GetTask) is known by its ``status``."""
    if isinstance(result, Mapping):
        wrapped = any(name in result for name in _CHILDREN["response"])
        bare = "task" if not wrapped and ("status" in result or "artifacts" in result) else "response"
        yield from _descend(bare, result, pointer, "")


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
