"""One conversation with an agent: contextId and taskId rules, retries, polling, time limits, metrics."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing, contextmanager, suppress
from typing import Any, Protocol

from pytest_a2a_bench import tracing
from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.a2a.bodies import ended_by
from pytest_a2a_bench.a2a.card import AgentCard
from pytest_a2a_bench.a2a.codec import TERMINAL, HistoryEntry, OutMessage, texts_sent
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.requests import RAW_LIMIT, Pace, RequestRecord, Requests, Tape, Wire, unasked, uncertain
from pytest_a2a_bench.a2a.turn import AgentReply, Turn, read_events
from pytest_a2a_bench.errors import (
    A2ABenchError,
    AgentOutcomeError,
    AuthenticationError,
    DeliveryUncertain,
    EndpointUnreachableError,
    InfrastructureError,
    ProtocolError,
    ReplyLimitError,
    StreamStalledError,
    TransportError,
    TrialCancelledError,
    TurnTimeoutError,
)
from pytest_a2a_bench.model import Briefing, DialectFinding, Event, Part, ProtocolMetrics, Usage
from pytest_a2a_bench.redact import KNOWN, hide_in_error, hide_secrets
from pytest_a2a_bench.tracing import NO_SPAN, Span

_CANCEL_SECONDS = 5.0
# What servers answer to an operation that they do not have: method not found, unsupported operation (§5.4).
_UNSUPPORTED = (-32601, -32004)

_RECORD = ("_requests", "_tape", "listener", "history", "turn_seconds", "findings", "usage", "span", "tainted")


class Connection(Protocol):
    """The connection to an agent that its sessions share (:class:`~pytest_a2a_bench.a2a.client.AgentConnection`)."""

    config: ClientConfig
    streams: bool | None
    pace: Pace

    @property
    def card_if_known(self) -> AgentCard | None:
        """The card if it was fetched already."""
        ...

    def card(self) -> AgentCard:
        """Return the agent's card, fetched once."""
        ...

    async def wire(self) -> Wire:
        """Return the wire to the chosen interface."""
        ...

    async def find_moved(self, wire: Wire) -> str:
        """Read the card again, and return a note if it names another interface than the wire's now."""
        ...


