"""Every rule, everywhere it holds: cells of operation, state of the task, caller and data to try a rule in (pure).

A check is written once, for one representative. Here is what else it holds for: a :class:`Cell` says what a context
puts in the place of what the check asks for, and the same check judges the answer. So a rule that is broken for failed
tasks only, or for streams only, or for an id that is the beginning of another, is found by the check of that rule.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.conformance.protocol.operations import OPERATIONS, STREAMING

STATE_PROMPTS: Mapping[str, str] = {
    "working": "slow",
    "input-required": "input",
    "auth-required": "auth",
    "completed": "task",
    "failed": "fail",
    "canceled": "slow",
    "rejected": "reject",
}
"""State of a task -> scenario that brings it about. A submitted task cannot be held: a working one begins so."""

PAGE = 50
"""Tasks that a page has at most where no size is asked for."""

_TERMINAL = ("completed", "failed", "canceled", "rejected")
_INTERRUPTED = ("input-required", "auth-required")
_SEND, _STREAM, _GET = "SendMessage", "SendStreamingMessage", "GetTask"
_PUSH = tuple(name for name in OPERATIONS if "PushNotification" in name)
_BY_ID = ("CancelTask", "SubscribeToTask", *_PUSH)
_NEAR = ("prefix", "longer")
_OTHERS = {"CreateTaskPushNotificationConfig": {"url": "https://webhook.example.org/never-called"}}
_CAPABILITIES = {"GetExtendedAgentCard": "extendedAgentCard"} | dict.fromkeys(STREAMING, "streaming")
_CAPABILITIES |= dict.fromkeys(_PUSH, "pushNotifications")


@dataclass(frozen=True, slots=True)
class Cell:
    """One place where a rule holds, beside its representative.

    :param operation: asked in place of the one that the check asks, ``instead``; empty for that one.
    :param state: of the task that the check is about.
    :param near: how an unknown id is like a known one: its beginning (``prefix``), or the same and more (``longer``).
    """

    operation: str = ""
    instead: str = ""
    state: str = ""
    near: str = ""

    def __str__(self) -> str:
        """Say what is special here, to begin a finding with."""
        near = {"prefix": "an id that is the beginning of another", "longer": "an id that begins with another"}
        of = f"a task that is {self.state}" if self.state else ""
        return ", ".join(said for said in (self.operation, of, near.get(self.near, "")) if said)

    def asked(self, operation: str, params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """Return operation and parameters to ask in place of a check's own."""
        if not self.operation or operation != self.instead:
            return operation, params
        return self.operation, _params(self.operation, params)

    def unknown(self, known: str) -> str:
        """Return an id that is like a known one, and unknown."""
        return known[:-1] if self.near == "prefix" else f"{known}0"


