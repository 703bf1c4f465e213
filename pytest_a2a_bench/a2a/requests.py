"""The requests of conversations: their pace, a record of each, and the rules for sending one again.

A2A promises no de-duplication: an agent that gets a message twice may work on it twice. So a message is repeated, with
its ``messageId`` (§3.3.1), only where it certainly was not taken: there was no connection, the agent said 429, or the
request had not wholly left when the error came. After anything else without an answer the conversation is tainted:
:class:`DeliveryUncertain`. Requests that only ask are repeated freely.
"""

from __future__ import annotations

import asyncio
import datetime
import email.utils
import math
import random
import socket
import ssl
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from pytest_a2a_bench import tracing
from pytest_a2a_bench.a2a.bodies import Meter
from pytest_a2a_bench.a2a.card import Interface
from pytest_a2a_bench.a2a.codec import InEvent, InTask, OutMessage
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.errors import (
    DeliveryUncertain,
    EndpointUnreachableError,
    InfrastructureError,
    TransportError,
    TurnTimeoutError,
)
from pytest_a2a_bench.model import ProtocolMetrics, Usage
from pytest_a2a_bench.model.results import is_status
from pytest_a2a_bench.redact import hide_secrets
from pytest_a2a_bench.tracing import NO_SPAN, Span

BUSY = frozenset({429, 503})

_FIRST_GAP = 0.125
_LARGEST_GAP = 5.0
_RECOVERY = 0.5
_SMALLEST_GAP = 0.002


class Pace:
    """When the next message to an agent may leave: for all conversations with it, in the order in which they ask.

    An agent that says 429 or 503 means all of them. So all wait, as long as it asks for or a moment, and go on slowly;
    each answer then brings them back towards the configured rate. For use on one event loop.

    :param rate: most messages a second; None for any number.
    :param patience: most seconds that all wait because of one answer.
    :param clock: seconds, monotonic.
    """

    def __init__(
        self, rate: float | None = None, patience: float = 300.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._least_gap = 1 / rate if rate else 0.0
        self._gap = self._least_gap
        self._patience = patience
        self._clock = clock
        self._next = 0.0
        self._held_until = 0.0
        self._shift = 0.0

    async def turn(self) -> None:
        """Wait until a message may leave."""
        wait = self.book()
        while (seconds := wait()) > 0:
            await asyncio.sleep(seconds)

    def book(self) -> Callable[[], float]:
        """Reserve the next time, and return a function of the seconds left until then, which may become more."""
        now = self._clock()
        at = max(now, self._next)
        if self._gap or at > now:
            self._next = at + self._gap
        shift = self._shift
        return lambda: at + self._shift - shift - self._clock()

    def refused(self, retry_after: float, under_way: float = 0.0) -> None:
        """Delay all messages: the agent is too busy.

        :param retry_after: seconds that it asks for. The rate does not fall below one message in that time, so that
            0 delays nothing.
        :param under_way: seconds since the message left that was refused.
        """
        now = self._clock()
        if now - under_way >= self._held_until:  # else it left before the refusal that delayed all
            gap = min(max(2 * self._gap, _FIRST_GAP), _LARGEST_GAP, retry_after)
            self._gap = max(self._gap, gap)
        until = now + min(retry_after, self._patience)
        if until > self._held_until:
            later = until - max(self._held_until, now)
            self._shift += later
            self._next = max(self._next, now) + later
            self._held_until = until

    def accepted(self) -> None:
        """Go twice as fast, after a delay: a stray refusal must not cost a run minutes."""
        if self._gap > self._least_gap:
            slower = self._gap * _RECOVERY
            self._gap = self._least_gap if slower < max(self._least_gap, _SMALLEST_GAP) else slower


RAW_LIMIT = 64 * 1024
"""Most characters of an answer that are kept for the transcript."""


@dataclass(slots=True)
class RequestRecord:
    """One request and its fate; a wire fills it in, :class:`Requests` turns it into :class:`ProtocolMetrics`.

    :param method: as the wire calls it, such as ``SendMessage`` or ``POST /message:send``.
    :param status: the name of a status that came in place of an answer, where the wire has no HTTP status.
    :param answered: whether an answer had begun to arrive.
    :param left: whether the request may have reached the agent whole; False only where it certainly did not.
    :param begun: called when a piece of a stream arrives.
    :param raw: the received text, bounded.
    :param meter: counts the cost of reading the answer.
    :param headers: HTTP headers or gRPC metadata of the request beside those of the protocol.
    """

    request_id: str
    endpoint: str
    method: str = ""
    attempt: int = 1
    status_code: int | None = None
    status: str = ""
    answered: bool = False
    left: bool = True
    begun: Callable[[], object] = lambda: None
    notes: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter)
    timestamp: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat())
    _raw: list[str] = field(default_factory=list)
    _raw_size: int = 0
    _started: float = field(default_factory=time.perf_counter)

    def keep(self, document: bytes | str) -> None:
        """Keep received text, within bounds."""
        room = RAW_LIMIT - self._raw_size
        if room > 0:
            text = document[:room].decode("utf-8", "replace") if isinstance(document, bytes) else document[:room]
            self._raw.append(text)
            self._raw_size += len(text)

    @property
    def raw(self) -> str:
        """The received documents, one a line."""
        return "\n".join(self._raw)

    @property
    def seconds(self) -> float:
        """How long the request has been under way."""
        return time.perf_counter() - self._started

    def lasted(self, seconds: float) -> None:
        """Let the request have begun that long ago (a replayed one takes no time of its own)."""
        self._started = time.perf_counter() - seconds

    def metrics(self, context_id: str | None, usage: Usage | None = None, error: str | None = None) -> ProtocolMetrics:
        """Close the record."""
        return ProtocolMetrics(
            request_id=self.request_id,
            endpoint=self.endpoint,
            method=self.method,
            # A server may answer with a number that is no status; its error says so.
            status_code=self.status_code if self.status_code is not None and is_status(self.status_code) else None,
            latency_ms=round(max(self.seconds, 0) * 1000, 3),
            timestamp=self.timestamp,
            context_id=context_id,
            input_tokens=usage.input_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            error=error,
            attempt=self.attempt,
        )


