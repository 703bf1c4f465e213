"""What one fault is, and what faults are made of: changes to results, events, errors and packets (pure)."""

import copy
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from faulty.problems import Problem, failure

Json = dict[str, Any]

RPC, REST, GRPC = ("JSONRPC",), ("HTTP+JSON",), ("GRPC",)
HTTP = (*RPC, *REST)
ALL = (*HTTP, *GRPC)

VARIANTS = ("full", "guarded", "bare", "strict", "tenant", "signed")
"""``full``: streaming and push, no credentials. ``guarded``: bearer tokens and an extended card. ``bare``: no optional
capability. ``strict``: an extension that every caller must know. ``tenant``: interfaces that want a tenant. ``signed``:
a signed card, whose key is served too."""


class Packet(NamedTuple):
    """An HTTP response, or the request of a push notification, just before it is sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Caller:
    """Who calls, and with which service parameters."""

    name: str = ""
    version: str = "1.0"
    extensions: tuple[str, ...] = ()


class FaultyCall(NamedTuple):
    """One call that a fault looks at.

    :param version: the protocol version asked for, as it was written.
    """

    binding: str
    operation: str
    params: Json
    version: str = "1.0"


def _as_it_is(_: FaultyCall, value: Any) -> Any:
    return value


def _one(_: FaultyCall, __: int, event: Json) -> Iterable[Json]:
    return (event,)


@dataclass(frozen=True)
class Fault:
    """One defect. Without any hook it is the correct server.

    What can be said of it in words is in ``data/faults.jsonl``, as with the catalogue of requirements; what must be
    done is code, in ``faults_*.py``. A fault with ``switches`` or ``waive`` needs no code there.

    :param says: the defect in one sentence.
    :param breaks: ids of the requirements that it breaks.
    :param variant: the server that it shows on.
    :param version: of the protocol that is spoken.
    :param bindings: the bindings that it is on.
    :param operations: the operations that it is on; empty for all.
    :param states: of the tasks that it is about; empty for all.
    :param waive: violations of :mod:`validation` that are let through.
    :param switches: names that the agent's own code asks about.
    :param card: changes the published card.
    :param request: changes the parameters before they are looked at.
    :param reply: changes a result; gets a copy.
    :param event: returns what is sent in place of one event of a stream.
    :param error: changes an error, or makes a result of it.
    :param spelling: changes a result or an event as 0.3 spells it; not called in 1.0.
    :param envelope: changes a JSON-RPC envelope, or a REST body of an error.
    :param packet: changes an HTTP response.
    :param card_packet: changes the response that carries the card.
    :param signed: changes what is signed of the card.
    :param subscribing: the HTTP methods of SubscribeToTask.
    :param delivery: changes a push notification, or swallows it.
    """

    name: str = ""
    says: str = ""
    breaks: tuple[str, ...] = ()
    variant: str = "full"
    version: str = "1.0"
    bindings: tuple[str, ...] = ALL
    operations: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    waive: frozenset[str] = frozenset()
    switches: frozenset[str] = field(default_factory=frozenset)
    card: Callable[[Json], Json] = lambda card: card
    request: Callable[[FaultyCall, Json], Json] = _as_it_is
    reply: Callable[[FaultyCall, Any], Any] = _as_it_is
    event: Callable[[FaultyCall, int, Json], Iterable[Json]] = _one
    error: Callable[[FaultyCall, Problem], Problem | Json] = _as_it_is
    spelling: Callable[[FaultyCall, Any], Any] = _as_it_is
    envelope: Callable[[FaultyCall, Json], Json] = _as_it_is
    packet: Callable[[FaultyCall, Packet], Packet] = _as_it_is
    card_packet: Callable[[Packet], Packet] = lambda packet: packet
    signed: Callable[[Json], Json] = lambda card: card
    subscribing: tuple[str, ...] = ("POST", "GET")
    delivery: Callable[[Packet], Packet | None] = lambda packet: packet

    def is_on(self, call: FaultyCall) -> bool:
        """Return whether it is on the binding and the operation of a call."""
        return call.binding in self.bindings and (not self.operations or call.operation in self.operations)

    def touches(self, value: Any) -> bool:
        """Return whether a result or an event is about a task in one of its states."""
        if not self.states or not isinstance(value, dict):
            return not self.states
        update = value.get("statusUpdate")
        message = [*tasks_in(value), *([update] if isinstance(update, dict) else [])]
        return any(each["status"]["state"] in self.states for each in message)


BY_MISTAKE = "?"
"""Ends the name of a caller who has no credentials, and was let in by a fault that is on some operations only."""

NONE = Fault("none", "A correct server.")


# -- changes --


# What an agent puts there is its own, and no fault of the protocol can be in it.
_FREE_FORM = ("metadata", "data", "params")

ResultHook = Callable[[FaultyCall, Any], Any]
EventHook = Callable[[FaultyCall, int, Json], Iterable[Json]]


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
        # Listed first: a change may add or take away objects.
        for found in list(objects_in(result)):
            change(found)
        return result

    return hook


def only(operations: str | tuple[str, ...], change: Callable[[Json], Any]) -> Fault:
    """Return a fault that changes the result of some operations: in place, or to what it returns."""
    names = (operations,) if isinstance(operations, str) else operations

    def hook(call: FaultyCall, result: Any) -> Any:
        if call.operation not in names:
            return result
        changed = change(result)
        return result if changed is None else changed

    return Fault(reply=hook)


def having(*members: str, then: Callable[[Json], Any]) -> Callable[[Json], None]:
    """Return a change of the objects that have some members, of which none is null."""

    def change(found: Json) -> None:
        if all(found.get(member) is not None for member in members):
            then(found)

    return change


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


def ignoring(operation: str, *names: str) -> Fault:
    """Return a fault that forgets parameters."""
    return asking(operation, lambda params: dropped(params, *names))


def asking(operation: str, change: Callable[[Json], Json]) -> Fault:
    """Return a fault that changes the parameters of one operation."""
    return Fault(request=lambda call, params: change(params) if call.operation == operation else params)


def configured(*ignored: str, when: Callable[[Json], bool] = lambda _: True) -> Fault:
    """Return a fault that forgets members of the configuration of a message.

    :param when: tells of a configuration whether it is to be changed.
    """

    def hook(_: FaultyCall, params: Json) -> Json:
        asked = params.get("configuration")
        if not isinstance(asked, dict) or not when(asked):
            return params
        return {**params, "configuration": dropped(asked, *ignored)}

    return Fault(request=hook)


def dropped(found: Json, *names: str) -> Json:
    """Return an object without some of its members."""
    return {name: value for name, value in found.items() if name not in names}


def losing(member: str, operation: str = "") -> Fault:
    """Return a fault that does not send the events with a member; of one operation, or of all."""

    def hook(call: FaultyCall, _: int, event: Json) -> Iterable[Json]:
        return () if member in event and operation in ("", call.operation) else (event,)

    return Fault(event=hook)


def error_as(kind_: str, /, **fields: Any) -> Fault:
    """Return a fault that gives one kind of error other fields, on every operation."""
    return Fault(error=lambda _, problem: replace(problem, **fields) if problem.kind == kind_ else problem)


def answering(kind: str, operation: str, make: Callable[[Json], Json]) -> Fault:
    """Return a fault that gives a result in place of an error."""

    def hook(call: FaultyCall, problem: Problem) -> Problem | Json:
        return make(call.params) if problem.kind == kind and call.operation == operation else problem

    return Fault(error=hook)


def headers(**changed: str | None) -> Callable[[FaultyCall, Packet], Packet]:
    """Return a packet hook that sets headers, or takes them away for None; ``_`` stands for ``-``."""
    return lambda _, packet: packet._replace(headers=_merged(packet, changed))


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


def card_fault(change: Callable[[Json], object]) -> Fault:
    """Return a fault of the published card, which the change alters in place."""

    def hook(card: Json) -> Json:
        change(card)
        return card

    return Fault(card=hook)


def lacking(operation: str) -> Fault:
    """Return a fault of a server that does not have an operation."""
    return refusing(operation, lambda _: True, "MethodNotFound", f"there is no method {operation!r}")


def refusing(operation: str, when: Callable[[Json], Any], kind: str, *message: str) -> Fault:
    """Return a fault of a server that answers some requests of an operation with an error.

    :param when: tells of the parameters whether they are those.
    """

    def hook(call: FaultyCall, params: Json) -> Json:
        if call.operation == operation and when(params):
            raise failure(kind, *message)
        return params

    return Fault(request=hook)


async def single(event: Json) -> AsyncIterator[Json]:
    """Yield one event."""
    yield event


async def rewritten(events: AsyncIterator[Json], fault: Fault, call: FaultyCall) -> AsyncIterator[Json]:
    """Yield what a fault makes of a stream."""
    index = 0
    async for event in events:
        for sent in fault.event(call, index, copy.deepcopy(event)) if fault.touches(event) else (event,):
            yield sent
        # Counted before the fault: it may send one event twice or not at all.
        index += 1
