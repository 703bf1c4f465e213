"""What ACTS says about the events of a stream (section 7 of its draft; pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.conformance.acts.assertions import Mismatch, mismatches
from pytest_a2a_bench.conformance.acts.document import StreamAssertions

_KINDS = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status_update",
    "artifactUpdate": "artifact_update",
}
_TERMINAL = {f"TASK_STATE_{word}" for word in ("COMPLETED", "FAILED", "CANCELED", "REJECTED")}
_FIRST = "TASK_STATE_SUBMITTED"
_ABOUT = ("description", "match", "index")


def view(event: Any) -> Any:
    """Return an event as assertions address it: the members of what it brings, and that once more by its kind.

    ``{status: ...}`` and ``{status_update: {status: ...}}`` are both about a status update, and ``{message: ...}`` is
    about a message alone. What is no StreamResponse, such as the envelope of a raw step, stays as it is.
    """
    if isinstance(event, Mapping) and len(event) == 1:
        ((name, inner),) = event.items()
        if name in _KINDS and isinstance(inner, Mapping):
            return {**inner, _KINDS[name]: inner}
    return event


def stream_mismatches(expect: StreamAssertions, views: Sequence[Any]) -> list[Mismatch]:
    """Return what does not hold of the events that came, as :func:`view` gives them."""
    found: list[Mismatch] = []
    count = len(views)
    if expect.min_count is not None and count < expect.min_count:
        found.append(Mismatch("the stream", f"at least {expect.min_count} events", f"{count} events"))
    if expect.max_count is not None and count > expect.max_count:
        found.append(Mismatch("the stream", f"at most {expect.max_count} events", f"{count} events"))
    if expect.ordering is not None:
        found += _out_of_order(views)
    for position, event in enumerate(expect.events):
        found += _event(event, position, views)
    if expect.final_event is not None:
        found += _one(expect.final_event, views[-1:], "the last event")
    if expect.each_event is not None:
        found += _one(expect.each_event, views[:1], "event 0")
        for number, seen in enumerate(views[1:], 1):
            found += _one(expect.each_event, [seen], f"event {number}")
    return found


def of_cut(expect: StreamAssertions, cut: int) -> StreamAssertions:
    """Return what is asked of a stream that is hung up after some events: nothing of those that nobody reads."""
    placed = [{"index": number, **event} for number, event in enumerate(expect.events)]
    read = [event for event in placed if event.get("match") != "any_position" and event["index"] in range(cut)]
    return replace(expect, events=read, final_event=None, min_count=None)


def _one(assertion: Mapping[str, Any], views: Sequence[Any], where: str) -> list[Mismatch]:
    if not views:
        return [Mismatch(where, repr(assertion), "not there")]
    return mismatches(assertion, views[0], where)


def _event(event: Mapping[str, Any], position: int, views: Sequence[Any]) -> list[Mismatch]:
    wanted = {name: value for name, value in event.items() if name not in _ABOUT}
    if event.get("match") == "any_position":
        if any(not mismatches(wanted, seen) for seen in views):
            return []
        about = event.get("description") or repr(wanted)
        return [Mismatch("no event", str(about), f"such among {len(views)}")]
    index = event.get("index", position)
    return _one(wanted, views[index : index + 1], f"event {index}")


def _states(views: Sequence[Any]) -> Iterator[tuple[int, str]]:
    for number, seen in enumerate(views):
        status = seen.get("status") if isinstance(seen, Mapping) else None
        state = status.get("state") if isinstance(status, Mapping) else None
        if isinstance(state, str):
            yield number, state


def _out_of_order(views: Sequence[Any]) -> list[Mismatch]:
    # Only what the draft says must fail; its list of transitions leaves out ways that the protocol allows.
    found, before = [], ""
    for number, state in _states(views):
        if before and state != before:
            if before in _TERMINAL:
                found.append(Mismatch(f"event {number}", f"nothing after {before}", state))
            elif state == _FIRST:
                found.append(Mismatch(f"event {number}", f"no way back from {before}", state))
        before = state
    return found
