"""Conversations kept as files, and run again without the agent.

A cassette is the traffic between this package and the agent in one trial: each request as the client
meant it, and the events of its answer. That is above the bindings, so that one recorded over gRPC is replayed like one
recorded over JSON-RPC. Only the agent is replayed: environment, scripted user and evaluator work as ever.
"""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pytest_a2a_bench import errors
from pytest_a2a_bench.a2a import requests
from pytest_a2a_bench.a2a.card import AgentCard, Interface, parse_card
from pytest_a2a_bench.a2a.codec import ArtifactUpdate, InEvent, InMessage, InTask, OutMessage, StatusUpdate
from pytest_a2a_bench.a2a.requests import RequestRecord, Wire
from pytest_a2a_bench.errors import (
    A2ABenchError,
    CassetteError,
    ConfigurationError,
    InfrastructureError,
    TurnTimeoutError,
)
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.model.messages import Count, KeyText, Seconds, to_plain
from pytest_a2a_bench.redact import KNOWN, dump_json, hide_secrets
from pytest_a2a_bench.results.store import StoredForm, adapter_of, explain, save

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

    :param request: the request, without the members that differ from run to run.
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


CASSETTE = StoredForm(
    Cassette,
    " cannot be replayed: it is no cassette that this version reads",
    "record it again with --a2a-record",
    CassetteError,
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
    """Read the output of :func:`write_event`; raises ValueError if it is something else."""
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
    """Check that a request is the one that was recorded; raises CassetteError with the difference, line by line."""
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
    """Leave empty members out of objects: they are the defaults when read again. Agents' data are kept."""
    if isinstance(value, list):
        return [_short(v) for v in value]
    if not isinstance(value, dict):
        return value
    kept = {k: v for k, v in value.items() if v not in (None, "", [], {}) or (k == "data" and v is not None)}
    return {k: v if k in ("data", "metadata") else _short(v) for k, v in kept.items()}


class Tape(requests.Tape, Protocol):
    """Something between a conversation and the agent."""

    def keep(self) -> None:
        """The trial was judged: keep the recording."""
        ...


class RecordingTape:
    """Lets everything through, and takes it down.

    :param save: called with the cassette when the trial was judged.
    """

    def __init__(self, key: str, save: Callable[[Cassette], None]) -> None:
        self._cassette = Cassette(key)
        self._save = save
        self.streams: bool | None = None

    async def wire(self, real: Callable[[], Awaitable[Wire]]) -> Wire:
        """Return the agent's wire, listened to."""
        return _RecordingWire(await real(), self._cassette)

    def timed(self, seconds: float) -> float:
        """Take down how long a turn took."""
        self._cassette.turn_seconds.append(seconds)
        return seconds

    def keep(self) -> None:
        """Save the cassette."""
        self._save(self._cassette)


class _RecordingWire:
    def __init__(self, wire: Wire, cassette: Cassette) -> None:
        self.interface = wire.interface
        self._wire = wire
        self._cassette = cassette

    async def send(self, message: OutMessage, record: RequestRecord, *, stream: bool) -> AsyncGenerator[InEvent, None]:
        with self._exchange(Exchange(write_send(message, stream=stream)), record) as exchange:
            async with aclosing(self._wire.send(message, record, stream=stream)) as events:
                async for event in events:
                    exchange.events.append(write_event(event))
                    yield event

    async def get_task(self, task_id: str, record: RequestRecord) -> InTask:
        with self._exchange(Exchange({"operation": "get_task", "task_id": task_id}), record) as exchange:
            task = await self._wire.get_task(task_id, record)
            exchange.events.append(write_event(task))
            return task

    async def cancel_task(self, task_id: str, record: RequestRecord) -> InTask:
        # How a conversation is cleared up is no part of it.
        return await self._wire.cancel_task(task_id, record)

    async def close(self) -> None:
        await self._wire.close()

    @contextmanager
    def _exchange(self, exchange: Exchange, record: RequestRecord) -> Iterator[Exchange]:
        exchange.attempt = record.attempt
        self._cassette.exchanges.append(exchange)
        started = time.perf_counter()
        try:
            yield exchange
        except Exception as error:
            exchange.error = write_error(error)
            raise
        finally:
            exchange.seconds = round(time.perf_counter() - started, 6)
            exchange.method, exchange.status_code = record.method, record.status_code
            exchange.notes = list(record.notes)


class ReplayTape:
    """Answers as the agent once did, if it is asked the same.

    :param where: the cassette's file, for messages.
    """

    def __init__(self, cassette: Cassette, where: str) -> None:
        self._cassette = cassette
        self._where = where
        self._next = 0
        self._turns = iter(cassette.turn_seconds)

    @property
    def streams(self) -> bool | None:
        """Whether the next message was streamed."""
        left = self._cassette.exchanges[self._next :]
        return bool(left[0].request.get("stream")) if left else None

    async def wire(self, real: Callable[[], Awaitable[Wire]]) -> Wire:
        """Return a wire to the cassette."""
        return _ReplayWire(self)

    def timed(self, seconds: float) -> float:
        """Return how long the turn took when it was recorded."""
        return next(self._turns, seconds)

    def keep(self) -> None:
        """Nothing was recorded."""

    def take(self, request: dict[str, object], record: RequestRecord) -> Exchange:
        """Return the next exchange.

        Attempts that failed and were repeated are passed over: the final outcome counts.

        :raises CassetteError: if another request was recorded, or none.
        """
        exchanges = self._cassette.exchanges
        while self._next + 1 < len(exchanges) and exchanges[self._next + 1].attempt > exchanges[self._next].attempt:
            self._next += 1
        if self._next >= len(exchanges):
            raise CassetteError(
                f"{self._cassette.key}: {self._where} ends after {len(exchanges)} requests, and another one is made; "
                "record it again with --a2a-record"
            )
        exchange = exchanges[self._next]
        self._next += 1
        # As it would have been recorded.
        compare(exchange.request, KNOWN.hide_in(request), key=self._cassette.key, number=self._next, where=self._where)
        record.method, record.status_code = exchange.method, exchange.status_code
        record.notes.extend(exchange.notes)
        record.lasted(exchange.seconds)
        return exchange


class _ReplayWire:
    def __init__(self, tape: ReplayTape) -> None:
        self.interface = Interface("cassette:", "replay", "1.0")
        self._tape = tape

    async def send(self, message: OutMessage, record: RequestRecord, *, stream: bool) -> AsyncGenerator[InEvent, None]:
        exchange = self._tape.take(write_send(message, stream=stream), record)
        for event in map(read_event, exchange.events):
            record.answered = True
            yield event
        self._end(exchange)

    async def get_task(self, task_id: str, record: RequestRecord) -> InTask:
        exchange = self._tape.take({"operation": "get_task", "task_id": task_id}, record)
        self._end(exchange)
        for event in map(read_event, exchange.events):
            if isinstance(event, InTask):
                return event
        raise TurnTimeoutError("the recorded answer never came")

    async def cancel_task(self, task_id: str, record: RequestRecord) -> InTask:
        return InTask(task_id, None, "canceled")

    async def close(self) -> None:
        pass

    def _end(self, exchange: Exchange) -> None:
        if exchange.error is not None:
            raise read_error(exchange.error)


AGENT = "agent.json"


@dataclass(frozen=True, slots=True)
class RecordedAgent:
    """Whose cassettes these are.

    :param url: where its card was found.
    """

    endpoint: str
    url: str
    card: Mapping[str, Any]


_AGENT = StoredForm(
    RecordedAgent, " does not tell of an agent", "record again with --a2a-record", ConfigurationError, version=0
)


def recorder(directory: Path, secrets: Iterable[str] = ()) -> Callable[[TrialKey], Tape]:
    """Return a factory of tapes for trials that are recorded.

    :param secrets: texts that no file may hold.
    """
    hidden = tuple(secrets)

    def tape(key: TrialKey) -> Tape:
        def save(cassette: Cassette) -> None:
            _write(_path(directory, key), CASSETTE.to_json(cassette), hidden)

        return RecordingTape(str(key), save)

    return tape


def has(directory: Path, key: TrialKey) -> bool:
    """Return whether a trial is recorded there."""
    return _path(directory, key).is_file()


def read(directory: Path, key: TrialKey) -> Cassette:
    """Return the recording of a trial.

    :raises CassetteError: if it cannot be read.
    :raises FileNotFoundError: if it was not recorded.
    """
    return CASSETTE.read(_path(directory, key))


def player(directory: Path) -> Callable[[TrialKey], Tape]:
    """Return a factory of tapes for trials that are replayed.

    The returned function raises CassetteError if the trial was not recorded.
    """

    def tape(key: TrialKey) -> Tape:
        try:
            cassette = read(directory, key)
        except FileNotFoundError:
            raise CassetteError(f"{key}: {directory} has no cassette of it; record it with --a2a-record") from None
        except CassetteError as error:
            raise CassetteError(f"{key}: {error}") from error
        return ReplayTape(cassette, _path(directory, key).name)

    return tape


def write_agent(directory: Path, endpoint: str, card: AgentCard, secrets: Iterable[str] = ()) -> None:
    """Write down whose cassettes these are; raises StoreError if the directory cannot be written."""
    _write(directory / AGENT, {"endpoint": endpoint, "url": card.url, "card": dict(card.raw)}, tuple(secrets))


def read_endpoint(directory: Path) -> str:
    """Return the endpoint that was recorded; raises ConfigurationError if the directory holds no cassettes."""
    return _agent(directory).endpoint


def read_card(directory: Path) -> AgentCard:
    """Return the card that was recorded; raises ConfigurationError if the directory holds no cassettes."""
    recorded = _agent(directory)
    try:
        return parse_card(recorded.card, recorded.url)
    except A2ABenchError as error:
        raise ConfigurationError(f"{directory / AGENT}: {error}") from error


def _agent(directory: Path) -> RecordedAgent:
    try:
        return _AGENT.read(directory / AGENT)
    except FileNotFoundError:
        raise ConfigurationError(f"{directory} holds no cassettes: it has no {AGENT}; record some first") from None


def _write(path: Path, content: dict[str, Any], secrets: tuple[str, ...]) -> None:
    save(path, hide_secrets(dump_json(content), secrets))


def _path(directory: Path, key: TrialKey) -> Path:
    return directory / f"{key.file_stem}.json"
