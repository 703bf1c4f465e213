"""The agent's side of one trial, whatever the benchmark: events in, one utterance out, in the agent's dialect.

An agent may call its tools itself while a message is under way (:class:`NativeTurns`); to a benchmark that is the same.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_a2a_bench import dialects, tracing
from pytest_a2a_bench.dialects.auto import NATIVE
from pytest_a2a_bench.dialects.reading import DecodedReply, Dialect
from pytest_a2a_bench.errors import A2ABenchError, AgentOutcomeError
from pytest_a2a_bench.model import (
    AgentSaid,
    Briefing,
    DialectFinding,
    Event,
    Part,
    ToolAccess,
    ToolCall,
    ToolReturned,
    ToolSpec,
    Usage,
)
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, Bounds
from pytest_a2a_bench.text import one_line
from pytest_a2a_bench.tool_door import OVER, Answer, NativeCall, ToolQueue
from pytest_a2a_bench.tracing import NO_SPAN

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.a2a.turn import AgentReply
    from pytest_a2a_bench.benchmarks.noise import Noise

LAST_WORDS = 30.0
"""Most seconds for an agent to end a turn in whose middle its conversation was over, so that its cost is counted."""


_NAME = 80
"""Characters of a tool's name that a span shows: agents choose it."""


class Exchange(NamedTuple):
    """A call that was carried out, and its result.

    :param turn: the message that it was made for, counted from 1.
    """

    turn: int
    call: ToolCall
    result: str


class NativeTurns:
    """The turns of one conversation, between the messages that are sent and the queue of the calls that come in.

    For one thread; only :meth:`ToolQueue.close` may be called from others.

    :ivar exchanges: the calls so far, with their answers.
    """

    def __init__(self, tool_queue: ToolQueue, sender: AgentSession) -> None:
        self.tool_queue = tool_queue
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
        """Offer tools, and return the address at which they are called."""
        self.tool_queue.tools, self.tool_queue.is_used = tools, True
        return self.tool_queue.access

    def begin(self, parts: Sequence[Part], timeout: float | None) -> None:
        """Send a message, and take calls until it is answered."""
        self.tool_queue.begin_turn()
        self._turn += 1
        self._reply = self._sender.begin(parts, timeout)
        self._reply.add_done_callback(self.tool_queue.note_reply)

    def wait(self) -> ToolCall | AgentReply:
        """Return the next call, or the reply once it is there and no call came before it.

        :raises A2ABenchError: if no answer came.
        """
        reply = self._reply
        assert reply is not None, "begin() comes first"
        self._call = self.tool_queue.next_call()
        if self._call is not None:
            name = one_line(self._call.call.name, _NAME)
            self._span = self._sender.turn_span.child(tracing.tool_name(name), "internal", tracing.tool_start(name))
            return self._call.call
        self._reply = None
        return reply.result()

    def answer(self, events: Sequence[Event]) -> None:
        """Give the call that waits its result: the tool's value, or a user's words."""
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
        """Return the findings since the last call of this method."""
        return self.tool_queue.findings()

    def close(self, patience: float = LAST_WORDS) -> Usage:
        """End the conversation, and return the cost of the turn that was under way.

        In place of a result the agent gets a notice that it is over, and has a while to end its turn. Never raises.

        :param patience: seconds for that.
        """
        self.tool_queue.end()
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


_EMPTY = "empty-reply"
_HAS = "the reply has "


class SessionReply(Protocol):
    """The answer of a session."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts of the answer."""
        ...

    @property
    def usage(self) -> Usage | None:
        """The answer's cost, as the agent states it."""
        ...

    @property
    def elsewhere(self) -> str:
        """Where text is that is no part of an answer without parts, in words; empty where there is none."""
        ...


class Session(Protocol):
    """One conversation with the agent: the part of the A2A client's ``AgentSession`` that this module uses."""

    @property
    def context_id(self) -> str | None:
        """The contextId that the server gave, once it did."""
        ...

    def send(self, parts: Sequence[Part], timeout: float | None = None) -> SessionReply:
        """Send one message and wait for the answer."""
        ...


