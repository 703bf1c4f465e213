"""Faults of streams and subscriptions."""

from collections.abc import Callable, Iterable
from typing import Any

from faulty.fault import EventHook, Fault, FaultyCall, Json, Packet, answering, each_event, headers, losing
from faulty.problems import Problem
from faulty.store import TERMINAL_STATES, new_id, now

_SEND = "SendStreamingMessage"
_SUBSCRIBE = "SubscribeToTask"


def _sent(what: Callable[[FaultyCall, int, Json], Any], *, times: int = 0) -> Fault:
    """Return a fault of a server that sends some events not at all, or several times."""
    return Fault(event=lambda *seen: (seen[2],) * times if what(*seen) else (seen[2],))


def _state(event: Json) -> Any:
    return event.get("statusUpdate", {}).get("status", {}).get("state")


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
    return {"kind": {"statusUpdate": "status-update", "artifactUpdate": "artifact-update"}.get(kind, kind), **content}


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


def _error_event(call: FaultyCall, problem: Problem) -> Problem | Json:
    """Open a stream for what is wrong from the start, and say so in its event."""
    if call.operation != _SEND:
        return problem
    shown = {"code": problem.http, "status": problem.grpc, "message": problem.message}
    return {"error": {**shown, "details": list(problem.details)}}


def _no_artifacts(call: FaultyCall, index: int, event: Json) -> Iterable[Json]:
    is_first = call.operation == _SUBSCRIBE and "task" in event
    return ({"task": {k: v for k, v in event["task"].items() if k != "artifacts"}},) if is_first else (event,)


def _as_submitted(call: FaultyCall, index: int, event: Json) -> Iterable[Json]:
    if call.operation == _SUBSCRIBE and event.get("task", {}).get("status", {}).get("state") == "TASK_STATE_WORKING":
        event["task"]["status"]["state"] = "TASK_STATE_SUBMITTED"
    return (event,)


def _streams(call: FaultyCall) -> bool:
    return call.operation in (_SEND, _SUBSCRIBE)


def _enveloped(change: Callable[[Json], Json]) -> Fault:
    """Return a fault of the envelopes of events."""
    return Fault(envelope=lambda call, sent: change(sent) if _streams(call) and "result" in sent else sent)


def _page(status: int, page: bytes, **headers: str) -> Packet:
    return Packet(status, {"content-type": "text/html", **headers}, page)


def _late_subscription(params: Json) -> Json:
    status = {"state": "TASK_STATE_COMPLETED", "timestamp": now()}
    return {"task": {"id": params.get("id") or new_id(), "contextId": new_id(), "status": status}}


STREAM_FAULTS: dict[str, Fault] = {
    "stream-content-type": Fault(
        packet=lambda call, p: headers(content_type="application/json")(call, p) if _streams(call) else p
    ),
    "stream-no-task": losing("task", _SEND),
    "stream-message-twice": _sent(lambda call, index, event: "message" in event, times=2),
    "stream-message-between": Fault(event=_message_between),
    "stream-no-final": _sent(lambda call, index, event: _state(event) in TERMINAL_STATES),
    "stream-after-final": Fault(event=_after_final),
    "stream-bare": Fault(event=each_event(_bare)),
    "stream-two-members": Fault(event=each_event(_two_members)),
    "stream-other-task": Fault(event=_update(lambda update: update.update(taskId=new_id()))),
    "stream-no-context": Fault(event=_update(lambda update: update.pop("contextId"))),
    "stream-wrong-id": _enveloped(lambda sent: {**sent, "id": "another"}),
    "stream-no-envelope": _enveloped(lambda sent: dict(sent["result"])),
    "stream-enveloped": Fault(event=each_event(lambda event: {"jsonrpc": "2.0", "id": 1, "result": event})),
    "stream-other-text": Fault(
        event=_update(
            lambda update: [p.update(text=p["text"].upper()) for p in update["artifact"]["parts"] if "text" in p],
            "artifactUpdate",
        )
    ),
    "stream-lost-artifacts": losing("artifactUpdate"),
    "stream-unknown-task": Fault(error=_one_event),
    "stream-append-first": Fault(
        event=_update(lambda update: update.update(append=not update.get("append", False)), "artifactUpdate")
    ),
    "stream-no-last-chunk": Fault(event=_update(lambda update: update.update(lastChunk=False), "artifactUpdate")),
    "stream-reordered": Fault(event=_reordered()),
    "subscribe-no-task": _sent(lambda call, index, event: index == 0 and call.operation == _SUBSCRIBE),
    "subscribe-terminal": answering("UnsupportedOperation", _SUBSCRIBE, _late_subscription),
    "subscribe-unknown": answering("TaskNotFound", _SUBSCRIBE, _late_subscription),
    "subscribe-gap": Fault(event=_gap()),
    "stream-502": Fault(
        packet=lambda call, p: _page(502, b"<html><h1>502 Bad Gateway</h1></html>") if _streams(call) else p
    ),
    "challenge": Fault(
        packet=lambda call, p: _page(
            403, b"<!doctype html><title>Just a moment...</title>", **{"cf-mitigated": "challenge"}
        )
    ),
    "subscribe-stale": Fault(event=_as_submitted),
    "subscribe-no-artifacts": Fault(event=_no_artifacts),
    "stream-error-event": Fault(error=_error_event),
    "follow-up-no-task": _sent(
        lambda call, index, event: (
            "task" in event and call.operation == _SEND and (call.params.get("message") or {}).get("taskId")
        )
    ),
    "stream-undeclared-code": Fault(
        error=lambda call, p: (
            Problem("MethodNotFound", -32601, 404, "UNIMPLEMENTED", "Method not found") if _streams(call) else p
        )
    ),
}
