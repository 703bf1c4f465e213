"""Streams: reading their events of either protocol version, and the rules of a stream (pure).

Nothing here forgives: a shape that is neither version's is reported as such. States are compared in one spelling,
``input-required``; ``TASK_STATE_INPUT_REQUIRED`` reads the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_a2a_bench.a2a.bodies import as_list, as_object, as_objects, as_text
from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance.protocol.payloads import KINDS, state_of, task_in
from pytest_a2a_bench.text import one_line

MEMBERS = ("task", "message", "statusUpdate", "artifactUpdate")
# 0.3's HTTP+JSON and gRPC call the message so.
_ALIASES = {"msg": "message"}


class Problem(NamedTuple):
    """One defect of an answer; without ``expected`` the text of the requirement is the expectation."""

    pointer: str
    found: str
    expected: str = ""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream.

    :param kind: one of :data:`MEMBERS`, or empty if none can be made out.
    :param members: the members of a StreamResponse that the event has; a correct event of 1.0 has exactly one, and one
        of 0.3 none.
    """

    kind: str
    body: Mapping[str, Any]
    members: tuple[str, ...]

    @property
    def state(self) -> str:
        """The task state in it, or empty."""
        return state_of(self.body) if self.kind in ("task", "statusUpdate") else ""

    @property
    def task_id(self) -> str:
        """The id of the task that it belongs to, or empty."""
        return as_text(self.body.get("id" if self.kind == "task" else "taskId"))

    @property
    def context_id(self) -> str:
        """Its contextId, or empty."""
        return as_text(self.body.get("contextId"))


def read_event(raw: Any) -> StreamEvent:
    """Read a StreamResponse of 1.0, or a kind-tagged object of 0.3."""
    if not isinstance(raw, Mapping):
        return StreamEvent("", {}, ())
    named = {_ALIASES.get(name, name): value for name, value in raw.items()}
    # An empty object says as little as a member that is not there.
    members = tuple(name for name in MEMBERS if isinstance(named.get(name), Mapping) and named[name])
    if members:
        return StreamEvent(members[0], named[members[0]], members)
    kind = KINDS.get(str(raw.get("kind")), "")
    return StreamEvent(kind, raw if kind else {}, ())


def read_result(result: Any) -> StreamEvent:
    """Read the result of an operation: as an event, or a bare task as GetTask gives it."""
    task = task_in(result)
    return read_event(result if task is None else {"task": task})


def is_end(value: Any) -> bool:
    """Return whether an event is the last that a stream has: a Message, or the end of the task."""
    event = read_event(value)
    return event.kind == "message" or event.state in TERMINAL


def read_events(raws: Sequence[Any]) -> list[StreamEvent]:
    """Read the events of a stream."""
    return [read_event(raw) for raw in raws]


def one_member(raws: Sequence[Any]) -> list[Problem]:
    """Find events that do not have exactly one member of the oneof; those of 0.3 have none."""
    return [
        Problem(
            f"/{number}",
            f"event {number} has {' and '.join(event.members) or 'none of the members: ' + _excerpt(raws[number])}",
            "exactly one of task, message, statusUpdate, artifactUpdate",
        )
        for number, event in enumerate(read_events(raws))
        if len(event.members) != 1
    ]


def first_event(raws: Sequence[Any]) -> list[Problem]:
    """Find a stream that starts with neither a Task nor a Message."""
    events = read_events(raws[:1])
    if events and events[0].kind in ("task", "message"):
        return []
    found = f"the first event is {events[0].kind or 'of no known kind'}" if events else "the stream had no event"
    return [Problem("/0", found, "a Task or a Message as the first event, before its updates")]


# Section 3.1.2 allows updates only; 11.7 lets HTTP+JSON close with the task as it is stored.
def order_of_kinds(raws: Sequence[Any]) -> list[Problem]:
    """Find events that may not follow a Task or a Message; a Task snapshot may close a stream."""
    events = read_events(raws)
    if not events:
        return []
    if events[0].kind == "message":
        found = f"{len(events) - 1} more events follow a Message"
        return [Problem("/1", found, "one Message, then the end of the stream")] if len(events) > 1 else []
    problems = []
    for number, event in enumerate(events[1:], 1):
        # A task is allowed where the state before it is terminal: that is the closing snapshot.
        closing = number == len(events) - 1 or events[number].state in TERMINAL
        if event.kind == "message" or (event.kind == "task" and not closing):
            found = f"event {number} is a {event.kind.capitalize()} in the stream of a task"
            problems.append(Problem(f"/{number}", found, "statusUpdate and artifactUpdate after the Task"))
    return problems


def ids_agree(raws: Sequence[Any]) -> list[Problem]:
    """Find updates whose taskId or contextId is not that of the first Task, or update, where there is no Task."""
    events = read_events(raws)
    updates = [(number, event) for number, event in enumerate(events) if event.kind.endswith("Update")]
    task = next((event for event in events if event.kind == "task"), None)
    problems = []
    for number, event in updates:
        first = task or updates[0][1]
        for name, value, wanted in (
            ("taskId", event.task_id, first.task_id),
            ("contextId", event.context_id, first.context_id),
        ):
            if value != wanted:
                found = f"{event.kind} {number} has {name} {value!r}; the Task has {wanted!r}"
                problems.append(Problem(f"/{number}/{event.kind}/{name}", found, f"the Task's {name} in each update"))
    return problems


