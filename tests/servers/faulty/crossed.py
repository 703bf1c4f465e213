"""Faults that are in one place only: on one operation, about tasks in one state, on one binding (pure, and data alone).

An agent that forgets a rule everywhere is found by any check of it. These forget it where a check has to look for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from faulty.fault import ALL, Fault

_STREAM = "SendStreamingMessage"
_SEND = ("SendMessage", _STREAM)
_BY_ID = ("CancelTask", "SubscribeToTask")
_PUSH = (
    *("CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig"),
    *("ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig"),
)
_EVERY = (*_SEND, "ListTasks", *_BY_ID, *_PUSH)
_GUARDED = (_STREAM, "GetTask", "ListTasks", *_BY_ID, *_PUSH)
_ENDED = ("COMPLETED", "FAILED", "CANCELED", "REJECTED")
_RESTING = ("INPUT_REQUIRED", "AUTH_REQUIRED", "FAILED", "CANCELED", "REJECTED")
_LATER = ("CANCELED", "FAILED", "REJECTED")

# Faults, what they break where they are alone, and on which operations.
_OPERATIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("accept-no-message", "VAL-001", (_STREAM,)),
    ("accept-no-message-id", "VAL-002", (_STREAM,)),
    ("accept-no-role", "VAL-003", (_STREAM,)),
    ("accept-no-parts", "VAL-004", (_STREAM,)),
    ("accept-empty-parts", "VAL-005", (_STREAM,)),
    ("accept-empty-part", "VAL-006", (_STREAM,)),
    ("accept-two-contents", "VAL-007", (_STREAM,)),
    ("accept-parts-type", "VAL-008", (_STREAM,)),
    ("accept-role-name", "VAL-009", (_STREAM,)),
    ("accept-base64", "VAL-010", (_STREAM,)),
    ("accept-history-length", "VAL-011", (_STREAM,)),
    ("any-media", "SEND-009", (_STREAM,)),
    ("any-context", "MT-005", (_STREAM,)),
    ("any-version", "VER-001", _EVERY),
    ("any-minor", "VER-004", _EVERY),
    ("no-version-is-1.0", "VER-002", _EVERY),
    ("no-extension-check", "EXT-001", (*_SEND, "GetTask", "ListTasks", *_BY_ID)),
    ("new-context", "MT-002", (_STREAM,)),
    ("task-id-of-context", "MT-003", (_STREAM,)),
    ("follow-up-new-context", "MT-004", (_STREAM,)),
    ("follow-up-new-task", "MT-006", (_STREAM,)),
    ("no-references", "MT-008", (_STREAM,)),
    ("message-no-context", "SEND-013", (_STREAM,)),
    ("message-user-role", "SEND-014", (_STREAM,)),
    ("send-strict", "SEND-015", (_STREAM,)),
    ("refuse-extensions", "EXT-003", (_STREAM,)),
    ("push-not-at-send", "PUSH-015", (_STREAM,)),
    ("late-end", "SUB-002", ("SubscribeToTask",)),
    ("get-not-found-code", "GET-002", ("GetTask",)),
    ("message-other-task", "DM-015", ("GetTask", "ListTasks", *_SEND)),
    ("no-auth-missing", "AUTH-005", _GUARDED),
    ("any-token", "AUTH-005", _GUARDED),
    ("no-scope", "AUTH-006", ("GetTask",)),
    ("no-scope", "AUTH-007", (*_SEND, *_BY_ID, *_PUSH)),
    ("no-scope", "LIST-017", ("ListTasks",)),
    ("state-lower-case", "DM-002", ("GetTask", "ListTasks", *_SEND, "SubscribeToTask")),
    ("status-no-state", "DM-007", ("GetTask", "ListTasks", "SendMessage")),
    ("artifact-no-id", "DM-005", ("GetTask", "ListTasks", *_SEND)),
    ("snake-case", "DM-008", ("GetTask", "ListTasks", *_SEND, "SubscribeToTask")),
    ("timestamp-offset", "DM-010", ("GetTask", "ListTasks", *_SEND, "SubscribeToTask")),
    ("null-members", "DM-013", ("GetTask", "ListTasks", *_SEND)),
    ("part-kind", "DM-012", ("GetTask", "ListTasks", *_SEND)),
    ("stream-other-task", "STREAM-008", ("SubscribeToTask",)),
    ("stream-no-context", "STREAM-008", ("SubscribeToTask",)),
    ("stream-two-members", "STREAM-007", ("SubscribeToTask",)),
    ("stream-bare", "STREAM-007", ("SubscribeToTask",)),
    ("stream-message-between", "STREAM-004", ("SubscribeToTask",)),
    ("stream-after-final", "STREAM-015", ("SubscribeToTask",)),
    ("stream-wrong-id", "STREAM-009", ("SubscribeToTask",)),
    ("stream-enveloped", "STREAM-010", ("SubscribeToTask",)),
)

# The same for the states of the tasks that they are about.
_STATES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("state-misspelt", "DM-002", _ENDED),
    ("state-lower-case", "DM-002", ("WORKING", *_RESTING)),
    ("task-no-id", "DM-001", ("INPUT_REQUIRED", "AUTH_REQUIRED", "FAILED", "REJECTED")),
    ("status-no-state", "DM-007", ("WORKING", *_RESTING)),
    ("snake-case", "DM-008", ("WORKING", *_RESTING)),
    ("timestamp-offset", "DM-010", ("WORKING", *_RESTING)),
    ("null-members", "DM-013", _RESTING),
    ("message-no-id", "DM-003", ("INPUT_REQUIRED", "AUTH_REQUIRED")),
    ("role-lower-case", "DM-004", ("INPUT_REQUIRED", "AUTH_REQUIRED")),
    ("continue-terminal", "SEND-007", _ENDED),
    ("cancel-terminal", "CAN-002", ("FAILED", "REJECTED")),
    ("subscribe-terminal", "SUB-003", ("FAILED", "CANCELED", "REJECTED")),
    ("stream-after-final", "STREAM-015", _LATER),
    ("endless-stream", "STREAM-005", ("FAILED", "REJECTED")),
    ("endless-stream", "CAN-006", ("CANCELED",)),
    ("stream-other-task", "STREAM-008", _LATER),
    ("stream-two-members", "STREAM-007", _LATER),
    ("get-changes", "GET-007", _LATER),
    ("get-wrapped", "GET-001", _LATER),
    ("old-no-kind", "V03-DM-001", ("WORKING", *_RESTING)),
    ("old-states-of-1.0", "V03-DM-002", ("WORKING", *_RESTING)),
    ("old-roles", "V03-DM-003", ("INPUT_REQUIRED", "AUTH_REQUIRED")),
    ("old-task-no-context", "V03-DM-004", ("WORKING", *_RESTING)),
    ("old-never-final", "V03-STREAM-002", ("FAILED", "REJECTED")),
    ("continue-terminal@0.3", "V03-SEND-004", _LATER),
    ("cancel-terminal@0.3", "V03-TASK-002", ("FAILED", "REJECTED")),
)

# Faults of these names and beginnings are tried on each binding alone, where they are on several.
_ON_BINDINGS = ("send-", "list-", "get-", "cancel-", "push-", "accept-", "stream-", "subscribe-", "data-", "error-")
# Of deliveries and in the task itself there is no binding.
_OF_NONE = (
    *("push-nothing", "push-bare", "push-content-type", "push-no-auth", "push-no-final", "push-scheme-case"),
    *("push-reordered", "push-waits", "push-forgets", "push-put", "cancel-nothing", "cancel-deaf-streams"),
    *("cancel-twice", "stream-one-only", "stream-closes-all", "get-not-found-code", "push-undeclared-code"),
    *("error-untyped", "push-forgets-waiting", "push-first-only", "push-always-bearer"),
)


# What a binding cannot carry: gRPC has no wrong types, no unknown names and no base64; HTTP+JSON has ids in paths.
_CANNOT = frozenset(
    {
        *(f"accept-{name}@GRPC" for name in ("empty-parts", "two-contents", "parts-type", "role-name", "base64")),
        *("list-any-status@GRPC", "get-no-id@HTTP+JSON", "cancel-no-id@HTTP+JSON"),
        # Right in 1.0.0, and so a warning at most.
        "stream-undeclared-code@GRPC",
    }
)

# Faults of 1.0 that an agent of 0.3 can have just so, and what they break there.
_OLD: tuple[tuple[str, str], ...] = (
    ("sign-stale", "V03-SIGN-003"),
    ("never-block", "V03-SEND-002"),
    ("push-not-at-send", "V03-SEND-003"),
    ("continue-terminal", "V03-SEND-004"),
    ("send-any-task", "V03-SEND-005"),
    ("stream-content-type", "V03-STREAM-001"),
    ("stream-no-final", "V03-STREAM-002"),
    ("endless-stream", "V03-STREAM-002"),
    ("stream-undeclared", "V03-STREAM-004"),
    ("get-unknown", "V03-TASK-001"),
    ("get-history", "V03-TASK-001"),
    ("cancel-nothing", "V03-TASK-002"),
    ("cancel-terminal", "V03-TASK-002"),
    ("cancel-unknown", "V03-TASK-002"),
    ("push-other-url", "V03-PUSH-001"),
    ("push-list-first", "V03-PUSH-001"),
    ("push-delete-nothing", "V03-PUSH-001"),
    ("push-undeclared", "V03-PUSH-004"),
    ("refuse-extensions", "V03-EXT-001"),
    ("extended-open", "V03-XCARD-001"),
    ("no-auth-missing", "V03-AUTH-001"),
    ("any-token", "V03-AUTH-001"),
    ("grpc-no-auth", "V03-AUTH-001"),
    ("json-500", "V03-RPC-004"),
    ("method-code", "V03-RPC-004"),
    ("id-as-text", "V03-RPC-003"),
)


def crossed(faults: Mapping[str, Fault]) -> Iterator[Fault]:
    """Yield every fault in one place only, and those of 1.0 that 0.3 has, too."""
    old = {fault.name: fault for fault in _in_old(faults)}
    yield from old.values()
    faults = {**faults, **old}
    for name, rule, operations in _OPERATIONS:
        for operation in operations:
            yield _placed(faults[name], operation, f"on {operation}", breaks=(rule,), operations=(operation,))
    for name, rule, states in _STATES:
        for state in states:
            full = f"TASK_STATE_{state}"
            yield _placed(faults[name], state, f"about tasks in {full}", breaks=(rule,), states=(full,))
    for fault in faults.values():
        if (
            fault.name.startswith(_ON_BINDINGS)
            and fault.name.partition("@")[0] not in _OF_NONE
            and len(fault.bindings) > 1
        ):
            for binding in (b for b in ALL if b in fault.bindings and f"{fault.name}@{b}" not in _CANNOT):
                yield _placed(fault, binding, f"on {binding}", breaks=_breaks(fault, binding), bindings=(binding,))


def _in_old(faults: Mapping[str, Fault]) -> Iterator[Fault]:
    for name, rule in _OLD:
        says = f"{faults[name].says.rstrip('.')}: in 0.3."
        yield replace(faults[name], name=f"{name}@0.3", says=says, breaks=(rule,), version="0.3")


def _breaks(fault: Fault, binding: str) -> tuple[str, ...]:
    """Return what a fault breaks on one binding: some rules are of one binding."""
    own = {"ERR-003": "JSONRPC", "ERR-005": "HTTP+JSON", "ERR-006": "GRPC"}
    return tuple(rule for rule in fault.breaks if own.get(rule, binding) == binding)


def _placed(fault: Fault, suffix: str, where: str, **changes: tuple[str, ...]) -> Fault:
    says = f"{fault.says.rstrip('.')}: only {where}."
    return replace(fault, name=f"{fault.name}@{suffix}", says=says, **changes)  # type: ignore[arg-type]
