"""The rate of messages to one agent, shared by all conversations with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

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
