"""One holding of a trial: its own thread or whoever waits for it may end it, and the first says what came of it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.trials.redelivery import Abandoned, Evaluated

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.session import AgentSession
    from pytest_a2a_bench.benchmarks.base import Outcome
    from pytest_a2a_bench.cassettes.tape import Tape


class Attempt:
    """A trial while it is held.

    :param cancel: set when it is to end as soon as it can.
    :ivar began: by ``time.monotonic()``; ``started_at`` is the same moment on the calendar.
    :ivar session: the conversation, once there is one; the last, if it was held again.
    :ivar abandoned: what those before it left behind.
    :ivar evaluated: the last of them that was evaluated, and held again for its user.
    :ivar metadata: what goes with every message of it.
    :ivar trouble: what went wrong while that was made; ``damaged`` while an earlier result was read.
    :ivar before: what the benchmark of an earlier result was, where there is one.
    """

    def __init__(self, key: TrialKey, cancel: threading.Event, metadata: dict[str, Any]) -> None:
        self.key = key
        self.cancel = cancel
        self.began = time.monotonic()
        self.started_at = datetime.now(UTC).isoformat()
        self.session: AgentSession | None = None
        self.abandoned = Abandoned()
        self.evaluated: Evaluated | None = None
        self.metadata = metadata
        self.trouble: Exception | None = None
        self.damaged = ""
        self.before = ""
        self._result: TrialResult | None = None
        self._lock = threading.Lock()

    def set_aside(self, outcome: Outcome, session: AgentSession, seed: int, tape: Tape | None) -> None:
        """Note a conversation that is held again: what it leaves behind, and that it counts if the next cannot."""
        if outcome.error is None:
            self.evaluated = Evaluated(outcome, session, seed, tape)
        self.abandoned.add(outcome, session)

    @property
    def has_ended(self) -> bool:
        """Whether somebody has said what came of it."""
        return self._result is not None

    def conclude(self, result: TrialResult) -> bool:
        """Say what came of it, and return whether that holds: only the first result does.

        A thread that comes back after it was given up has waited for something that nobody bounds. What it brings is
        dropped: the item has been reported as an error by then, and files must say what reports say.
        """
        with self._lock:
            if self._result is None:
                self._result = result
            return self._result is result
