"""What faults are made of: changes to results, events, errors and packets (pure)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.agents.faulty.fault import FaultyCall, Json, Packet
from pytest_a2a_bench.agents.faulty.problems import Problem

_FREE_FORM = ("metadata", "data", "params")

ResultHook = Callable[[FaultyCall, Any], Any]
EventHook = Callable[[FaultyCall, int, Json], Iterable[Json]]
ErrorHook = Callable[[FaultyCall, Problem], "Problem | Json"]


def tasks_in(result: Any) -> Iterator[Json]:
    """Yield every task in a result or an event."""
    if not isinstance(result, dict):
        return
    if isinstance(result.get("task"), dict):
        yield result["task"]
    elif "status" in result and "id" in result:
        yield result
    yield from result.get("tasks", ())


def objects_in(value: Any) -> Iterator[Json]:
    """Yield every protocol object, the outer ones first, but nothing of free-form members."""
    if isinstance(value, dict):
        yield value
        for name, member in value.items():
            if name not in _FREE_FORM:
                yield from objects_in(member)
    elif isinstance(value, list):
        for member in value:
            yield from objects_in(member)


def each_task(change: Callable[[Json], Any]) -> ResultHook:
    """Return a hook that changes every task of a result in place."""

    def hook(_: FaultyCall, result: Any) -> Any:
        for task in tasks_in(result):
            change(task)
        return result

    return hook


def each_object(change: Callable[[Json], Any]) -> ResultHook:
    """Return a hook that changes every object of a result in place."""

    def hook(_: FaultyCall, result: Any) -> Any:
        for found in list(objects_in(result)):
            change(found)
        return result

    return hook


def only(operations: str | tuple[str, ...], change: Callable[[Json], Any]) -> ResultHook:
    """Return a hook that changes the result of some operations: in place, or to what it returns."""
    names = (operations,) if isinstance(operations, str) else operations

    def hook(call: FaultyCall, result: Any) -> Any:
        if call.operation not in names:
            return result
        changed = change(result)
        return result if changed is None else changed

    return hook


def without(*names: str) -> Callable[[Json], None]:
    """Return a change that takes members away."""

    def change(found: Json) -> None:
        for name in names:
            found.pop(name, None)

    return change


def each_event(change: Callable[[Json], Any]) -> EventHook:
    """Return a hook that changes each event in place, or to what the change returns."""

    def hook(_: FaultyCall, __: int, event: Json) -> Iterable[Json]:
        changed = change(event)
        return (event if changed is None else changed,)

    return hook


def ignoring(operation: str, *names: str) -> Callable[[FaultyCall, Json], Json]:
    """Return a request hook that forgets parameters."""

    def hook(call: FaultyCall, params: Json) -> Json:
        return {k: v for k, v in params.items() if k not in names} if call.operation == operation else params

    return hook


def error_as(kind_: str, /, **fields: Any) -> ErrorHook:
    """Return a hook that gives one kind of error other fields, on every operation."""

    def hook(_: FaultyCall, problem: Problem) -> Problem:
        return replace(problem, **fields) if problem.kind == kind_ else problem

    return hook


def answering(kind: str, operation: str, make: Callable[[Json], Json]) -> ErrorHook:
    """Return a hook that gives a result in place of an error."""

    def hook(call: FaultyCall, problem: Problem) -> Problem | Json:
        return make(call.params) if problem.kind == kind and call.operation == operation else problem

    return hook


def headers(**changed: str | None) -> Callable[[FaultyCall, Packet], Packet]:
    """Return a packet hook that sets headers, or takes them away for None; ``_`` stands for ``-``."""

    def hook(_: FaultyCall, packet: Packet) -> Packet:
        return packet._replace(headers=_merged(packet, changed))

    return hook


def delivery_headers(**changed: str | None) -> Callable[[Packet], Packet]:
    """Return the like for a push notification, or the card."""
    return lambda packet: packet._replace(headers=_merged(packet, changed))


def _merged(packet: Packet, changed: dict[str, str | None]) -> dict[str, str]:
    named = {name.replace("_", "-"): value for name, value in changed.items()}
    kept = {k: v for k, v in packet.headers.items() if k not in named}
    return {**kept, **{k: v for k, v in named.items() if v is not None}}


def body(change: Callable[[Json], Any]) -> Callable[[Packet], Packet]:
    """Return a hook that changes the JSON of a packet in place, or to what the change returns."""

    def hook(packet: Packet) -> Packet:
        parsed = json.loads(packet.body)
        changed = change(parsed)
        return packet._replace(body=json.dumps(parsed if changed is None else changed).encode())

    return hook
