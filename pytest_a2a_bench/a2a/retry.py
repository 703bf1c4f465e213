"""When a request is sent again, and how long to wait before it (pure).

Only trouble of the transport is repeated: a connection that was refused or died before any answer, 429, 502, 503 and
504. A 500 is not: it usually is the agent itself that crashed over the message, and sending it again would only hide
that (and may repeat its side effects). A repeated message keeps its ``messageId``, by which an agent can tell (§3.3.1).
"""

from __future__ import annotations

import datetime
import email.utils
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from pytest_a2a_bench.errors import EndpointUnreachableError, TransportError, TurnTimeoutError

RETRYABLE_STATUS = frozenset({429, 502, 503, 504})


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


def is_retryable(error: BaseException, *, answered: bool) -> bool:
    """Tell whether the same request may be sent again.

    :param answered: whether an answer had begun to arrive (a status line, for HTTP).
    """
    if isinstance(error, TurnTimeoutError) or not isinstance(error, TransportError):
        return False
    if error.status_code is not None:
        return error.status_code in RETRYABLE_STATUS
    if isinstance(error, EndpointUnreachableError):
        return not _is_hopeless(error)
    return not answered


def _is_hopeless(error: BaseException | None) -> bool:
    """Whether the cause is one that does not pass: an unknown host, a refused certificate."""
    for _ in range(8):
        if error is None:
            return False
        if isinstance(error, ssl.SSLError):
            return True
        if isinstance(error, socket.gaierror):
            return error.errno != socket.EAI_AGAIN
        error = error.__cause__ or error.__context__
    return False