class Wire(Protocol):
    """One binding of one protocol version to one interface of an agent."""

    interface: Interface

    def send(self, message: OutMessage, record: RequestRecord, *, stream: bool) -> AsyncGenerator[InEvent, None]:
        """Send a message and yield the events of the answer: one, or several where it streams."""
        ...

    async def get_task(self, task_id: str, record: RequestRecord) -> InTask:
        """Ask for a task."""
        ...

    async def cancel_task(self, task_id: str, record: RequestRecord) -> InTask:
        """Ask the agent to stop a task."""
        ...

    async def close(self) -> None:
        """Close the connections that belong to this wire alone."""
        ...


class Tape(Protocol):
    """Recorder or player between a conversation and the agent: see the package ``cassettes``."""

    @property
    def streams(self) -> bool | None:
        """Whether the next message is streamed; None where that is not recorded."""
        ...

    async def wire(self, real: Callable[[], Awaitable[Wire]]) -> Wire:
        """Return the wire to use. ``real`` returns the one to the agent."""
        ...

    def timed(self, seconds: float) -> float:
        """Return the recorded duration of a turn, given its duration in this run."""
        ...


class Requests:
    """Sends requests, repeats those that may be repeated, and records every try.

    :ivar metrics: one entry for each try.
    :ivar count: tries, polls included.
    :ivar limit: ends the turn when its time is up.
    :ivar waiting_for: the current wait, for the message of a time-out.
    :ivar meter: counts the cost of reading the answers.
    :ivar turn_span: the span that requests are part of.
    """

    def __init__(self, config: ClientConfig, pace: Pace) -> None:
        self.pace: Pace = pace
        self.retry: RetryPolicy = RetryPolicy(config.max_retries, config.backoff_base, config.backoff_max)
        self._config = config
        self.meter: Meter = Meter(config.bounds)
        self.metrics: list[ProtocolMetrics] = []
        self.count: int = 0
        self.limit: asyncio.Timeout | None = None
        self.waiting_for: str = ""
        self.turn_span: Span = NO_SPAN

    def tries(self, wire: Wire, what: str, context_id: str | None, *, poll: bool = False) -> Tries:
        """Return the tries of one request.

        :param what: the awaited thing, for messages.
        :param poll: whether it only asks, so that it may be repeated whatever became of it.
        """
        return Tries(self, wire, what, context_id, poll)

    async def leave(self) -> None:
        """Wait until the next try may leave: that is between us and other conversations, and no time of the agent's."""
        if self.limit is None or (when := self.limit.when()) is None:
            await self.pace.turn()
            return
        began = asyncio.get_running_loop().time()
        self.limit.reschedule(None)
        await self.pace.turn()
        self.limit.reschedule(when + asyncio.get_running_loop().time() - began)

    async def cancel_task(self, wire: Wire, task_id: str, context_id: str | None, seconds: float) -> str | None:
        """Ask once, and not for long, that a task be cancelled, and return the state that it is in then.

        :returns: None also where the agent did not do it: at a conversation's end nothing depends on it any more.
        """
        record = RequestRecord(uuid.uuid4().hex, wire.interface.url)
        self.count += 1
        error: str | None = None
        try:
            async with asyncio.timeout(seconds):
                return (await wire.cancel_task(task_id, record)).state
        except (InfrastructureError, TimeoutError) as trouble:
            error = self.describe(trouble)
            return None
        finally:
            self.metrics.append(record.metrics(context_id, error=error))

    def describe(self, error: BaseException) -> str:
        """Return an error's type and message, bounded, without the secrets that an agent may have put into it."""
        return hide_secrets(f"{type(error).__name__}: {error}", self._config.secrets)[:500]

    def wait_asked_for(self, error: BaseException) -> float | None:
        """Return the seconds of a ``Retry-After``; give up at once if the turn would not last as long."""
        if not isinstance(error, TransportError) or error.retry_after is None:
            return None
        when = self.limit.when() if self.limit is not None else None
        left = math.inf if when is None else when - asyncio.get_running_loop().time()
        if error.retry_after >= left:
            raise not_in_time(error, error.retry_after, left) from error
        return error.retry_after


