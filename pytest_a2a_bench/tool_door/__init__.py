"""The queue of a trial in which calls of an MCP client wait until the conversation carries them out.

It knows neither MCP nor HTTP: :mod:`.server` is the endpoint.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.dialects.reading import limit_finding, restore_call
from pytest_a2a_bench.errors import AgentOutcomeError, ConfigurationError
from pytest_a2a_bench.installation import install_command
from pytest_a2a_bench.listener import LOOPBACK, BindAddress, read_bind_address
from pytest_a2a_bench.model import DialectFinding, ToolAccess, ToolCall, ToolSpec
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, Bounds, is_deeper

SERVER = "the server of --a2a-tools mcp"
"""Its name in messages."""


OVER = "The conversation is over: nothing more is carried out. End your turn."
OVER_META = "a2a-bench/over"
"""Member of a result's ``_meta`` that is true where the conversation is over."""
NOT_YOUR_TURN = (
    "Not carried out: tools can be called only while a message to you waits for its answer, and none does now."
)

LEAST_BYTES = 1024
"""The least count of a request, so that many small ones are bounded as well as a few large ones."""


class Answer(NamedTuple):
    """The outcome of a call.

    :param is_over: whether the conversation ended with it, or before.
    """

    text: str
    error: bool = False
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A call that waits for its answer."""

    call: ToolCall
    answer: Future[Answer] = field(default_factory=Future)


class ToolQueue:
    """The native calls of one trial. Safe to use from several threads.

    :param access: where the agent reaches it.
    :param on_close: called once, when the endpoint is to be closed.
    :param forget: called once the trial's result is stored: its token need not be hidden any more.
    :ivar tools: the offered tools; set together with the conversation.
    :ivar is_used: whether a conversation was run with it.
    :ivar carried_out: calls that were handed to the conversation; ``refused`` counts the others.
    """

    def __init__(
        self,
        access: ToolAccess,
        bounds: Bounds = DEFAULT_BOUNDS,
        on_close: Callable[[], None] | None = None,
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        self.access = access
        self.forget = forget
        self.bounds = bounds
        self.tools: tuple[ToolSpec, ...] = ()
        self.is_used = False
        self.carried_out: int = 0
        self.refused: int = 0
        self._on_close = on_close
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[NativeCall | None] = queue.SimpleQueue()
        self._is_open = False
        self._is_over = False
        self._in_turn = 0
        self._bytes = 0
        self._excess: AgentOutcomeError | None = None
        self._findings: dict[str, DialectFinding] = {}

    # -- the server's side --

    def take(self, size: int) -> bool:
        """Count the bytes of a request, and return whether the trial may still have them.

        If not, that is how the agent ended the conversation, as with answers that are too large together.
        """
        with self._lock:
            self._bytes += max(size, LEAST_BYTES)
            if self._bytes <= self.bounds.total:
                return True
            if self._excess is None:
                finding = self._find("total", "the requests to the tools of this trial are too large together")
                self._excess = AgentOutcomeError(finding.message, state="failed")
                # Wakes the conversation.
                self._queue.put(None)
            return False

    def note(self, bound: str) -> None:
        """Note that a request was beyond a bound, and not read."""
        with self._lock:
            self._refuse_beyond(bound, "a request to the tools of this trial was not read")

    def call(self, name: str, arguments: Any) -> Future[Answer]:
        """Leave a call; its answer comes when the conversation has carried it out, or at once if it will not."""
        native = NativeCall(ToolCall(name, arguments))
        with self._lock:
            refusal = self._refusal(native.call)
            if refusal is None:
                self._in_turn += 1
                self._queue.put(NativeCall(restore_call(native.call, self.tools), native.answer))
        if refusal is not None:
            native.answer.set_result(refusal)
        return native.answer

    def _refusal(self, call: ToolCall) -> Answer | None:
        if self._is_over:
            return self._refuse(OVER, is_over=True)
        if not self._is_open:
            return self._refuse(NOT_YOUR_TURN)
        if is_deeper(call.arguments, self.bounds.depth):
            return self._refuse_beyond("depth", f"the arguments of {call.name[:80]} are nested too deeply")
        if self._in_turn >= self.bounds.calls:
            return self._refuse_beyond("calls", f"more than {self.bounds.calls} calls in one turn")
        return None

    def _refuse(self, text: str, *, is_over: bool = False) -> Answer:
        self.refused += 1
        return Answer(text, error=True, is_over=is_over)

    def _refuse_beyond(self, bound: str, message: str) -> Answer:
        return self._refuse(f"Not carried out: {self._find(bound, message).message}")

    def _find(self, bound: str, message: str) -> DialectFinding:
        # The first of its kind in a turn: an agent that goes on must not fill our memory.
        return self._findings.setdefault(bound, limit_finding(self.bounds, bound, message))

    # -- the conversation's side --

    def begin_turn(self) -> None:
        """Take calls from now on. Before the message is sent: its agent may be quicker than we are."""
        with self._lock:
            self._is_open = not self._is_over
            self._in_turn = 0

    def note_reply(self, reply: Future[Any]) -> None:
        """Note that the reply, or an error in its place, has arrived: later calls are refused."""
        self._queue.put(None)

    def next_call(self) -> NativeCall | None:
        """Wait for the next call to carry out; None once the reply is there and no call came before it.

        :raises AgentOutcomeError: if the agent has sent more than a trial may.
        """
        while True:
            item = self._queue.get()
            if self._excess is not None:
                raise self._excess
            if item is None:
                self._end_turn(NOT_YOUR_TURN)
                return None
            # A caller that has disconnected before its turn is not served.
            if item.answer.set_running_or_notify_cancel():
                self.carried_out += 1
                return item

    def findings(self) -> Sequence[DialectFinding]:
        """Return the findings since the last call."""
        with self._lock:
            found, self._findings = tuple(self._findings.values()), {}
            return found

    def end(self) -> None:
        """Refuse calls that wait and all later ones: the conversation is over."""
        with self._lock:
            self._is_over = True
        self._end_turn(OVER)

    def _end_turn(self, why: str) -> None:
        with self._lock:
            self._is_open = False
            left = self._drain()
            self.refused += len(left)
        for native in left:
            if native.answer.set_running_or_notify_cancel():
                native.answer.set_result(Answer(why, error=True, is_over=self._is_over))

    def _drain(self) -> list[NativeCall]:
        left: list[NativeCall] = []
        while True:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return left
            if isinstance(item, NativeCall):
                left.append(item)

    def close(self) -> None:
        """Close the endpoint. Safe to call again, from any thread."""
        self.end()
        with self._lock:
            closing, self._on_close = self._on_close, None
        if closing is not None:
            closing()


_MODULES = ("mcp_types", "uvicorn")
"""Modules of the extra ``mcp`` that the server needs; the package ``mcp`` before 2.0 has no ``mcp_types`` beside it."""


def missing_modules() -> list[str]:
    """Return the missing modules of the server."""
    return [name for name in _MODULES if find_spec(name) is None]


def place_of(settings: Settings) -> BindAddress:
    """Return where the tools of trials are served; raises ConfigurationError if the settings name no place."""
    return read_bind_address(settings.mcp_bind, settings.mcp_url, SERVER, any_port=True) or LOOPBACK


def problems(settings: Settings, processes: bool = False) -> Iterator[str]:
    """Describe the problems, a sentence each.

    :param processes: whether several processes hold the trials: each has a server of its own.
    """
    if settings.tools != "mcp":
        if settings.mcp_bind or settings.mcp_url:
            yield "mcp-bind and mcp-url say where --a2a-tools mcp listens: add --a2a-tools mcp"
        return
    if missing := missing_modules():
        yield f"--a2a-tools=mcp needs {', '.join(missing)}; run: {install_command('mcp')}"
    if settings.dialect != "auto":
        yield (
            f"--a2a-dialect={settings.dialect} says how calls are written in messages, and with --a2a-tools=mcp the "
            "agent makes them by itself: leave it out (calls in its answers are read in every dialect)"
        )
    for name, value in (("--a2a-record", settings.record), ("--a2a-replay", settings.replay)):
        if value:
            yield (
                f"{name} and --a2a-tools=mcp exclude each other: a cassette holds the messages of A2A, and what the "
                "agent calls by itself is not among them"
            )
    try:
        place = place_of(settings)
    except ConfigurationError as error:
        yield f"{error} (mcp-bind, mcp-url)"
        return
    if processes and place.port:
        yield (
            f"--a2a-set mcp-bind={settings.mcp_bind} is one port, and -n starts several processes, each with a server: "
            "use --a2a-concurrency instead of -n, or give port 0 without mcp-url"
        )