def _params(operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Write the parameters of another operation about the same task."""
    # Between the two ways of sending nothing changes, not even what is wrong with a message.
    if operation.startswith("Send") and "id" not in params:
        return dict(params)
    found = params.get("message")
    message = found if isinstance(found, Mapping) else {}
    # Nobody knows that id: what is let in by mistake changes nothing.
    task = params.get("id") or message.get("taskId") or str(uuid.uuid4())
    kept = {"tenant": params["tenant"]} if "tenant" in params else {}
    if operation.startswith("Send"):
        said = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "x"}], "taskId": task}
        return {**kept, "message": said}
    if operation in _PUSH:
        named = {} if operation.startswith("List") else {"id": "any"}
        return {**kept, "taskId": task, **named, **_OTHERS.get(operation, {})}
    if operation in ("ListTasks", "GetExtendedAgentCard"):
        return {**kept, "pageSize": 1} if operation == "ListTasks" else kept
    return {**kept, "id": task}


@dataclass(frozen=True, slots=True)
class _Law:
    """Axes along which some rules hold; the cells are their product, and each axis has the check's own value, too."""

    rules: str
    states: tuple[str, ...] = ("",)
    operations: tuple[str, ...] = ("",)
    instead: str = ""
    near: tuple[str, ...] = ("",)


_EVERY = tuple(name for name in OPERATIONS if name != _GET)
_LAWS = (
    # What is looked at in ordinary answers holds for those about tasks in every state.
    _Law(
        "DM-001 DM-002 DM-003 DM-004 DM-005 DM-006 DM-007 DM-008 DM-009 DM-010 DM-012 DM-013 DM-014 SEND-014 PART-009 "
        "EXT-006 JR-001 JR-003 HJ-002 V03-DM-001 V03-DM-002 V03-DM-003 V03-DM-004 V03-DM-007",
        states=("working", *_INTERRUPTED, *_TERMINAL),
    ),
    _Law("STREAM-002 STREAM-004 STREAM-007 STREAM-008 STREAM-015", states=("working", *_INTERRUPTED, *_TERMINAL)),
    _Law("STREAM-009 STREAM-010", states=("working",)),
    _Law("STREAM-016", states=("input-required", "failed", "rejected")),
    _Law("V03-STREAM-002", states=("failed", "rejected")),
    _Law("STREAM-005", states=("failed", "rejected")),
    _Law("SEND-001 SEND-002 SEND-003", states=(*_INTERRUPTED, "failed", "rejected")),
    _Law("GET-001 GET-007 V03-TASK-001", states=(*_INTERRUPTED, "failed", "canceled", "rejected")),
    # An ended task is one, however it ended; a second cancelling may succeed, so cancelled ones are left out of that.
    _Law("CAN-002 V03-TASK-002", states=("failed", "rejected")),
    _Law("SUB-003 V03-SEND-004", states=("failed", "canceled", "rejected")),
    _Law("SEND-007", states=("completed", "failed", "canceled", "rejected"), operations=("", _STREAM), instead=_SEND),
    _Law("GET-002 CAN-003 SUB-004 STREAM-014 PUSH-009 V03-SEND-005", near=_NEAR),
    _Law("SEND-008", operations=("", _STREAM), instead=_SEND, near=("", *_NEAR)),
    # A message is a message, whichever way the answer comes.
    _Law(
        "VAL-001 VAL-002 VAL-003 VAL-004 VAL-005 VAL-006 VAL-007 VAL-008 VAL-009 VAL-010 VAL-011 "
        "SEND-009 MT-005 AUTH-001",
        operations=(_STREAM,),
        instead=_SEND,
    ),
    _Law("VER-001 VER-002 VER-004 VER-007", operations=_EVERY, instead=_GET),
    _Law(
        "VER-003 VER-008", operations=("CancelTask", "SubscribeToTask", "ListTaskPushNotificationConfigs"), instead=_GET
    ),
    _Law("EXT-001 AUTH-002", operations=tuple(n for n in OPERATIONS if n != _SEND), instead=_SEND),
    # Deleting what is not there may succeed, whoever asks.
    _Law("TEN-002", operations=(*(n for n in _BY_ID if not n.startswith("Delete")), _SEND, _STREAM), instead=_GET),
    _Law("AUTH-006 AUTH-007 LIST-017", states=("working", "input-required", "failed", "canceled", "rejected")),
    _Law("AUTH-008", operations=(*_BY_ID, _SEND, _STREAM), instead=_GET),
)
_BY_RULE = {rule: law for law in _LAWS for rule in law.rules.split()}

RULES = frozenset(_BY_RULE)
"""Ids of the requirements that are crossed."""


def cells(rule: str) -> Iterator[Cell]:
    """Yield every cell of a requirement, its representative left out."""
    law = _BY_RULE.get(rule)
    if law is None:
        return
    for state in law.states:
        for operation in law.operations:
            for near in law.near:
                if state or operation or near:
                    yield Cell(operation, law.instead if operation else "", state, near)


@dataclass(frozen=True, slots=True)
class Declared:
    """What decides which cells an interface allows.

    :param capabilities: those that its card declares.
    :param prompts: scenarios that there is a prompt for.
    """

    capabilities: frozenset[str]
    prompts: frozenset[str]
    version: str = "1.0"


def obstacle(cell: Cell, declared: Declared) -> str:
    """Return why an interface does not allow a cell; empty where it does."""
    needed = _CAPABILITIES.get(cell.operation, "")
    if needed and needed not in declared.capabilities:
        return f"the card does not declare capabilities.{needed}"
    prompt = STATE_PROMPTS.get(cell.state, "")
    if prompt and prompt not in declared.prompts:
        return f"there is no prompt for the scenario {prompt!r}"
    if cell.operation and declared.version == "0.3" and not OPERATIONS[cell.operation].rpc03:
        return f"0.3 has no {cell.operation}"
    return ""


def allowed(rule: str, declared: Declared) -> list[Cell]:
    """Return the cells of a requirement that an interface allows."""
    return [cell for cell in cells(rule) if not obstacle(cell, declared)]