class Tries:
    """The tries of one request, until it works, may not be repeated, or was repeated often enough::

        while not tries.done:
            async with tries as record:
                ...  # send it

    The block of a try that is to be repeated ends without an error.

    :raises DeliveryUncertain: if a request may not be repeated, and the agent may have worked on it.
    """

    def __init__(self, requests: Requests, wire: Wire, what: str, context_id: str | None, poll: bool) -> None:
        self.done: bool = False
        self._requests, self._wire, self._what, self._context_id, self._poll = requests, wire, what, context_id, poll
        # The same id for every try, so that the results show which entries were repetitions.
        self._request_id = uuid.uuid4().hex
        self._number = 0
        self._pause = 0.0

    async def __aenter__(self) -> RequestRecord:
        requests, what = self._requests, self._what
        if self._number:
            requests.waiting_for = f"{what}, before try {self._number + 1}"
            await asyncio.sleep(self._pause)
            await requests.leave()
        self._number += 1
        requests.waiting_for = what if self._number == 1 else f"{what}, try {self._number}"
        self._span = requests.turn_span
        if self._span is not NO_SPAN:
            self._span = self._span.child("a2a request", "client")
        self._record = RequestRecord(
            self._request_id,
            self._wire.interface.url,
            attempt=self._number,
            headers={} if self._span is NO_SPAN else self._span.headers(),
            meter=requests.meter,
        )
        requests.count += 1
        return self._record

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        requests, record = self._requests, self._record
        said = None if error is None else requests.describe(error)
        requests.metrics.append(record.metrics(self._context_id, error=said))
        if self._span is not NO_SPAN:
            if error is not None:
                self._span.fail(type(error).__name__, said or "")
            self._span.set(tracing.request_end(requests.metrics[-1]))
            self._span.end()
        if error is None:
            requests.pace.accepted()
            self.done = True
            return False
        left = record.left and not self._poll
        if isinstance(error, TransportError):
            # One that does not say how long may mean this conversation only.
            if error.status_code in BUSY and error.retry_after is not None:
                requests.pace.refused(error.retry_after, record.seconds)
            if is_uncertain(error, left=left):
                answered = record.answered and error.status_code is None
                raise uncertain(error, answered=answered, status=record.status) from error
        if not is_repeatable(error, left=left) or self._number > requests.retry.max_retries:
            return False
        self._pause = requests.retry.delay(self._number, requests.wait_asked_for(error), random.random)
        return True


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter.

    :param max_retries: repetitions after the first try.
    :param base: seconds before the first repetition, doubled for each further one.
    :param maximum: most seconds to wait, unless the server asks for more.
    """

    max_retries: int = 3
    base: float = 0.5
    maximum: float = 30.0

    def delay(self, attempt: int, retry_after: float | None, jitter: Callable[[], float]) -> float:
        """Return the seconds to wait after try number ``attempt`` (from 1); ``jitter`` returns 0 to 1."""
        if retry_after is not None:
            return max(retry_after, 0.0)
        # At most 2**32: an attempt count is an int of the user's choice, and a float has an end.
        full: float = min(self.base * 2.0 ** min(attempt - 1, 32), self.maximum)
        return full / 2 + full / 2 * jitter()


def not_in_time(error: TransportError, asked: float, left: float) -> TransportError:
    """Return the error to give up with at once, because the agent asked for a longer wait than the turn has left."""
    return TransportError(
        f"{error}; the agent asked to wait {asked:.0f} s before another try, and this turn has "
        f"{max(left, 0):.0f} s left; raise --a2a-timeout above that, or try again later",
        status_code=error.status_code,
        retry_after=error.retry_after,
    )


def parse_retry_after(value: str | None, now: datetime.datetime) -> float | None:
    """Read a ``Retry-After`` header (seconds or an HTTP date); None where it says nothing readable.

    :param now: an aware time.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        when = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.UTC)
    return max((when - now).total_seconds(), 0.0)