@dataclasses.dataclass
class Conversation:
    """The agent's side of one trial, in the words of no benchmark.

    :param dialect: name of the dialect, or ``auto``.
    :param resend: send everything again with each turn (``--a2a-set history=full``).
    :param bounds: how much of a reply is read and carried out.
    :param strict: give up where a reply cannot be read after the reminder either, instead of passing it on as words.
    :param before_turn: called before each request; raises to stop the trial; returns the seconds that are left.
    :param native: takes the calls that the agent makes by itself while it works on a message; None where it is to make
        them in its answers. To a benchmark both are the same: what the agent says next.
    """

    session: Session
    briefing: Briefing
    dialect: str = "auto"
    resend: bool = False
    before_turn: Callable[[], float | None] = lambda: None
    bounds: Bounds = DEFAULT_BOUNDS
    strict: bool = False
    events: list[Event] = dataclasses.field(default_factory=list)
    findings: list[DialectFinding] = dataclasses.field(default_factory=list)
    usage: Usage = dataclasses.field(default_factory=Usage)
    settled: str | None = None
    last_usage: Usage = dataclasses.field(default_factory=Usage)
    native: NativeTurns | None = None
    _spent: Usage = dataclasses.field(default_factory=Usage)
    _sent: int = 0
    _turn: int = 0
    _calls: int = 0
    _reminded: bool = False
    _told: int = 0

    def __post_init__(self) -> None:
        if self.native is not None:
            self.settled = NATIVE.name
            self.briefing = dataclasses.replace(self.briefing, access=self.native.offer(self.briefing.tools))

    def open(self, greeting: str) -> None:
        """Begin with words that the agent is taken to have said, before the first ``ask``."""
        self.briefing = dataclasses.replace(self.briefing, greeting=greeting)

    def ask(self, new: Sequence[Event]) -> AgentSaid:
        """Send the new events and return the reply: text or calls, never both.

        :raises AgentOutcomeError: if the agent gives up, or says nothing twice.
        """
        return self._with_noise(new, self._ask)

    def _ask(self, new: Sequence[Event]) -> AgentSaid:
        got = self._advance(new)
        # One reminder in a conversation, not one per turn: an agent that needs it each time does not speak the dialect.
        if isinstance(got, DecodedReply) and (got.unreadable or _is_empty(got)) and not self._reminded:
            self._reminded = True
            got = self._exchange(self._writer().reminder())
        if isinstance(got, AgentSaid):
            return got
        if _is_empty(got):
            reason = next((f.message for f in got.findings if f.rule == _EMPTY), "neither text nor a tool call")
            raise AgentOutcomeError(f"the agent's answer is empty: {reason.removeprefix(_HAS)}", state="failed")
        if self.strict and got.unreadable:
            raise AgentOutcomeError(
                f"the agent's answer cannot be read: {one_line(got.text or '', 200)}", state="failed"
            )
        return self._conclude(got)

    def attempt(self, new: Sequence[Event]) -> AgentSaid:
        """Send the new events and return the reply, whatever it is, after exactly one exchange.

        For benchmarks that answer an unreadable reply themselves. ``calls`` wins over text; neither is an empty reply.
        """
        return self._with_noise(new, self._attempt)

    def _attempt(self, new: Sequence[Event]) -> AgentSaid:
        got = self._advance(new)
        return got if isinstance(got, AgentSaid) else self._conclude(got)

    def _with_noise(self, new: Sequence[Event], send: Callable[[Sequence[Event]], AgentSaid]) -> AgentSaid:
        # Sessions of other implementations may have none.
        noise: Noise | None = getattr(self.session, "noise", None)
        return send(new) if noise is None else noise.around(new, send)

    def close(self) -> None:
        """End it, because the benchmark is done: maybe in the middle of a turn in which the agent calls its tools."""
        if self.native is None:
            return
        try:
            left = self.before_turn()
        except A2ABenchError:  # its time is up, or it is cancelled: nobody waits for an agent
            left = 0.0
        ended = self.native.close(LAST_WORDS if left is None else min(left, LAST_WORDS))
        self.usage = self.usage + self._spent + ended
        self._spent = Usage()
        self._take_findings()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Keep messages inside the block out of events, findings and usage; the conversation is over after it."""
        kept, native = dict(vars(self)), self.native
        counted = (
            (native.tool_queue.carried_out, native.tool_queue.refused, len(native.exchanges))
            if native is not None
            else None
        )
        self.events, self.findings, self.usage = list(self.events), [], Usage()
        try:
            yield
        finally:
            self.close()
            vars(self).update(kept)
            if native is not None and counted is not None:
                native.tool_queue.carried_out, native.tool_queue.refused = counted[:2]
                del native.exchanges[counted[2] :]

    def note(self, finding: DialectFinding) -> None:
        """Record something about the last reply that only the benchmark can know to be wrong."""
        self.findings.append(dataclasses.replace(finding, turn=self._turn))

    def _tell(self) -> None:
        """Pass new messages to the listener (``--a2a-live``)."""
        # Sessions of other implementations may have no listener.
        listener = getattr(self.session, "listener", None)
        if listener is not None:
            listener(self.briefing, self.events[self._told :])
        self._told = len(self.events)

    def _writer(self) -> Dialect:
        return dialects.get(self.settled or self.dialect)

    def _request(self) -> Sequence[Part]:
        # A server that gives no contextId cannot know what was said before.
        whole = self.resend or self._sent == 0 or self.session.context_id is None
        if whole:
            return self._writer().encode_request(self.briefing, self.events)
        return self._writer().encode_request(None, self.events[self._sent :])

    def _advance(self, new: Sequence[Event]) -> AgentSaid | DecodedReply:
        """Go on: with the next message, or with the turn in which a call of the agent's waits for its result."""
        self.events.extend(new)
        self._tell()
        if self.native is not None and self.native.is_waiting:
            self.before_turn()
            self.native.answer(new)
            return self._hear(self.native)
        self._turn += 1
        return self._exchange(self._request())

    def _exchange(self, parts: Sequence[Part]) -> AgentSaid | DecodedReply:
        timeout = self.before_turn()
        if self.native is None:
            return self._read(self.session.send(parts, timeout=timeout))
        self.native.begin(parts, timeout)
        return self._hear(self.native)

    def _hear(self, native: NativeTurns) -> AgentSaid | DecodedReply:
        """Wait for a call that the agent makes by itself, or for its reply, and return the first that comes."""
        try:
            got = native.wait()
        finally:
            self._take_findings()
        if not isinstance(got, ToolCall):
            return self._read(got)
        said = AgentSaid(calls=(self._with_id(got),))
        self.events.append(said)
        self._tell()
        # The agent says at the end of its turn what all of it cost.
        self.last_usage = Usage()
        return said

    def _read(self, reply: SessionReply) -> DecodedReply:
        decoded = self._writer().decode_reply(reply.parts, self.briefing.tools, self.bounds)
        if reply.elsewhere:
            findings = tuple(
                dataclasses.replace(f, message=f"{f.message}; {reply.elsewhere}") if f.rule == _EMPTY else f
                for f in decoded.findings
            )
            decoded = dataclasses.replace(decoded, findings=findings)
        if self.dialect == "auto":
            self.settled = dialects.settle(self.settled, decoded)
        self.findings.extend(dataclasses.replace(f, turn=self._turn) for f in decoded.findings)
        self._spent = self._spent + (reply.usage or Usage())
        return decoded

    def _take_findings(self) -> None:
        if self.native is not None:
            self.findings.extend(dataclasses.replace(f, turn=self._turn) for f in self.native.findings())

    def _conclude(self, decoded: DecodedReply) -> AgentSaid:
        """Record a reply; nothing is new to the agent after it."""
        said = self._said(decoded)
        # An empty reply has nothing to resend.
        if not _is_empty(decoded):
            self.events.append(said)
            self._tell()
        self._sent = len(self.events)
        self.last_usage, self._spent = self._spent, Usage()
        self.usage = self.usage + self.last_usage
        return said

    def _said(self, decoded: DecodedReply) -> AgentSaid:
        if not decoded.calls:
            return AgentSaid(text=decoded.text)
        return AgentSaid(calls=tuple(self._with_id(c) for c in decoded.calls))

    def _with_id(self, call: ToolCall) -> ToolCall:
        self._calls += 1
        return call if call.id else dataclasses.replace(call, id=f"call_{self._calls}")


def _is_empty(decoded: DecodedReply) -> bool:
    return not decoded.calls and not (decoded.text and decoded.text.strip())