def nothing_after_terminal(raws: Sequence[Any]) -> list[Problem]:
    """Find updates that come after a terminal state, other than a snapshot that repeats it."""
    ended = ""
    # The same state once more is a repetition and no change.
    for number, event in enumerate(read_events(raws)):
        repeats = event.kind == "task" and event.state == ended
        if ended and not repeats:
            what = " ".join(filter(None, (event.kind or "unknown", event.state)))
            found = f"event {number} ({what}) follows the state {ended}"
            return [Problem(f"/{number}", found, "nothing after a terminal state")]
        if event.state in TERMINAL:
            ended = event.state
    return []


@dataclass
class Rebuilt:
    """A task, put together from the events of its stream.

    :param artifacts: artifact id to its parts, joined as ``append`` says.
    :param problems: ``append`` and ``lastChunk`` that make no sense.
    """

    state: str = ""
    artifacts: dict[str, list[Any]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    appended: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)


def rebuild(events: Sequence[StreamEvent]) -> Rebuilt:
    """Put a task together again from the events of its stream."""
    built = Rebuilt()
    for number, event in enumerate(events):
        # An artifact update tells no state, and the one before stays.
        built.state = event.state or built.state
        if event.kind == "task":
            artifacts = artifacts_of(event.body)
            # A task without the field says nothing about artifacts: only a snapshot that has some replaces.
            if artifacts or number == 0:
                built.artifacts = artifacts
        elif event.kind == "artifactUpdate":
            _add_chunk(built, number, event.body)
    return built


def _add_chunk(built: Rebuilt, number: int, body: Mapping[str, Any]) -> None:
    artifact = as_object(body.get("artifact"))
    name, parts = as_text(artifact.get("artifactId")), as_list(artifact.get("parts"))
    where = f"/{number}/artifactUpdate"
    if body.get("append") is True:
        if name not in built.artifacts:
            found = f"event {number} appends to artifact {name!r}, of which there is nothing yet"
            built.problems.append(Problem(f"{where}/append", found, "append false in the first chunk"))
        if name in built.closed:
            found = f"event {number} appends to artifact {name!r} after its last chunk"
            built.problems.append(Problem(f"{where}/lastChunk", found, "nothing after lastChunk"))
        built.appended.add(name)
        built.artifacts[name] = [*built.artifacts.get(name, []), *parts]
    else:
        # A chunk that does not append starts the artifact anew, so it is open again.
        built.closed.discard(name)
        built.artifacts[name] = parts
    if body.get("lastChunk") is True:
        built.closed.add(name)


def artifacts_of(task: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return artifact id to parts."""
    return {as_text(one.get("artifactId")): as_list(one.get("parts")) for one in as_objects(task.get("artifacts"))}


def _joined(parts: Sequence[Any]) -> list[str]:
    """Return parts with texts that follow each other as one: what came in pieces may be stored as one part."""
    joined: list[str] = []
    text: list[str] = []
    for part in parts:
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            text.append(part["text"])
            continue
        if text:
            joined.append("text:" + "".join(text))
            text = []
        joined.append(canonical(part))
    return [*joined, "text:" + "".join(text)] if text else joined


def differences(built: Rebuilt, task: Mapping[str, Any]) -> list[Problem]:
    """Compare the result of a stream with the stored task: state and artifacts."""
    problems = []
    kept = state_of(task)
    if built.state != kept:
        found = f"the stream ended with state {built.state or 'none'}; GetTask says {kept or 'none'}"
        problems.append(Problem("/status/state", found, "the same state"))
    stored = artifacts_of(task)
    for name in sorted({*built.artifacts, *stored}):
        if _joined(built.artifacts.get(name, [])) != _joined(stored.get(name, [])):
            streamed = _excerpt(built.artifacts.get(name))
            found = f"artifact {name!r}: streamed {streamed}; GetTask has {_excerpt(stored.get(name))}"
            problems.append(Problem("/artifacts", found, "the streamed chunks, joined in their order"))
    return problems


def result_of(events: Sequence[StreamEvent]) -> dict[str, Any]:
    """Return the result of a blocking call: the message, or the task in the last state that was streamed."""
    if not events or events[0].kind == "message":
        return {"message": events[0].body} if events else {}
    first = next((event for event in events if event.task_id), events[0])
    task = {"id": first.task_id, "contextId": first.context_id, **(first.body if first.kind == "task" else {})}
    for event in events:
        if event.state:
            task["status"] = event.body["status"]
    return {"task": task}


def updates(events: Sequence[StreamEvent]) -> list[str]:
    """Return the updates of a stream in canonical form, to compare two streams of one task."""
    return [canonical(event.body) for event in events if event.kind in ("statusUpdate", "artifactUpdate")]


# A later subscriber gets what is still to come, and nothing promises how much that is.
def is_suffix(short: Sequence[str], long: Sequence[str]) -> bool:
    """Return whether a stream that was joined later got the last events of the longer one."""
    return not short or list(short) == list(long[-len(short) :])


def once(payloads: Sequence[Any]) -> list[Any]:
    """Return deliveries without repeated ones: section 4.3.3 lets agents deliver a notification twice."""
    return list({canonical(payload): payload for payload in payloads}.values())


def canonical(value: Any) -> str:
    """Return JSON that is equal for equal values, whatever their member order; 5 and 5.0 are equal."""
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)


def is_same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal: in Python True is 1, too, and in lists and objects as well."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        # Bindings differ in whether they spell out what is not set; the meaning is the same.
        return {str(k): _plain(v) for k, v in value.items() if v not in (None, "", [], {}) and v is not False}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    # protobuf's Struct has doubles only, so 5 comes back as 5.0 over gRPC.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _excerpt(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), 160)
