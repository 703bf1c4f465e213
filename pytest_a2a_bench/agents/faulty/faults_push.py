"""Faults of push notifications."""

from __future__ import annotations

import json

from pytest_a2a_bench.agents.faulty.fault import Fault, FaultyCall, Json, Packet
from pytest_a2a_bench.agents.faulty.rewrite import answering, body, delivery_headers, error_as, only, without
from pytest_a2a_bench.agents.faulty.store import TERMINAL_STATES

_CREATE = "CreateTaskPushNotificationConfig"
_GET = "GetTaskPushNotificationConfig"
_LIST = "ListTaskPushNotificationConfigs"
_DELETE = "DeleteTaskPushNotificationConfig"


def _bare(event: Json) -> Json:
    return dict(next(iter(event.values())))


def _no_final(packet: Packet) -> Packet | None:
    event = json.loads(packet.body)
    state = event.get("statusUpdate", {}).get("status", {}).get("state")
    return None if state in TERMINAL_STATES else packet


def _first_only(result: Json) -> Json:
    return {**result, "configs": result["configs"][:1]}


def _lower_only(packet: Packet) -> Packet:
    scheme, _, rest = packet.headers.get("authorization", "").partition(" ")
    return delivery_headers(authorization=f"Basic {rest}")(packet) if scheme == "bearer" else packet


def _no_config_at_send(call: FaultyCall, params: Json) -> Json:
    configuration = params.get("configuration")
    if not isinstance(configuration, dict):
        return params
    kept = {k: v for k, v in configuration.items() if k != "taskPushNotificationConfig"}
    return {**params, "configuration": kept}


PUSH_FAULTS = (
    Fault("push-no-id", "A new configuration has no id.", ("PUSH-001",), reply=only(_CREATE, without("id"))),
    Fault(
        "push-no-task-id", "A new configuration has no taskId.", ("PUSH-001",), reply=only(_CREATE, without("taskId"))
    ),
    Fault(
        "push-other-url",
        "Get gives another URL than was stored.",
        ("PUSH-002",),
        reply=only(_GET, lambda r: {**r, "url": "http://127.0.0.1:9/other"}),
    ),
    Fault(
        "push-get-unknown",
        "An unknown configuration is made up.",
        ("PUSH-003",),
        error=answering(
            "TaskNotFound",
            _GET,
            lambda p: {"id": p.get("id", "x"), "taskId": p.get("taskId", "x"), "url": "http://127.0.0.1:9/"},
        ),
    ),
    Fault("push-list-first", "List gives the first configuration only.", ("PUSH-004",), reply=only(_LIST, _first_only)),
    Fault("push-delete-nothing", "Delete deletes nothing.", ("PUSH-005",), switches=frozenset({"delete-nothing"})),
    Fault("push-delete-twice", "A second delete is an error.", ("PUSH-006",), switches=frozenset({"delete-once"})),
    Fault(
        "push-forgets",
        "A configuration is gone after the first event.",
        ("PUSH-007", "PUSH-016"),
        switches=frozenset({"forgets-configs"}),
    ),
    Fault(
        "push-undeclared",
        "Undeclared push notifications are configurable.",
        ("PUSH-008",),
        variant="bare",
        switches=frozenset({"no-capability-check"}),
    ),
    Fault(
        "push-undeclared-code",
        "Undeclared push notifications give Unsupported operation.",
        ("PUSH-008", "ERR-JSON-PushNotificationNotSupported"),
        variant="bare",
        error=error_as(
            "PushNotificationNotSupported",
            kind="UnsupportedOperation",
            code=-32004,
            http=501,
            grpc="UNIMPLEMENTED",
            details=(),
        ),
    ),
    Fault(
        "push-unknown-task",
        "An unknown task gets a configuration.",
        ("PUSH-009",),
        error=answering("TaskNotFound", _CREATE, lambda p: {"id": "x", **p}),
    ),
    Fault(
        "push-no-url",
        "A configuration without url is accepted.",
        ("PUSH-010",),
        waive=frozenset({"no-url"}),
        switches=frozenset({"any-url"}),
    ),
    Fault("push-nothing", "No webhook is called.", ("PUSH-011",), delivery=lambda packet: None),
    Fault("push-bare", "The webhook's body is a bare update.", ("PUSH-012",), delivery=body(_bare)),
    Fault(
        "push-content-type",
        "The webhook gets application/json.",
        ("PUSH-013",),
        delivery=delivery_headers(content_type="application/json"),
    ),
    Fault(
        "push-no-auth",
        "The webhook gets no Authorization.",
        ("PUSH-014",),
        delivery=delivery_headers(authorization=None),
    ),
    Fault(
        "push-not-at-send", "A configuration inside SendMessage is ignored.", ("PUSH-015",), request=_no_config_at_send
    ),
    Fault("push-no-final", "The terminal state is not delivered.", ("PUSH-016",), delivery=_no_final),
    Fault(
        "push-reordered", "Webhooks get events in another order.", ("PUSH-017",), switches=frozenset({"push-reordered"})
    ),
    Fault("push-any-address", "Link-local webhooks are accepted.", ("PUSH-018",), switches=frozenset({"any-webhook"})),
    Fault("push-waits", "A slow webhook holds up the task.", ("PUSH-019",), switches=frozenset({"push-waits"})),
    Fault(
        "push-scheme-case", "Only the scheme Bearer with a capital is understood.", ("PUSH-020",), delivery=_lower_only
    ),
)
