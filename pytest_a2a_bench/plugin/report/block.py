"""A few lines below everything else on a terminal, which change in place while a run goes on."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, TextIO

_CLEAR = "\x1b[J"
"""Erases from the cursor to the end of the screen. The cursor is always where pytest goes on, above the block."""


class Block:
    """A stream that takes the block away before anything else is written. Safe to use from several threads.

    :param stream: what is written to.
    :param column: returns how far the line has come that is being written.
    :param width: returns how many columns there are.
    """

    def __init__(self, stream: TextIO, column: Callable[[], int], width: Callable[[], int]) -> None:
        self._stream = stream
        self._column = column
        self._width = width
        self._lines: Sequence[str] = ()
        self._is_shown = False
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        """Write what pytest writes; the block comes back when it is flushed."""
        with self._lock:
            self._clear()
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Send on what was written, and the block below it."""
        with self._lock:
            self._draw()
            self._stream.flush()

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines in the place of those before."""
        with self._lock:
            self._clear()
            self._lines = lines
            self.flush()

    def hide(self) -> None:
        """Take the block away."""
        with self._lock:
            self._clear()
            self._lines = ()
            self._stream.flush()

    def _clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._stream.write(_CLEAR)

    def _draw(self) -> None:
        if self._is_shown or not self._lines:
            return
        width, column = self._width(), self._column()
        if column and column % width == 0:
            # A cursor behind the last column cannot be put back there; the block comes with what is written next.
            return
        self._is_shown = True
        # What pytest writes may be longer than a line.
        column %= width
        # A line break moves on where a cursor cannot: at the end of the screen.
        below = "".join(f"\n{_fitted(line, width - 1)}" for line in self._lines)
        right = f"\x1b[{column}C" if column else ""
        self._stream.write(f"{below}\x1b[{len(self._lines)}A\r{right}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _fitted(line: str, columns: int) -> str:
    """Return as much of a line as fits: one that a terminal continues below would move all that is counted by lines."""
    if line.isascii() and line.isprintable():
        return line[:columns]
    kept = ""
    for c in line:
        columns -= _columns(c)
        if columns < 0:
            break
        kept += " " if unicodedata.category(c) == "Cc" else c
    return kept


def _columns(c: str) -> int:
    """Return how many columns a character takes at most; of the ambiguous ones, what they take in most places."""
    if c == "\ufe0f":
        return 1  # makes some characters before it wide
    category = unicodedata.category(c)
    if category in ("Mn", "Me", "Cf"):
        return 0
    # A character newer than Python's table may be one more emoji.
    return 2 if unicodedata.east_asian_width(c) in "WF" or category == "Cn" else 1