class AgentSession:
    """The state of one conversation with the agent; only :meth:`cancel` may be called from another thread.

    :ivar context_id: the agent's name for the conversation, once it has given one.
    :ivar a2a_task_id: the last task that the agent worked on.
    :ivar turn_seconds: seconds of every turn that ended in an answer, or in the agent giving up: from the first sending
        of the message to the settled answer, repetitions and polls included, the agent card's first fetching not.
    :ivar usage: the sum of the usage that the agent reported.
    :ivar span: the span that turns are part of; ``findings`` deviations on the wire that were tolerated.
    :ivar is_over: set if the conversation ended within a turn, so that the turn's outcome says nothing.
    :ivar tainted: what left it unknown how far the agent is: a message that may have been delivered, a turn that was
        given up. A benchmark may overlook that; its trial is not evaluated all the same.
    :ivar party: the agent's name where it is not the one under test; its errors say so.
    :ivar listener: called by the conversation with each event as it happens.
    :ivar has_moved: whether the agent's last answer named another contextId than the conversation's.
    :ivar noise: acts between the environment and the agent (``benchmarks.noise.Noise``); None for none.
    """

    def __init__(
        self, connection: Connection, metadata: Mapping[str, Any] | None = None, tape: Tape | None = None
    ) -> None:
        self._connection = connection
        self._tape = tape
        self._config = connection.config
        self._metadata = dict(metadata or {})
        self._requests = Requests(self._config, connection.pace)
        self._cancelled = threading.Event()
        self._running: asyncio.Task[Any] | None = None
        self._state: str | None = None
        self._last_task: Turn | None = None
        self._answered_at = 0.0
        self._turn_usage = Usage()
        self._has_resumed = False
        self.has_moved: bool = False
        self.is_over = False
        self.context_id: str | None = None
        self.a2a_task_id: str | None = None
        self.history: list[HistoryEntry] = []
        self.turn_seconds: list[float] = []
        self.usage: Usage = Usage()
        self.span: Span = NO_SPAN
        self.findings: list[DialectFinding] = []
        self.tainted: InfrastructureError | None = None
        self.party: str | None = None
        self.listener: Callable[[Briefing, Sequence[Event]], None] | None = None
        self.noise: Any = None

    @property
    def card(self) -> AgentCard:
        """The agent's card."""
        return self._connection.card()

    @property
    def turn_span(self) -> Span:
        """The span of the turn that is under way."""
        return self._requests.turn_span

    @property
    def request_count(self) -> int:
        """Requests sent, repetitions and polls included."""
        return self._requests.count

    @property
    def metrics(self) -> list[ProtocolMetrics]:
        """One entry for each request sent."""
        return self._requests.metrics

    # -- what callers do --

    def send(self, parts: Sequence[Part], timeout: float | None = None) -> AgentReply:
        """Send one message and wait for the answer.

        :param timeout: seconds for the whole turn; the configuration's where None.
        :raises AgentOutcomeError: if the agent's task failed, or was rejected or canceled.
        :raises DeliveryUncertain: if the agent may have worked on a message that was not answered, now or earlier.
        :raises InfrastructureError: for errors of transport, protocol or authentication.
        """
        return loop.run(self._run_turn(parts, timeout))

    def begin(self, parts: Sequence[Part], timeout: float | None = None) -> Future[AgentReply]:
        """Like :meth:`send`, without waiting: cancelling the future gives the turn up."""
        return loop.submit(self._run_turn(parts, timeout))

    async def asend(self, parts: Sequence[Part], timeout: float | None = None) -> AgentReply:
        """Like :meth:`send`, from any event loop."""
        return await loop.bridge(self._run_turn(parts, timeout))

    def cancel(self) -> None:
        """Abort the request that is under way; it and every later one raise TrialCancelledError. Thread-safe."""
        self._cancelled.set()
        with suppress(RuntimeError):
            loop.get_loop().call_soon_threadsafe(self._abort)

    def finish(self) -> None:
        """End the conversation: ask the agent to cancel a task that it still works on. Never raises."""
        with suppress(Exception):
            if self._unfinished:
                loop.run(self._cancel_task(), _CANCEL_SECONDS + 1)

    @property
    def has_ended_task(self) -> bool:
        """Whether the task in which the agent took several messages has ended: the next message opens another one."""
        return self._has_resumed and self._state in TERMINAL

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Keep messages inside the block out of the conversation's record: requests, history, usage, cassette."""
        kept = {name: getattr(self, name) for name in _RECORD}
        self._requests, self._tape, self.listener = Requests(self._config, self._connection.pace), None, None
        self.history, self.turn_seconds, self.findings, self.usage, self.span = [], [], [], Usage(), NO_SPAN
        try:
            yield
        finally:
            vars(self).update(kept)

    # -- one turn --

    def _abort(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def _run_turn(self, parts: Sequence[Part], timeout: float | None) -> AgentReply:
        """Run a turn within its time limit, in a span of its own, where :meth:`cancel` can reach it."""
        if isinstance(self.tainted, DeliveryUncertain):
            raise self.tainted
        limit = self._config.timeout if timeout is None else timeout
        try:
            if self._cancelled.is_set():
                raise TrialCancelledError("the conversation was cancelled")
            self._running = asyncio.current_task()
            self._requests.waiting_for = "the agent card"
            self._requests.meter.begin_turn()
            # The agent's time begins with the message.
            await self._connection.pace.turn()
            async with asyncio.timeout(limit) as self._requests.limit:
                if self.span is NO_SPAN:
                    return await self._take_turn(parts, limit)
                with self._in_span():
                    return await self._take_turn(parts, limit)
        except (A2ABenchError, TimeoutError, asyncio.CancelledError) as error:
            ours = self._as_ours(error, limit)
            if ours is error:
                raise
            raise ours from error
        finally:
            self._running = None

    def _as_ours(self, error: BaseException, limit: float) -> BaseException:
        """Return the error that ends a turn; one that leaves unknown how far the agent is taints the conversation."""
        ours = error
        if isinstance(error, ReplyLimitError):
            hide_in_error(error, self._config.secrets)
            finding, ours = ended_by(error, sum(e.direction == "received" for e in self.history))
            self.findings.append(finding)
        elif isinstance(error, A2ABenchError):
            hide_in_error(error, self._config.secrets)
        elif isinstance(error, TimeoutError):
            ours = TurnTimeoutError(
                f"{self._config.endpoint}: the turn took longer than {limit:g} s, waiting for "
                f"{self._requests.waiting_for}; raise --a2a-timeout if the agent needs longer"
            )
        elif self._cancelled.is_set():
            ours = TrialCancelledError("the conversation was cancelled while the agent was answering")
        if isinstance(ours, A2ABenchError):
            ours.party = self.party
        if isinstance(ours, DeliveryUncertain | TurnTimeoutError | TrialCancelledError):
            self.tainted = None if self.is_over else ours
        return ours

    @contextmanager
    def _in_span(self) -> Iterator[None]:
        """Trace a turn."""
        card = self._connection.card_if_known
        agent = card.name if card is not None else None
        start = tracing.turn_start(agent, card.version if card is not None else None, self._config.endpoint)
        self._requests.turn_span = self.span.child(tracing.turn_name(agent), "client", start)
        self._turn_usage = Usage()
        try:
            yield
        except BaseException as error:
            self._requests.turn_span.fail(type(error).__name__, self._requests.describe(error))
            raise
        finally:
            self._requests.turn_span.set(tracing.turn_end(self.context_id, self._turn_usage, self._state))
            self._requests.turn_span.end()
            self._requests.turn_span = NO_SPAN

    async def _wire(self) -> Wire:
        if self._tape is not None:
            return await self._tape.wire(self._connection.wire)
        return await self._connection.wire()

    async def _take_turn(self, parts: Sequence[Part], seconds: float) -> AgentReply:
        wire = await self._wire()
        message = self._compose(parts)
        turn = Turn(self._last_task)
        records: list[RequestRecord] = []
        self.history.append(HistoryEntry("sent", message.parts, _now(), message.message_id))
        stream = self._streams()
        started = time.perf_counter()
        has_moved = False
        try:
            while True:
                tries = self._requests.tries(wire, "a streamed reply" if stream else "the reply", self.context_id)
                try:
                    while not tries.done:
                        async with tries as record, aclosing(wire.send(message, record, stream=stream)) as events:
                            records.append(record)
                            stall = self._config.stall_timeout
                            self._answered_at = await read_events(events, turn, record, stall, seconds)
                    break
                except (TransportError, ProtocolError) as error:
                    if self._goes_on(turn, error):
                        break
                    if not has_moved and _is_gone(error) and (note := await self._find_moved(wire)):
                        has_moved = True
                        turn.notes.append(note)
                        wire = await self._wire()
                    elif stream and self._config.streaming == "auto" and _is_unsupported(error):
                        stream = self._connection.streams = False
                    else:
                        raise
            if stream and not (turn.settled or turn.final):
                turn.broken = True
        finally:
            self._remember(turn)
        await self._poll(wire, turn, records)
        reply = self._conclude(turn, records, self._answered_at - started)
        self._turn_usage = reply.usage
        return reply

    def _compose(self, parts: Sequence[Part]) -> OutMessage:
        # Only a task that waits takes a message (§3.4.3); after one that has ended (§3.1.1) the context begins another.
        resume = self._state in ("input-required", "auth-required")
        self._has_resumed = self._has_resumed or resume
        return OutMessage(
            message_id=str(uuid.uuid4()),
            parts=tuple(parts),
            context_id=self.context_id,
            task_id=self.a2a_task_id if resume else None,
            metadata=self._metadata,
        )

    async def _find_moved(self, wire: Wire) -> str:
        return "" if self._tape is not None else await self._connection.find_moved(wire)

    def _streams(self) -> bool:
        """Return whether messages are streamed: as set, or if the card says that the agent can."""
        if self._tape is not None and self._tape.streams is not None:
            return self._tape.streams
        if self._connection.streams is not None:
            return self._connection.streams
        card = self._connection.card_if_known
        return card is not None and card.streaming

    def _goes_on(self, turn: Turn, error: InfrastructureError) -> bool:
        """Return whether the message arrived before its stream broke: the task goes on without us, so ask for it."""
        if not isinstance(error, TransportError) or turn.task_id is None or turn.settled or self._cancelled.is_set():
            return False
        turn.lost = "stalled" if isinstance(error, StreamStalledError) else "broke off"
        turn.broken = True
        return True

    async def _poll(self, wire: Wire, turn: Turn, records: list[RequestRecord]) -> None:
        """Ask for an unfinished task until it ends or needs us; the turn's time limit ends this too."""
        # Also a blocking message may be answered with a task that is only submitted (fasta2a 2.1.1 does that).
        delay, came_back = self._config.poll_interval, turn.state or "in no known state"
        while not turn.settled:
            if turn.task_id is None and turn.broken:
                where = f"{wire.interface.url}: the stream ended without a message and without a task"
                raise uncertain(TransportError(where), answered=True)
            if turn.task_id is None:
                raise ProtocolError(f"{wire.interface.url}: the answer ended without a message and without a task")
            # A stream that just ended may have a finished task to show at once; a blocking reply did not.
            if not turn.final:
                await asyncio.sleep(delay)
            turn.final = False
            await self._ask_for_task(wire, turn, records, came_back)
            delay = min(delay * 1.5, self._config.poll_max_interval)
        if turn.lacks_answer:
            with suppress(ProtocolError):
                await self._ask_for_task(wire, turn, records, came_back)
        if turn.lost:
            turn.notes.append(f"the stream {turn.lost}; the task was asked for instead: GetTask says {turn.state}")
        self._remember(turn)

    async def _ask_for_task(self, wire: Wire, turn: Turn, records: list[RequestRecord], came_back: str) -> None:
        if (task_id := turn.task_id) is None:
            return
        still = turn.state or "in no known state"
        what = f"task {task_id} to end (the answer came back with it {came_back}, and GetTask still says {still})"
        tries = self._requests.tries(wire, what, self.context_id, poll=True)
        try:
            while not tries.done:
                async with tries as record:
                    records.append(record)
                    task = await wire.get_task(task_id, record)
                    if task.task_id not in (None, task_id):
                        where = f"{record.method} {record.endpoint}"
                        raise ProtocolError(
                            f"{where}: asked for task {task_id}, and the agent answered with task {task.task_id}"
                        )
                    turn.feed(task)
                    self._answered_at = time.perf_counter()
        except TurnTimeoutError:
            raise
        except (TransportError, ProtocolError) as error:
            # An agent that does not know a task that it has just named has lost it, or never kept it.
            if isinstance(error, ProtocolError) and not turn.broken:
                raise
            raise unasked(error, task_id) from error

    # -- what a turn leaves behind --

    def _remember(self, turn: Turn) -> None:
        self.has_moved = bool(turn.context_id and self.context_id and turn.context_id != self.context_id)
        if self.has_moved:
            note = f"the agent changed the contextId from {self.context_id!r} to {turn.context_id!r}; the first is kept"
            if note not in turn.notes:
                turn.notes.append(note)
        self.context_id = self.context_id or turn.context_id
        if turn.task_id:
            self.a2a_task_id = turn.task_id
            self._state = turn.state
            self._last_task = turn
        elif turn.settled:
            self._state = None

    def _conclude(self, turn: Turn, records: list[RequestRecord], seconds: float) -> AgentReply:
        secrets = self._config.secrets
        raw = "\n".join(hide_secrets(r.raw, secrets) for r in records if r.raw)[:RAW_LIMIT]
        turn.context_id = turn.context_id or self.context_id
        reply = turn.reply(raw)
        repeated = KNOWN.kinds_in(*(r.raw for r in records), reply.text, sent=texts_sent(self.history))
        if said := [*reply.notes, *(n for r in records for n in r.notes)]:
            reply = dataclasses.replace(reply, notes=tuple(dict.fromkeys(hide_secrets(n, secrets) for n in said)))
        self._account(reply)
        number = sum(e.direction == "received" for e in self.history)
        self.findings += [DialectFinding("wire", note, turn=number) for note in reply.notes]
        if reply.repeated:
            message = f"the agent sent the same answer twice, and it was read once: {reply.repeated}"
            self.findings.append(DialectFinding("answer-repeated", message, turn=number))
        self.findings += [DialectFinding("secret-repeated", _repeats(kind), turn=number) for kind in repeated]
        entry = HistoryEntry(
            "received", reply.parts, _now(), reply.message_id, state=reply.state, requests=len(self.metrics)
        )
        self.history.append(entry)
        if reply.state != "auth-required":  # that ends in an infrastructure error, whose duration says nothing
            self.turn_seconds.append(self._tape.timed(seconds) if self._tape else seconds)
        self._check_outcome(turn, reply)
        return reply

    def _account(self, reply: AgentReply) -> None:
        self.usage = self.usage + reply.usage
        # On the last request, which brought the answer, so that the sum over all requests is the conversation's.
        if self.metrics and (reply.usage != Usage() or self.metrics[-1].context_id != self.context_id):
            self.metrics[-1] = dataclasses.replace(
                self.metrics[-1],
                context_id=self.context_id,
                input_tokens=reply.usage.input_tokens,
                output_tokens=reply.usage.output_tokens,
            )

    def _check_outcome(self, turn: Turn, reply: AgentReply) -> None:
        if reply.state not in ("failed", "rejected", "canceled", "auth-required"):
            return
        says = hide_secrets(turn.status_text() or reply.text, self._config.secrets)
        saying = f", saying {says[:500]!r}" if says else " without a reason"
        if reply.state in ("failed", "rejected", "canceled"):
            raise AgentOutcomeError(
                f"{self._config.endpoint}: the agent ended task {reply.a2a_task_id} as {reply.state}{saying}",
                state=reply.state,
            )
        raise AuthenticationError(
            f"{self._config.endpoint}: the agent asks for further credentials (auth-required){saying}; "
            "give it what it needs before the run"
        )

    @property
    def _unfinished(self) -> bool:
        return self.a2a_task_id is not None and self._state is not None and self._state not in TERMINAL

    async def _cancel_task(self) -> None:
        if (task_id := self.a2a_task_id) is None:
            return
        wire = await self._wire()
        state = await self._requests.cancel_task(wire, task_id, self.context_id, _CANCEL_SECONDS)
        self._state = state or self._state


def _is_gone(error: InfrastructureError) -> bool:
    """Return whether there was no interface to take the message: no connection, or HTTP 404 without an A2A error."""
    return isinstance(error, EndpointUnreachableError) or (
        isinstance(error, ProtocolError) and error.status_code == 404
    )


def _is_unsupported(error: InfrastructureError) -> bool:
    """Return whether the agent does not have the operation."""
    return isinstance(error, ProtocolError) and (error.code in _UNSUPPORTED or error.status_code in (404, 405, 501))


def _repeats(kind: str) -> str:
    return f"the agent's answer repeats a secret that it must keep to itself: {kind}; it is shown and stored as ***"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat()
