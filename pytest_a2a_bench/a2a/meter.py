"""What an agent's answers cost to read, against the bounds of a reply: depth, CPU seconds, bytes of a whole trial."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from pytest_a2a_bench.a2a.bodies import parse_json
from pytest_a2a_bench.errors import AgentOutcomeError, ReplyLimitError
from pytest_a2a_bench.model import DialectFinding
from pytest_a2a_bench.model.bounds import DEFAULT_BOUNDS, Bounds, is_deeper

ENVELOPE = 16
"""Levels that A2A itself may put around what an agent writes (JSON-RPC, task, artifact, part; protobuf's Struct)."""


class Meter:
    """Counts for one conversation; the event loop serves many, so what is measured is this thread's CPU time."""

    def __init__(self, bounds: Bounds = DEFAULT_BOUNDS) -> None:
        self.bounds = bounds
        self._seconds = 0.0
        self._bytes = 0

    def begin_turn(self) -> None:
        """Count CPU seconds anew."""
        self._seconds = 0.0

    def take(self, size: int) -> None:
        """Count bytes that arrived.

        :raises ReplyLimitError: if they are more than a trial may have.
        """
        self._bytes += size
        if self._bytes > self.bounds.total:
            message = f"the answers of this conversation are larger than {self.bounds.total} bytes together"
            raise self.error("total", message)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Count the CPU seconds of the block, in which nothing must wait.

        :raises ReplyLimitError: if the turn's answers have now taken too many.
        """
        started = time.thread_time()
        try:
            yield
        finally:
            self._seconds += time.thread_time() - started
        if self._seconds > self.bounds.cpu:
            raise self.error("cpu", f"reading the answer took more than {self.bounds.cpu:g} s of CPU time")

    def parse(self, text: bytes | str) -> Any:
        """Parse JSON.

        :raises ProtocolError: if it is none, or (:class:`ReplyLimitError`) is nested too deeply.
        """
        try:
            value = parse_json(text)
        except ReplyLimitError as error:
            raise self.error(error.limit, str(error)) from error
        self.check_depth(value)
        return value

    def check_depth(self, value: object) -> None:
        """Refuse a value that is nested too deeply.

        :raises ReplyLimitError: if it is.
        """
        if is_deeper(value, self.bounds.depth + ENVELOPE):
            raise self.error("depth", "nested too deeply")

    def error(self, limit: str, message: str) -> ReplyLimitError:
        """Return an error that names the bound and its option."""
        return ReplyLimitError(f"{message} ({self.bounds.show(limit)})", limit=limit)


def ended_by(error: ReplyLimitError, turn: int) -> tuple[DialectFinding, AgentOutcomeError]:
    """Return how an answer beyond a bound ends a conversation, which is the agent's doing, and the finding about it."""
    return DialectFinding(f"limit-{error.limit}", str(error), turn=turn), AgentOutcomeError(str(error), state="failed")
