"""Tapes: what a conversation's requests go through while they are recorded, or in place of the agent."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Protocol

from pytest_a2a_bench.a2a.card import Interface
from pytest_a2a_bench.a2a.codec import InEvent, InTask, OutMessage
from pytest_a2a_bench.a2a.requests import RequestRecord, Wire
from pytest_a2a_bench.cassettes.form import (
    Cassette,
    Exchange,
    compare,
    read_error,
    read_event,
    write_error,
    write_event,
    write_send,
)
from pytest_a2a_bench.errors import CassetteError, TurnTimeoutError
from pytest_a2a_bench.secret import KNOWN


class Tape(Protocol):
    """Something between a conversation and the agent."""

    async def wire(self, real: Callable[[], Awaitable[Wire]]) -> Wire:
        """Return the wire to use. ``real`` returns the one to the agent."""
        ...

    def timed(self, seconds: float) -> float:
        """Return how long a turn took, given how long it took now."""
        ...

    def keep(self) -> None:
        """The trial was judged: keep what was recorded."""
        ...


class RecordingTape:
    """Lets everything through, and takes it down.

    :param save: called with the cassette when the trial was judged.
    """

    def __init__(self, key: str, save: Callable[[Cassette], None]) -> None:
        self._cassette = Cassette(key)
        self._save = save

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
