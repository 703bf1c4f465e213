"""The turns of an agent that calls tools by itself: a message is under way, and calls come in until it is answered."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.model import (
    DialectFinding,
    Event,
    Part,
    ToolAccess,
    ToolCall,
    ToolReturned,
    ToolSpec,
    Usage,
)
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.tool_door.desk import OVER, Answer, Desk, NativeCall
from pytest_a2a_bench.tracing import NO_SPAN, Span, names

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.turn import AgentReply

LAST_WORDS = 30.0
"""Most seconds for an agent to end the turn in whose middle its conversation was over: what it cost is counted."""


_NAME = 80
"""Characters of a tool's name that a span shows: agents choose it."""


class Sender(Protocol):
    """What sends messages without waiting for their answers: the A2A client's ``AgentSession``."""

    def begin(self, parts: Sequence[Part], timeout: float | None = None) -> Future[AgentReply]:
        """Send one message, and return what its answer will be."""
        ...

    @property
    def turn_span(self) -> Span:
        """What the turn that is under way is to a tracer."""
        ...

    is_over: bool
    """Set where the conversation is over before its turn: whatever becomes of that says nothing about it."""


class Exchange(NamedTuple):
    """A call that was carried out, and what it came to.

    :param turn: the message that it was made for, counted from 1.
    """

    turn: int
    call: ToolCall
    result: str


class NativeTurns:
    """The turns of one conversation, between the messages that are sent and the desk where calls come in.

    For one thread; only :meth:`Desk.close` may be called from others.

    :ivar exchanges: what was called and answered so far.
    """

    def __init__(self, desk: Desk, sender: Sender) -> None:
        self.desk = desk
        self._sender = sender
        self._reply: Future[AgentReply] | None = None
        self._call: NativeCall | None = None
        self._turn = 0
        self._span = NO_SPAN
        self.exchanges: list[Exchange] = []

    @property
    def is_waiting(self) -> bool:
        """Whether a call waits for its result."""
        return self._call is not None

    def offer(self, tools: tuple[ToolSpec, ...]) -> ToolAccess:
        """Say what may be called, and return where."""
        self.desk.tools, self.desk.is_used = tools, True
        return self.desk.access

    def begin(self, parts: Sequence[Part], timeout: float | None) -> None:
        """Send a message, and take calls until it is answered."""
        self.desk.begin_turn()
        self._turn += 1
        self._reply = self._sender.begin(parts, timeout)
        self._reply.add_done_callback(self.desk.note_reply)

    def wait(self) -> ToolCall | AgentReply:
        """Return the next call, or the reply once it is there and no call came before it.

        :raises A2ABenchError: what became of the message instead of an answer.
        """
        reply = self._reply
        assert reply is not None, "begin() comes first"
        self._call = self.desk.next_call()
        if self._call is not None:
            name = one_line(self._call.call.name, _NAME)
            self._span = self._sender.turn_span.child(names.tool_name(name), "internal", names.tool_start(name))
            return self._call.call
        self._reply = None
        return reply.result()

    def answer(self, events: Sequence[Event]) -> None:
        """Give the call that waits its result: what the tool returned, or what a user said to it."""
        call, self._call = self._call, None
        if call is not None:
            texts = [event.content if isinstance(event, ToolReturned) else event.text or "" for event in events]
            error = any(isinstance(event, ToolReturned) and event.error for event in events)
            self._end(call, "\n".join(texts), "tool_error" if error else "")
            call.answer.set_result(Answer("\n".join(texts), error))

    def _end(self, call: NativeCall, result: str, error: str = "") -> None:
        self.exchanges.append(Exchange(self._turn, call.call, result))
        if error:
            self._span.fail(error)
        self._span.end()
        self._span = NO_SPAN

    def findings(self) -> Sequence[DialectFinding]:
        """Return what there was to find since this was last asked."""
        return self.desk.findings()

    def close(self, patience: float = LAST_WORDS) -> Usage:
        """End the conversation, and return what the turn cost that was under way.

        In place of a result the agent gets a notice that it is over, and has a while to end its turn. Never raises.

        :param patience: seconds for that.
        """
        self.desk.end()
        call, self._call = self._call, None
        if call is not None:
            self._end(call, OVER)
            call.answer.set_result(Answer(OVER, is_over=True))
        reply, self._reply = self._reply, None
        if reply is None:
            return Usage()
        self._sender.is_over = True
        try:
            return reply.result(max(patience, 0.0)).usage
        except (A2ABenchError, concurrent.futures.CancelledError, TimeoutError):
            reply.cancel()
            return Usage()
