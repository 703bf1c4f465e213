"""The file format: requests, events and errors between dataclasses and JSON (pure)."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench import errors
from pytest_a2a_bench.a2a.codec import ArtifactUpdate, InEvent, InMessage, InTask, OutMessage, StatusUpdate
from pytest_a2a_bench.errors import A2ABenchError, CassetteError, InfrastructureError
from pytest_a2a_bench.model.keys import Count, KeyText, Seconds, to_plain
from pytest_a2a_bench.results.store import StoredForm, adapter_of, explain

SCHEMA_VERSION = 1

_KINDS: Mapping[str, type[Any]] = {
    "message": InMessage,
    "task": InTask,
    "status": StatusUpdate,
    "artifact": ArtifactUpdate,
}
_DETAILS = {"status_code": int, "retry_after": float, "code": int, "limit": str}
_DIFF_LINES = 40


@dataclass(slots=True)
class Exchange:
    """One request and its outcome.

    :param request: what was asked, without what differs from run to run.
    :param events: the answer's events in order.
    :param error: class name, message and details of the error that ended it.
    :param attempt: from 1; a later one repeats the exchange before.
    """

    request: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)
    error: dict[str, Any] | None = None
    attempt: Count = 1
    method: str = ""
    status_code: Count | None = None
    seconds: Seconds = 0.0
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Cassette:
    """One trial's exchanges, and how long each turn took."""

    key: KeyText
    exchanges: list[Exchange] = field(default_factory=list)
    turn_seconds: list[Seconds] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the file's content."""
        return {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(self)}


CASSETTE = StoredForm(
    Cassette,
    " cannot be replayed: it is no cassette that this version reads",
    "record it again with --a2a-record",
    CassetteError,
    version=SCHEMA_VERSION,
    check=lambda cassette: _unreadable_event(cassette),
)


def _unreadable_event(cassette: Cassette) -> str | None:
    for number, exchange in enumerate(cassette.exchanges):
        for place, event in enumerate(exchange.events):
            try:
                read_event(event)
            except ValueError as error:
                return f"exchanges.{number}.events.{place} is {error}"
    return None


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
    from pydantic import ValidationError

    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"not an event: its kind is not one of {', '.join(_KINDS)}")
    try:
        event: InEvent = adapter_of(_KINDS[kind]).validate_python(data)
    except ValidationError as error:
        raise ValueError(f"not an event: {explain(error)}") from error
    return event


def write_error(error: BaseException) -> dict[str, Any]:
    """Return an error as JSON."""
    details = {name: getattr(error, name, None) for name in _DETAILS}
    known = {name: value for name, value in details.items() if value is not None}
    return {"type": type(error).__name__, "message": str(error), **known}


def read_error(data: Mapping[str, Any]) -> A2ABenchError:
    """Return an error of the class that was recorded."""
    cls = getattr(errors, str(data.get("type")), None)
    details: dict[str, Any] = {
        name: data[name]
        for name, kind in _DETAILS.items()
        if isinstance(data.get(name), str if kind is str else int | float)
    }
    message = str(data.get("message", ""))
    if isinstance(cls, type) and issubclass(cls, A2ABenchError):
        try:
            return cls(message, **details)
        except TypeError:
            pass
    return InfrastructureError(f"{data.get('type')}: {message}")


def compare(recorded: Mapping[str, Any], asked: Mapping[str, Any], *, key: str, number: int, where: str) -> None:
    """Check that a request is the one that was recorded.

    :raises CassetteError: with the difference, line by line.
    """
    recorded, asked = _without_places(recorded), _without_places(asked)
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


def _without_places(value: Any) -> Any:
    """Return a request without the places of events in its texts (:mod:`dialects.serialization`).

    The texts are compared themselves, and where an agent repeated a secret, which is hidden in what was recorded, what
    stands after it has moved.
    """
    if isinstance(value, Mapping):
        moved = ("start", "length") if {"kind", "start", "length"} <= set(value) else ()
        return {name: _without_places(inner) for name, inner in value.items() if name not in moved}
    return [_without_places(inner) for inner in value] if isinstance(value, list) else value


def _pretty(value: Any) -> list[str]:
    # Texts hold documents of many lines: shown as such, a difference is where it is and not in one endless line.
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).replace("\\n", "\n").splitlines()


def _short(value: Any) -> Any:
    """Leave out of objects what is empty: it is the default of what is read again. What agents sent as data is kept."""
    if isinstance(value, list):
        return [_short(v) for v in value]
    if not isinstance(value, dict):
        return value
    kept = {k: v for k, v in value.items() if v not in (None, "", [], {}) or (k == "data" and v is not None)}
    return {k: v if k in ("data", "metadata") else _short(v) for k, v in kept.items()}
