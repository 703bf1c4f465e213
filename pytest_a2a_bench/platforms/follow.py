"""Asking an assessor over A2A, and following its work to the end: by its stream, or by polling where that ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.a2a.bodies import Meter
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.messages import InEvent, InMessage, InTask, OutMessage, StatusUpdate
from pytest_a2a_bench.a2a.requests import RequestRecord
from pytest_a2a_bench.a2a.turn import Turn
from pytest_a2a_bench.a2a.wire import Wire
from pytest_a2a_bench.errors import AuthenticationError, InfrastructureError, ProtocolError
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.model.bounds import LARGEST, Bounds
from pytest_a2a_bench.redact import sanitise

POLL_SECONDS = 2.0
PATIENCE = 300.0
"""Seconds for which an assessor that was heard of may be out of reach: as long as it may take to be started again."""

_CANCEL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Followed:
    """What came of a request.

    :param state: of the assessor's a2a_task; ``completed`` where it answered with a bare message.
    :param texts: what it says for people.
    :param data: JSON objects of its result, in order.
    """

    state: str
    texts: tuple[str, ...]
    data: tuple[dict[str, Any], ...]

    @property
    def errors(self) -> int:
        """How many trials or checks could not be evaluated, as far as the result tells."""
        found = [one["errors"].get("count") for one in self.data if isinstance(one.get("errors"), dict)]
        return sum(int(number) for number in found if isinstance(number, int | float))

    @property
    def is_good(self) -> bool:
        """Whether the assessment was held and left nothing out."""
        return self.state == "completed" and bool(self.data or self.texts) and not self.errors


class Follower:
    """One request to one assessor.

    :param say: called with each line of progress.
    """

    def __init__(
        self,
        connection: AgentConnection,
        say: Callable[[str], None],
        *,
        poll_seconds: float = POLL_SECONDS,
        patience: float = PATIENCE,
    ) -> None:
        self._connection = connection
        self._say = say
        self._poll_seconds = poll_seconds
        self._patience = patience
        self._turn = Turn()
        self._told = ""
        # It tells of its work for hours; what bounds a reply of an agent is not meant for that.
        self._meter = Meter(Bounds.of(LARGEST))

    async def follow(self, request: str) -> Followed:
        """Send a request as text, and wait for its end.

        :raises InfrastructureError: if the assessor cannot be reached, refuses us, or is out of reach for too long.
        """
        return await loop.bridge(self._follow(request))

    async def cancel(self) -> None:
        """Ask the assessor not to go on. Never raises, and does not take long."""
        with contextlib.suppress(Exception):
            await loop.bridge(self._cancel())

    async def _follow(self, request: str) -> Followed:
        wire = await self._connection.wire()
        card = await self._connection.acard()
        message = OutMessage(uuid.uuid4().hex, (Part.of_text(request),))
        try:
            events = wire.send(message, self._record(wire), stream=card.streaming)
            async with contextlib.aclosing(events):
                async for event in events:
                    self._take(event)
                    if self._turn.settled:
                        break
        except (AuthenticationError, ProtocolError):
            raise
        except InfrastructureError as error:
            if self._turn.task_id is None:
                raise
            self._say(f"the stream broke off ({error}); asking for the task from now on")
        if self._turn.task_id is not None and (not self._turn.settled or self._turn.lacks_answer):
            await self._poll(wire, self._turn.task_id)
        return self._conclude()

    async def _poll(self, wire: Wire, task_id: str) -> None:
        heard = time.monotonic()
        while True:
            try:
                self._take(await wire.get_task(task_id, self._record(wire)))
                heard = time.monotonic()
            except (AuthenticationError, ProtocolError):
                raise
            except InfrastructureError:
                if time.monotonic() - heard > self._patience:
                    raise
            if self._turn.settled:
                return
            await asyncio.sleep(self._poll_seconds)

    def _record(self, wire: Wire) -> RequestRecord:
        return RequestRecord(uuid.uuid4().hex, wire.interface.url, meter=self._meter)

    def _take(self, event: InEvent) -> None:
        self._turn.feed(event)
        if not isinstance(event, InTask | StatusUpdate) or event.state is None:
            return
        text = _text_of(event.status)
        line = f"{event.state}: {text}" if text else event.state
        # The end is told by the result.
        if line != self._told and not self._turn.settled:
            self._say(sanitise(line))
        self._told = line

    def _conclude(self) -> Followed:
        reply = self._turn.reply()
        parts = [part for found in self._turn.artifacts.values() for part in found] or list(reply.parts)
        data = tuple(_objects(parts))
        texts = tuple(sanitise(p.text) for p in parts if p.kind == "text" and _object(p.text) is None and p.text)
        state = reply.state or ("completed" if reply.kind == "message" else "unknown")
        # Whatever an assessor says of a failure stands in its status.
        said = self._turn.status_text()
        if state != "completed" and said and said not in texts:
            texts = (sanitise(said), *texts)
        return Followed(state, texts, data)

    async def _cancel(self) -> None:
        if self._turn.task_id is None or self._turn.settled:
            return
        async with asyncio.timeout(_CANCEL_SECONDS):
            wire = await self._connection.wire()
            await wire.cancel_task(self._turn.task_id, self._record(wire))


def _text_of(message: InMessage | None) -> str:
    parts = message.parts if message is not None else ()
    return "\n".join(part.text for part in parts if part.kind == "text")


def _objects(parts: list[Part]) -> Iterator[dict[str, Any]]:
    for part in parts:
        found = part.data if part.kind == "data" else _object(part.text) if part.kind == "text" else None
        if isinstance(found, dict):
            yield found


def _object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is: some assessors write their result so."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
