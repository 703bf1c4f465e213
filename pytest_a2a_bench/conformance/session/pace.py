"""How slow an agent, and this machine, are just now: the time of a reference exchange.

A verdict that depends on time ("the stream stayed open", "no notification came") compares with this and not with a
clock alone: a busy machine makes everything late, the reference exchange too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable

BUSY = 10
"""How many times the time of a reference exchange is allowed beyond the usual limit."""
MOST_SECONDS = 10.0
"""Most that is allowed beyond the usual limit: the user's own limit of time stands above all."""
# References older than this say nothing about now; a timed check is under way for about as long at most.
_WINDOW_SECONDS = 20.0
# Many timed checks run at once, and one measurement serves all that want one at the same moment.
_FRESH_SECONDS = 0.25


class Pace:
    """Measures reference exchanges and remembers them for a while.

    Its ``is_alone`` tells whether checks are repeated one after the other, with nothing else in flight.

    :param exchange: makes one cheap exchange, a question that no model answers, and tells whether it was answered.
    """

    def __init__(self, exchange: Callable[[], Awaitable[bool]]) -> None:
        self._exchange = exchange
        # An exchange that was not answered in time is not made again: each try would take the whole limit.
        self._is_answered = True
        self._gave_up_after = 0.0
        self._measured: deque[tuple[float, float]] = deque(maxlen=64)
        # Only then is it the agent or the machine that is slow, and not what else was asked.
        self.is_alone: bool = False

    async def measure(self) -> None:
        """Make a reference exchange, unless one was made just now."""
        started = time.monotonic()
        is_fresh = bool(self._measured) and started - self._measured[-1][0] < _FRESH_SECONDS
        if is_fresh or not self._is_answered:
            return
        self._is_answered = await self._exchange()
        ended = time.monotonic()
        if self._is_answered:
            self._measured.append((ended, ended - started))
        else:
            self._gave_up_after = ended - started

    def forget(self) -> None:
        """Begin anew: what was measured while much was in flight says nothing about what comes alone."""
        self._measured.clear()
        self.is_alone = True
        self._is_answered, self._gave_up_after = True, 0.0

    @property
    def slowest(self) -> float:
        """Seconds of the slowest reference exchange of the last seconds; 0.0 where none was made.

        One that was given up counts for good: whatever is compared with it is on an agent as slow as that.
        """
        since = time.monotonic() - _WINDOW_SECONDS
        return max((s for ended, s in (*self._measured, (since, self._gave_up_after)) if ended >= since))

    async def allow(self, seconds: float) -> float:
        """Return how long something may take that a prompt agent on a quiet machine does within some seconds.

        A reference exchange is measured now, so that what made the thing late counts even if it began just before.
        """
        await self.measure()
        return seconds + min(MOST_SECONDS, BUSY * self.slowest)
