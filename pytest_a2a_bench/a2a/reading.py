"""Reading what comes back to one message: until the answer is there, and not for ever once a stream has begun."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import suppress

from pytest_a2a_bench.a2a.messages import TERMINAL, InEvent, InTask
from pytest_a2a_bench.a2a.requests import RequestRecord
from pytest_a2a_bench.a2a.turn import Turn
from pytest_a2a_bench.errors import InfrastructureError, StreamStalledError

_DRAIN_SECONDS = 0.2
"""How long a stream may stay open after its last event; closing it at once would look like a lost client."""


async def read_events(
    events: AsyncGenerator[InEvent, None], turn: Turn, record: RequestRecord, stall_seconds: float
) -> float:
    """Feed a turn until the events end or, a moment after the answer is there, are no longer waited for.

    :param stall_seconds: most seconds of silence once the first event was there. An agent that has not begun to
        answer is slow, not stalled, and has the whole turn.
    :returns: when the answer was there, or the events ended without one.
    :raises StreamStalledError: if a stream began and went silent.
    """
    count = 0
    while not (turn.settled or turn.final):
        try:
            event = await _next(events, record, stall_seconds if count else None, count)
        except StopAsyncIteration:
            return time.perf_counter()
        with record.meter.reading():
            turn.feed(event)
        count += 1
    answered_at = time.perf_counter()
    with suppress(TimeoutError, InfrastructureError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for event in events:
                if not (turn.settled and isinstance(event, InTask) and event.state not in TERMINAL):
                    turn.feed(event)
    return answered_at


async def _next(
    events: AsyncGenerator[InEvent, None], record: RequestRecord, seconds: float | None, count: int
) -> InEvent:
    """Return the next event; anything that arrives, be it only a comment, is a sign of life and gives new time."""
    if seconds is None:
        return await anext(events)
    clock = asyncio.get_running_loop().time
    try:
        async with asyncio.timeout(seconds) as limit:
            record.heard = lambda: limit.reschedule(clock() + seconds)
            return await anext(events)
    except TimeoutError as error:
        raise StreamStalledError(
            f"{record.method} {record.endpoint}: the stream stalled: nothing came for {seconds:g} s after event {count}"
            "; the agent had begun to answer, so this is no slow start; see what is between here and the agent, or "
            "raise --a2a-stall-timeout if it is silent for longer while it works"
        ) from error
    finally:
        record.heard = _ignore


def _ignore() -> None:
    """Nobody waits for a sign of life."""
