"""One holding of a trial: its own thread or whoever waits for it may end it, and the first says what came of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.benchmarks.participants import Parties
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.trials.redelivery import Abandoned, Evaluated

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.benchmarks.base import Outcome
    from pytest_a2a_bench.benchmarks.native import NativeTurns
    from pytest_a2a_bench.cassettes.tape import Tape
    from pytest_a2a_bench.results.live import Growing


class Attempt:
    """A trial while it is held.

    :param cancel: set when it is to end as soon as it can.
    :ivar began: by ``time.monotonic()``; ``started_at`` is the same moment on the calendar.
    :ivar session: the conversation, once there is one; the last, if it was held again.
    :ivar native: where the agent calls tools by itself, where it does; likewise the last.
    :ivar parties: the further agents of it; likewise the last.
    :ivar abandoned: what those before it left behind.
    :ivar evaluated: the last of them that was evaluated, and held again for its user.
    :ivar metadata: what goes with every message of it.
    :ivar growing: its file for whoever watches, while it is held and somebody may.
    :ivar trouble: what went wrong while that was made; ``damaged`` while an earlier result was read.
    :ivar before: what the benchmark of an earlier result was, where there is one.
    """

    def __init__(self, key: TrialKey, cancel: threading.Event, metadata: dict[str, Any]) -> None:
        self.key = key
        self.cancel = cancel
        self.began: float = time.monotonic()
        self.started_at: str = datetime.now(UTC).isoformat()
        self.session: AgentSession | None = None
        self.native: NativeTurns | None = None
        self.parties: Parties = Parties()
        self.abandoned: Abandoned = Abandoned()
        self.evaluated: Evaluated | None = None
        self.metadata = metadata
        self.growing: Growing | None = None
        self.trouble: Exception | None = None
        self.damaged = ""
        self.before = ""
        self._result: TrialResult | None = None
        self._lock = threading.Lock()
        self._forget: list[Callable[[], None]] = []

    def set_aside(self, outcome: Outcome, session: AgentSession, seed: int, tape: Tape | None) -> None:
        """Note a conversation that is held again: what it leaves behind, and that it counts if the next cannot."""
        parties = self.parties.records()
        if outcome.error is None:
            self.evaluated = Evaluated(outcome, session, parties, seed, tape)
        self.abandoned.add(outcome, session, parties)

    @property
    def has_ended(self) -> bool:
        """Whether somebody has said what came of it."""
        return self._result is not None

    def other_data(self, provenance: Mapping[str, Any]) -> dict[str, str]:
        """Return what is to be told of an earlier result that was one of other data: it is not the same trial."""
        now = provenance.get("benchmark")
        return {"other_data": self.before} if self.before and now and self.before != now else {}

    def give_up(self) -> None:
        """Cut it off, from another thread than its own, which does not come back."""
        self.cancel.set()
        if self.native is not None:
            self.native.desk.close()
        self.cancel_sessions()

    def cancel_sessions(self) -> None:
        """Abort the request that is under way, from any thread."""
        if self.session is not None:
            self.session.cancel()
        self.parties.cancel()

    def end_native(self) -> None:
        """Let the agent call no more tools: its conversation is over, however it ended."""
        if self.native is not None:
            self.native.close(0)
            self.native.desk.close()
            self._forget.append(self.native.desk.forget)

    def forget(self) -> None:
        """Stop hiding and showing what only its conversations knew: what came of it is stored."""
        self.grow(None)
        while self._forget:
            self._forget.pop()()

    def grow(self, growing: Growing | None) -> None:
        """Let its next conversation be watched in this file; that of the last one goes."""
        if self.growing is not None:
            self.growing.end()
        self.growing = growing
        if self.session is not None and growing is not None:
            self.session.listener = growing.hear

    def conclude(self, result: TrialResult) -> bool:
        """Say what came of it, and return whether that holds: only the first result does.

        A thread that comes back after it was given up has waited for something that nobody bounds. What it brings is
        dropped: the item has been reported as an error by then, and files must say what reports say.
        """
        with self._lock:
            if self._result is None:
                self._result = result
            return self._result is result
