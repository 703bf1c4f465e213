"""A2A messages as JSON, both ways, for protocol 1.0 and 0.3 (pure).

Writing follows one version exactly. Reading accepts whatever shape arrives, whichever version was asked for: wrapped
or bare, ``kind`` or none, camelCase or snake_case, nulls anywhere. What cannot be read is a :class:`ProtocolError`.

0.3 has two JSON forms: JSON-RPC's, tagged by ``kind``, and the protobuf form of HTTP+JSON and gRPC (``content`` for
``parts``, ``data`` nested once more).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_a2a_bench.a2a.bodies import as_object, as_objects
from pytest_a2a_bench.errors import ProtocolError
from pytest_a2a_bench.model import Part

# A2A 1.0 §4.1.3: nothing follows a terminal state; an interrupted one waits for a message or for credentials (§7.6.1).
TERMINAL = frozenset({"completed", "failed", "canceled", "rejected"})
INTERRUPTED = frozenset({"input-required", "auth-required"})
SETTLED = TERMINAL | INTERRUPTED


@dataclass(frozen=True, slots=True)
class OutMessage:
    """A message to an agent."""

    message_id: str
    parts: tuple[Part, ...]
    context_id: str | None = None
    task_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InMessage:
    """A message from an agent (or, in a history, from us)."""

    role: str = ""
    parts: tuple[Part, ...] = ()
    context_id: str | None = None
    task_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """An output of a task."""

    artifact_id: str = ""
    parts: tuple[Part, ...] = ()
    name: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InTask:
    """A snapshot of a task; ``state`` is None where the agent gave none."""

    task_id: str | None = None
    context_id: str | None = None
    state: str | None = None
    status: InMessage | None = None
    artifacts: tuple[Artifact, ...] = ()
    history: tuple[InMessage, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """A streamed change of a task's state."""

    task_id: str | None = None
    context_id: str | None = None
    state: str | None = None
    status: InMessage | None = None
    final: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ArtifactUpdate:
    """A streamed piece of an artifact."""

    task_id: str | None = None
    context_id: str | None = None
    artifact: Artifact = Artifact()
    append: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    last: bool = False


