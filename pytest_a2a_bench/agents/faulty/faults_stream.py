"""Faults of streams and subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pytest_a2a_bench.agents.faulty.fault import (
    ALL,
    GRPC,
    HTTP,
    REST,
    RPC,
    EventHook,
    Fault,
    FaultyCall,
    Json,
    Packet,
    answering,
    each_event,
    headers,
    losing,
    switch,
)
from pytest_a2a_bench.agents.faulty.problems import Problem
from pytest_a2a_bench.agents.faulty.store import TERMINAL_STATES, new_id, now

_SEND = "SendStreamingMessage"
_SUBSCRIBE = "SubscribeToTask"


def _state(event: Json) -> Any:
    return event.get("statusUpdate", {}).get("status", {}).get("state")


def _no_first_task(call: FaultyCall, index: int, event: Json) -> Iterable[Json]:
    return () if index == 0 and call.operation == _SUBSCRIBE else (event,)


def _twice(call: FaultyCall, index: int, event: Json) -> Iterable[Json]:
    return (event, event) if "message" in event else (event,)


def _no_final(call: FaultyCall, index: int, event: Json) -> Iterable[Json]:
    return () if _state(event) in TERMINAL_STATES else (event,)


def _after_final(call: FaultyCall, index: int, event: Json) -> Iterable[Json]:
    if _state(event) not in TERMINAL_STATES:
        return (event,)
    late = {**event["statusUpdate"], "status": {"state": "TASK_STATE_WORKING", "timestamp": now()}}
    return event, {"statusUpdate": late}


def _message_between(call: FaultyCall, index: int, event: Json) -> Iterable[Json]:
    if "artifactUpdate" not in event:
        return (event,)
    context_id = event["artifactUpdate"]["contextId"]
    parts = [{"text": "Thinking ..."}]
    message = {"messageId": new_id(), "contextId": context_id, "role": "ROLE_AGENT", "parts": parts}
    return {"message": message}, event


def _bare(event: Json) -> Json:
    (kind, content), *_ = event.items()
    return {"kind": {"task": "task", "message": "message"}.get(kind, kind), **content}


def _two_members(event: Json) -> None:
    if "statusUpdate" in event:
        event["artifactUpdate"] = {**event["statusUpdate"], "artifact": {"artifactId": "a", "parts": [{"text": ""}]}}


def _update(change: Callable[[Json], object], *kinds: str) -> EventHook:
    """Return a hook that changes the updates of a stream in place; of both kinds by default."""

    def alter(event: Json) -> None:
        for kind in kinds or ("statusUpdate", "artifactUpdate"):
            if kind in event:
                change(event[kind])

    return each_event(alter)


def _other_text(event: Json) -> None:
    for part in event.get("artifactUpdate", {}).get("artifact", {}).get("parts", ()):
        if "text" in part:
            part["text"] = part["text"].upper()


def _gap() -> Any:
    lost: set[int] = set()

    def hook(call: FaultyCall, index: int, event: Json) -> Iterable[Json]:
        if call.operation == _SUBSCRIBE and "artifactUpdate" in event and id(call) not in lost:
            lost.add(id(call))
            return ()
        return (event,)

    return hook


def _reordered() -> Any:
    held: dict[int, Json] = {}

    def hook(call: FaultyCall, index: int, event: Json) -> Iterable[Json]:
        key = id(call)
        if "artifactUpdate" in event and key not in held:
            held[key] = event
            return ()
        before = held.pop(key, None)
        return (event, before) if before else (event,)

    return hook


def _one_event(call: FaultyCall, problem: Problem) -> Problem | Json:
    if call.operation != _SEND or problem.kind != "TaskNotFound":
        return problem
    status = {"state": "TASK_STATE_FAILED", "timestamp": now()}
    return {"task": {"id": new_id(), "contextId": new_id(), "status": status}}


def _wrong_id(call: FaultyCall, envelope: Json) -> Json:
    return {**envelope, "id": "another"} if _streams(call) and "result" in envelope else envelope


def _no_envelope(call: FaultyCall, envelope: Json) -> Json:
    return dict(envelope["result"]) if _streams(call) and "result" in envelope else envelope


def _enveloped(event: Json) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "result": event}


def _streams(call: FaultyCall) -> bool:
    return call.operation in (_SEND, _SUBSCRIBE)


def _plain_json(call: FaultyCall, packet: Packet) -> Packet:
    return headers(content_type="application/json")(call, packet) if _streams(call) else packet


def _late_subscription(params: Json) -> Json:
    status = {"state": "TASK_STATE_COMPLETED", "timestamp": now()}
    return {"task": {"id": params.get("id") or new_id(), "contextId": new_id(), "status": status}}


def _event(name: str, says: str, breaks: str, hook: EventHook, *, bindings: tuple[str, ...] = ALL) -> Fault:
    """Return a fault of the events of a stream."""
    return Fault(name, says, tuple(breaks.split()), bindings=bindings, event=hook)


STREAM_FAULTS = (
    Fault(
        "stream-content-type",
        "A stream is called application/json.",
        ("STREAM-001",),
        bindings=HTTP,
        packet=_plain_json,
    ),
    _event("stream-no-task", "A stream begins with an update.", "STREAM-002", losing("task", _SEND)),
    _event("stream-message-twice", "A message stream has two events.", "STREAM-003", _twice),
    _event("stream-message-between", "A message comes between the updates.", "STREAM-004", _message_between),
    switch("endless-stream", "A stream stays open after the task has ended.", "STREAM-005", "SUB-002"),
    _event("stream-no-final", "A stream ends without a final event.", "STREAM-005 STREAM-016", _no_final),
    _event("stream-after-final", "A task works on after it has ended.", "STREAM-005 STREAM-015", _after_final),
    switch("stream-open-input", "A stream stays open on INPUT_REQUIRED.", "STREAM-006", by="open-input"),
    _event(
        "stream-bare", "Events are bare and have a kind, as in 0.3.", "STREAM-007", each_event(_bare), bindings=HTTP
    ),
    _event("stream-two-members", "An event holds two members.", "STREAM-007", each_event(_two_members), bindings=HTTP),
    _event(
        "stream-other-task",
        "Updates name another task.",
        "STREAM-008",
        _update(lambda update: update.update(taskId=new_id())),
    ),
    _event(
        "stream-no-context",
        "Updates have no contextId.",
        "STREAM-008 DM-014",
        _update(lambda update: update.pop("contextId")),
    ),
    Fault(
        "stream-wrong-id", "Events have another id than the request.", ("STREAM-009",), bindings=RPC, envelope=_wrong_id
    ),
    Fault("stream-no-envelope", "Events have no envelope.", ("STREAM-009",), bindings=RPC, envelope=_no_envelope),
    _event(
        "stream-enveloped",
        "Events of HTTP+JSON are in JSON-RPC envelopes.",
        "STREAM-010",
        each_event(_enveloped),
        bindings=REST,
    ),
    _event("stream-other-text", "Streamed text is not the stored text.", "STREAM-011", each_event(_other_text)),
    _event("stream-lost-artifacts", "Artifacts are not streamed.", "STREAM-011 STREAM-016", losing("artifactUpdate")),
    switch("stream-late", "All events come at the end.", "STREAM-013"),
    Fault("stream-unknown-task", "A stream to an unknown task begins another.", ("STREAM-014",), error=_one_event),
    switch("stream-one-only", "Only the newest stream of a task gets events.", "STREAM-017", by="one-stream"),
    switch("stream-closes-all", "Closing one stream of a task ends the others.", "STREAM-018", by="closes-all"),
    switch("task-dies-with-stream", "A task ends with its stream.", "STREAM-019"),
    _event(
        "stream-append-first",
        "append is the wrong way round.",
        "STREAM-020",
        _update(lambda update: update.update(append=not update.get("append", False)), "artifactUpdate"),
    ),
    _event(
        "stream-no-last-chunk",
        "No chunk is the last one.",
        "STREAM-020",
        _update(lambda update: update.update(lastChunk=False), "artifactUpdate"),
    ),
    _event("stream-reordered", "An artifact comes later than it should.", "STREAM-011", _reordered()),
    _event("subscribe-no-task", "A subscription does not begin with the task.", "SUB-001", _no_first_task),
    Fault(
        "subscribe-terminal",
        "A task that has ended can be subscribed to.",
        ("SUB-003",),
        error=answering("UnsupportedOperation", _SUBSCRIBE, _late_subscription),
    ),
    Fault(
        "subscribe-unknown",
        "An unknown task can be subscribed to.",
        ("SUB-004",),
        error=answering("TaskNotFound", _SUBSCRIBE, _late_subscription),
    ),
    _event("subscribe-gap", "A subscription misses an event.", "SUB-006", _gap()),
    switch(
        "stream-grpc-breaks",
        "A gRPC stream breaks off after its first event.",
        "GR-003",
        bindings=GRPC,
        by="grpc-breaks-off",
    ),
    switch(
        "stream-undeclared",
        "Streaming works although the card says that it does not.",
        "STREAM-012",
        "SUB-005",
        variant="bare",
        by="no-capability-check",
    ),
    Fault(
        "stream-undeclared-code",
        "Undeclared streaming gives Method not found.",
        ("STREAM-012", "SUB-005"),
        variant="bare",
        error=lambda call, p: (
            Problem("MethodNotFound", -32601, 404, "UNIMPLEMENTED", "Method not found") if _streams(call) else p
        ),
    ),
)
