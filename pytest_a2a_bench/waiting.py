"""Print the reason of a long wait."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 3.0
"""Seconds after which a wait is announced."""
_EVERY = 5.0


def _to_stderr(line: str) -> None:
    print(f"a2a-bench: {line}", file=sys.stderr, flush=True)


_SAY: list[Callable[[str], None]] = [_to_stderr]


def announce_with(say: Callable[[str], None]) -> Callable[[], None]:
    """Let another function write the announcements; return a function that undoes it."""
    _SAY.append(say)
    return lambda: _SAY.remove(say)


@contextlib.contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Announce the reason of a wait, if the block takes more than three seconds."""
    timer = threading.Timer(PATIENCE, lambda: _SAY[-1](f"waiting for {what} ..."))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def counted(items: Sequence[T], what: str) -> Iterator[T]:
    """Yield items; every five seconds, announce how many are done and how long the rest will take.

    :param what: the items in the plural, for the line: ``checks``.
    """
    first = last = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if done == 1:
            first = now  # the first one may have loaded what the others need, and says nothing about them
        if done and now - last >= _EVERY:
            last = now
            left = f", about {(now - first) / (done - 1) * (len(items) - done):.0f} s left" if done > 1 else ""
            _SAY[-1](f"{done:,} of {len(items):,} {what}{left}")
        yield item