InEvent = InMessage | InTask | StatusUpdate | ArtifactUpdate


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One message of the conversation, as it was sent or received.

    :param requests: how many requests the conversation had taken when it was received.
    """

    direction: Literal["sent", "received"]
    parts: tuple[Part, ...]
    timestamp: str
    message_id: str | None = None
    state: str | None = None
    requests: int = 0


def texts_sent(history: Iterable[HistoryEntry]) -> list[str]:
    """Return our own texts: a server may send them back with its answer, as the history of a task."""
    return [part.text for entry in history if entry.direction == "sent" for part in entry.parts]


Form = Literal["1.0", "0.3", "0.3-proto"]

ACCEPTED_OUTPUT_MODES = ("text/plain", "application/json")

# In the order of the numbers that protobuf's enum has for them, from 1: a state may come as its number.
_STATES = ("submitted", "working", "completed", "failed", "canceled", "input-required", "rejected", "auth-required")
_SPELLINGS = {"cancelled": "canceled", "unspecified": "", "unknown": ""}


# --- writing ----------------------------------------------------------------------------------------------------------


def write_send(message: OutMessage, form: Form, tenant: str = "") -> dict[str, Any]:
    """Return the parameters of SendMessage (1.0) or message/send (0.3), asking for a blocking answer."""
    configuration: dict[str, Any] = {"acceptedOutputModes": list(ACCEPTED_OUTPUT_MODES)}
    # In 1.0 an answer is complete unless it is asked to come at once (§3.2.2); 0.3 left the choice to the server.
    if form != "1.0":
        configuration["blocking"] = True
    params: dict[str, Any] = {"message": write_message(message, form), "configuration": configuration}
    if tenant and form == "1.0":
        params["tenant"] = tenant
    return params


def write_message(message: OutMessage, form: Form) -> dict[str, Any]:
    """Return a message as JSON."""
    data: dict[str, Any] = {"messageId": message.message_id, "role": "user" if form == "0.3" else "ROLE_USER"}
    if form == "0.3":
        data["kind"] = "message"
    data["content" if form == "0.3-proto" else "parts"] = [write_part(p, form) for p in message.parts]
    if message.context_id:
        data["contextId"] = message.context_id
    if message.task_id:
        data["taskId"] = message.task_id
    if message.metadata:
        data["metadata"] = dict(message.metadata)
    return data


def write_part(part: Part, form: Form) -> dict[str, Any]:
    """Return a part as JSON.

    A 0.3 data part must be an object, so any other value is sent as ``{"value": ...}`` there. Reading undoes nothing:
    an agent that answers ``{"value": 1}`` may well mean just that.
    """
    data = _write_part_1_0(part) if form == "1.0" else _write_part_0_3(part, form)
    if part.metadata:
        data["metadata"] = dict(part.metadata)
    return data


def _write_part_1_0(part: Part) -> dict[str, Any]:
    data: dict[str, Any] = {part.kind: getattr(part, part.kind)}
    if part.filename:
        data["filename"] = part.filename
    if part.media_type:
        data["mediaType"] = part.media_type
    return data


def _write_part_0_3(part: Part, form: Form) -> dict[str, Any]:
    proto = form == "0.3-proto"
    if part.kind == "text":
        return {"text": part.text} if proto else {"kind": "text", "text": part.text}
    if part.kind == "data":
        value = part.data if isinstance(part.data, Mapping) else {"value": part.data}
        return {"data": {"data": value}} if proto else {"kind": "data", "data": value}
    names = {"url": "fileWithUri", "raw": "fileWithBytes"} if proto else {"url": "uri", "raw": "bytes"}
    file = {names[part.kind]: part.url if part.kind == "url" else part.raw}
    if part.media_type:
        file["mimeType"] = part.media_type
    if part.filename:
        file["name"] = part.filename
    return {"file": file} if proto else {"kind": "file", "file": file}


# --- reading ----------------------------------------------------------------------------------------------------------


def read_event(raw: Any, form: Form) -> InEvent:
    """Read a result or a stream event of any shape.

    :raises ProtocolError: if it is none of message, task, status update and artifact update.
    """
    if not isinstance(raw, Mapping):
        raise ProtocolError(f"the reply is not A2A: found {_describe(raw)}, expected a task or a message object")
    kind = _get(raw, "kind")
    if not isinstance(kind, str):
        for names, reader in _WRAPPERS:
            inner = _get(raw, *names)
            if isinstance(inner, Mapping) and not _is_status(raw):
                return reader(inner, form)
        kind = _guess_kind(raw)
    reader_of_kind = _KINDS.get(kind)
    if reader_of_kind is None:
        raise ProtocolError(
            f"the reply is not A2A: found {_describe(raw)}, expected a task, a message or one of their updates"
        )
    return reader_of_kind(raw, form)


def read_task(raw: Any, form: Form) -> InTask:
    """Read the answer to GetTask or CancelTask; raises ProtocolError if it is not a task."""
    event = read_event(raw, form)
    if not isinstance(event, InTask):
        raise ProtocolError(f"GetTask answered with {_describe(raw)}, expected a task")
    return event


def read_state(value: Any) -> str | None:
    """Return a state's short lower-case name, or None where there is none that is known."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _STATES[value - 1] if 1 <= value <= len(_STATES) else None
    if not isinstance(value, str):
        return None
    name = value.strip().lower().replace("_", "-").removeprefix("task-state-")
    return _SPELLINGS.get(name, name) or None


def read_part(raw: Any, form: Form) -> Part | None:
    """Read a part; None where nothing in it can be used."""
    if isinstance(raw, str):
        return Part.of_text(raw)
    if not isinstance(raw, Mapping):
        return None
    media = _string(_get(raw, "mediaType", "media_type", "mimeType", "mime_type"))
    name = _string(_get(raw, "filename", "name"))
    metadata = as_object(_get(raw, "metadata")) or None
    if isinstance(raw.get("text"), str):
        return Part("text", text=raw["text"], media_type=media, filename=name, metadata=metadata)
    if isinstance(raw.get("file"), Mapping):
        return _read_file(raw["file"], metadata)
    if raw.get("data") is not None or (raw.get("kind") == "data" and "data" in raw):
        return Part("data", data=_read_data(raw, form), media_type=media, filename=name, metadata=metadata)
    for kind in ("url", "raw"):
        if isinstance(raw.get(kind), str):
            return _file_part(kind, raw[kind], media, name, metadata)
    return None


def _read_data(raw: Mapping[str, Any], form: Form) -> Any:
    data = raw["data"]
    nested = form == "0.3-proto" and "kind" not in raw and isinstance(data, Mapping) and list(data) == ["data"]
    return data["data"] if nested else data


def _read_file(file: Mapping[str, Any], metadata: Mapping[str, Any] | None) -> Part | None:
    media = _string(_get(file, "mimeType", "mime_type", "mediaType", "media_type"))
    name = _string(_get(file, "name", "filename"))
    url = _string(_get(file, "uri", "fileWithUri", "file_with_uri", "url"))
    raw = _string(_get(file, "bytes", "fileWithBytes", "file_with_bytes", "raw"))
    if url is None and raw is None:
        return None
    return _file_part(
        "url" if url is not None else "raw", (url if url is not None else raw) or "", media, name, metadata
    )


