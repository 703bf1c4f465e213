"""The file format: requests, events and errors between dataclasses and JSON (pure)."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench import errors
from pytest_a2a_bench.a2a.messages import Artifact, ArtifactUpdate, InEvent, InMessage, InTask, OutMessage, StatusUpdate
from pytest_a2a_bench.errors import A2ABenchError, CassetteError, InfrastructureError
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.model.reading import known_fields, to_plain

SCHEMA_VERSION = 1

_KINDS: Mapping[str, type[Any]] = {
    "message": InMessage,
    "task": InTask,
    "status": StatusUpdate,
    "artifact": ArtifactUpdate,
}
_NUMBERS = ("status_code", "retry_after", "code")
_DIFF_LINES = 40


@dataclass(slots=True)
class Exchange:
    """One request and what came of it.

    :param request: what was asked, without what differs from run to run.
    :param events: the answer's events in order.
    :param error: class name, message and numbers of the error that ended it.
    :param attempt: from 1; a later one repeats the exchange before.
    """

    request: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)
    error: dict[str, Any] | None = None
    attempt: int = 1
    method: str = ""
    status_code: int | None = None
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Cassette:
    """One trial's exchanges, and how long each turn took."""

    key: str
    exchanges: list[Exchange] = field(default_factory=list)
    turn_seconds: list[float] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the file's content."""
        return {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, data: Any) -> Cassette:
        """Read a file's content.

        :raises ValueError: if it is not a cassette, or one of another version.
        """
        if not isinstance(data, Mapping) or data.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(f"no cassette of schema_version {SCHEMA_VERSION}")
        try:
            exchanges = [Exchange(**known_fields(Exchange, e)) for e in data["exchanges"]]
            return cls(str(data["key"]), exchanges, [float(s) for s in data["turn_seconds"]])
        except (KeyError, TypeError, AttributeError) as exc:
            raise ValueError(f"not a cassette: {exc!r}") from exc


def write_send(message: OutMessage, *, stream: bool) -> dict[str, Any]:
    """Return a message as it is compared: its id is random and left out."""
    plain = to_plain(message)
    del plain["message_id"]
    return {"operation": "send", "stream": stream, "message": _short(plain)}


def write_event(event: InEvent) -> dict[str, Any]:
    """Return an event as JSON."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(event, cls))
    return {"kind": kind, **_short(to_plain(event))}


def read_event(data: Mapping[str, Any]) -> InEvent:
    """Read what :func:`write_event` wrote.

    :raises ValueError: if it is something else.
    """
    try:
        cls = _KINDS[data["kind"]]
        values = known_fields(cls, data)
        if cls is InMessage:
            return _message(values)
        if values.get("status") is not None:
            values["status"] = _message(values["status"])
        if "artifacts" in values:
            values["artifacts"] = tuple(_artifact(a) for a in values["artifacts"])
        if "artifact" in values:
            values["artifact"] = _artifact(values["artifact"])
        if "history" in values:
            values["history"] = tuple(_message(m) for m in values["history"])
        for name in ("task_id", "context_id", *(("state",) if cls in (InTask, StatusUpdate) else ())):
            values.setdefault(name, None)
        event: InEvent = cls(**values)
        return event
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"not an event: {exc!r}") from exc


def write_error(error: BaseException) -> dict[str, Any]:
    """Return an error as JSON."""
    numbers = {name: getattr(error, name, None) for name in _NUMBERS}
    known = {name: number for name, number in numbers.items() if number is not None}
    return {"type": type(error).__name__, "message": str(error), **known}


def read_error(data: Mapping[str, Any]) -> A2ABenchError:
    """Return an error of the class that was recorded."""
    cls = getattr(errors, str(data.get("type")), None)
    numbers = {name: data[name] for name in _NUMBERS if name in data}
    message = str(data.get("message", ""))
    if isinstance(cls, type) and issubclass(cls, A2ABenchError):
        try:
            return cls(message, **numbers)
        except TypeError:
            pass
    return InfrastructureError(f"{data.get('type')}: {message}")


def compare(recorded: Mapping[str, Any], asked: Mapping[str, Any], *, key: str, number: int, where: str) -> None:
    """Check that a request is the one that was recorded.

    :raises CassetteError: with the difference, line by line.
    """
    if recorded == asked:
        return
    lines = difflib.unified_diff(_pretty(recorded), _pretty(asked), "recorded", "asked now", n=2, lineterm="")
    shown = list(lines)
    more = [f"... and {len(shown) - _DIFF_LINES} more lines"] if len(shown) > _DIFF_LINES else []
    difference = "\n".join([*shown[:_DIFF_LINES], *more])
    raise CassetteError(
        f"{key}: request {number} is not the one that {where} recorded; if the change is meant, record it again with "
        f"--a2a-record\n{difference}"
    )


def _pretty(value: Any) -> list[str]:
    # Texts hold documents of many lines: shown as such, a difference is where it is and not in one endless line.
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).replace("\\n", "\n").splitlines()


def _message(values: Mapping[str, Any]) -> InMessage:
    known = {"role": "", "context_id": None, "task_id": None, **known_fields(InMessage, values)}
    return InMessage(**{**known, "parts": _parts(known.get("parts", ()))})


def _artifact(values: Mapping[str, Any]) -> Artifact:
    known = {"artifact_id": "", **known_fields(Artifact, values)}
    return Artifact(**{**known, "parts": _parts(known.get("parts", ()))})


def _parts(values: Any) -> tuple[Part, ...]:
    return tuple(Part(**known_fields(Part, v)) for v in values)


def _short(value: Any) -> Any:
    """Leave out of objects what is empty: it is the default of what is read again. What agents sent as data is kept."""
    if isinstance(value, list):
        return [_short(v) for v in value]
    if not isinstance(value, dict):
        return value
    kept = {k: v for k, v in value.items() if v not in (None, "", [], {}) or (k == "data" and v is not None)}
    return {k: v if k in ("data", "metadata") else _short(v) for k, v in kept.items()}