# --- may a request be sent again? ---

TOO_MANY = 429

GATEWAY = frozenset({502, 503, 504})
"""Statuses of gateways, which cannot know whether the agent processed the request. A 500 is not among them: it usually
is the agent's own answer, that it crashed over the message."""


def is_repeatable(error: BaseException, *, left: bool) -> bool:
    """Return whether the same request may be sent again.

    :param left: whether the request may have reached the agent whole. False too for one that changes nothing.
    """
    if isinstance(error, TurnTimeoutError) or not isinstance(error, TransportError):
        return False
    if isinstance(error, EndpointUnreachableError):
        return not _is_hopeless(error)
    if error.status_code == TOO_MANY:
        return True
    return not left and (error.status_code is None or error.status_code in GATEWAY)


def is_uncertain(error: BaseException, *, left: bool) -> bool:
    """Return whether the agent may have worked on a message to which no usable answer came.

    A turn that took too long does not count: a slow agent would be as slow, and cost as much, again.

    :param left: whether the message may have reached the agent whole.
    """
    if isinstance(error, TurnTimeoutError | EndpointUnreachableError) or not isinstance(error, TransportError):
        return False
    return left and (error.status_code is None or error.status_code in GATEWAY)


def uncertain(error: TransportError, *, answered: bool, status: str = "") -> DeliveryUncertain:
    """Return the error of a message that may have been delivered, and that got no usable answer.

    :param answered: whether an answer had begun to arrive.
    :param status: a status in place of an answer, such as ``gRPC DEADLINE_EXCEEDED``.
    """
    if status:
        reason = status
    elif error.status_code is not None:
        reason = f"HTTP {error.status_code}"
    else:
        reason = "answer broken off" if answered else "reset after delivery"
    return DeliveryUncertain(
        f"{error}; the agent may have worked on the message all the same, so it is not sent again in this conversation",
        status_code=error.status_code,
        retry_after=error.retry_after,
        reason=reason,
    )


def unasked(error: Exception, task_id: str) -> DeliveryUncertain:
    """Return the error of a message that was delivered, and whose task can no longer be queried."""
    return DeliveryUncertain(
        f"{error}; the agent took the message as task {task_id}, and its outcome cannot be found out",
        status_code=error.status_code if isinstance(error, TransportError) else None,
        retry_after=error.retry_after if isinstance(error, TransportError) else None,
        reason="task lost",
    )


def _is_hopeless(error: BaseException | None) -> bool:
    """Return whether the cause is permanent: an unknown host, a refused certificate."""
    for _ in range(8):
        if error is None:
            return False
        if isinstance(error, ssl.SSLError):
            return True
        if isinstance(error, socket.gaierror):
            return error.errno != socket.EAI_AGAIN
        error = error.__cause__ or error.__context__
    return False