def _file_part(kind: str, value: str, media: str | None, name: str | None, metadata: Mapping[str, Any] | None) -> Part:
    if kind == "url":
        return Part("url", url=value, media_type=media, filename=name, metadata=metadata)
    return Part("raw", raw=value, media_type=media, filename=name, metadata=metadata)


def _read_message(raw: Mapping[str, Any], form: Form) -> InMessage:
    role = (_string(raw.get("role")) or "").lower().removeprefix("role_")
    return InMessage(
        role="user" if role == "user" else "agent",
        parts=_read_parts(_get(raw, "parts", "content"), form),
        context_id=_string(_get(raw, "contextId", "context_id")),
        task_id=_string(_get(raw, "taskId", "task_id")),
        metadata=as_object(raw.get("metadata")),
        message_id=_string(_get(raw, "messageId", "message_id")),
    )


def _read_whole_task(raw: Mapping[str, Any], form: Form) -> InTask:
    state, message = _read_status(raw.get("status"), form)
    return InTask(
        task_id=_string(_get(raw, "id", "taskId", "task_id")),
        context_id=_string(_get(raw, "contextId", "context_id")),
        state=state,
        status=message,
        artifacts=tuple(_read_artifact(a, form) for a in as_objects(raw.get("artifacts"))),
        history=tuple(_read_message(m, form) for m in as_objects(raw.get("history"))),
        metadata=as_object(raw.get("metadata")),
    )


def _read_status_update(raw: Mapping[str, Any], form: Form) -> StatusUpdate:
    state, message = _read_status(raw.get("status"), form)
    return StatusUpdate(
        task_id=_string(_get(raw, "taskId", "task_id", "id")),
        context_id=_string(_get(raw, "contextId", "context_id")),
        state=state,
        status=message,
        final=raw.get("final") is True,
        metadata=as_object(raw.get("metadata")),
    )


def _read_artifact_update(raw: Mapping[str, Any], form: Form) -> ArtifactUpdate:
    return ArtifactUpdate(
        task_id=_string(_get(raw, "taskId", "task_id", "id")),
        context_id=_string(_get(raw, "contextId", "context_id")),
        artifact=_read_artifact(as_object(raw.get("artifact")), form),
        append=raw.get("append") is True,
        last=_get(raw, "lastChunk", "last_chunk") is True,
        metadata=as_object(raw.get("metadata")),
    )


def _read_artifact(raw: Mapping[str, Any], form: Form) -> Artifact:
    return Artifact(
        artifact_id=_string(_get(raw, "artifactId", "artifact_id", "id")) or "",
        parts=_read_parts(_get(raw, "parts", "content"), form),
        name=_string(raw.get("name")) or "",
        metadata=as_object(raw.get("metadata")),
    )


def _read_status(raw: Any, form: Form) -> tuple[str | None, InMessage | None]:
    if isinstance(raw, str):
        return read_state(raw), None
    status = as_object(raw)
    message = _get(status, "message", "update")
    return read_state(status.get("state")), _read_message(message, form) if isinstance(message, Mapping) else None


def _read_parts(raw: Any, form: Form) -> tuple[Part, ...]:
    if isinstance(raw, str):
        return (Part.of_text(raw),)
    if not isinstance(raw, Sequence):
        return ()
    parts = (read_part(p, form) for p in raw)
    return tuple(p for p in parts if p is not None)


_KINDS: Mapping[str, Callable[[Mapping[str, Any], Form], InEvent]] = {
    "message": _read_message,
    "task": _read_whole_task,
    "status-update": _read_status_update,
    "artifact-update": _read_artifact_update,
}
_WRAPPERS: tuple[tuple[tuple[str, ...], Callable[[Mapping[str, Any], Form], InEvent]], ...] = (
    (("task",), _read_whole_task),
    (("message", "msg"), _read_message),
    (("statusUpdate", "status_update"), _read_status_update),
    (("artifactUpdate", "artifact_update"), _read_artifact_update),
)


def _is_status(raw: Mapping[str, Any]) -> bool:
    """Whether an object with a ``message`` member is a bare status rather than a wrapped message."""
    return "state" in raw


def _guess_kind(raw: Mapping[str, Any]) -> str:
    if raw.get("artifact") is not None:
        return "artifact-update"
    if raw.get("status") is not None:
        return "task" if raw.get("id") is not None else "status-update"
    if _get(raw, "parts", "content") is not None:
        return "message"
    return "task" if raw.get("artifacts") is not None else ""


def _get(raw: Mapping[str, Any], *names: str) -> Any:
    # A null is as good as nothing: some servers (agno) write one for every member that they have no value for.
    for name in names:
        if (value := raw.get(name)) is not None:
            return value
    return None


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _describe(raw: Any) -> str:
    if isinstance(raw, Mapping):
        return f"an object with {', '.join(map(repr, list(raw)[:8]))}" if raw else "an empty object"
    return "null" if raw is None else f"a {type(raw).__name__}"
