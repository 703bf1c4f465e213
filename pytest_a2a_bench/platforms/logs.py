"""What an agent's process writes, kept within bounds: its beginning, where it says how it started, and its end."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable

from pytest_a2a_bench.secret import KNOWN

HEAD = 32 * 1024
TAIL = 224 * 1024
"""Characters that are kept of the beginning and of the end of one stream."""

_LONGEST_LINE = 16 * 1024


class BoundedLog:
    """One stream's text: whole lines, without the secrets of this process.

    :param echo: called with each line as it is complete, without its line break.
    """

    def __init__(self, echo: Callable[[str], None] | None = None, *, head: int = HEAD, tail: int = TAIL) -> None:
        self._echo = echo
        self._room = head
        self._tail = tail
        self._head: list[str] = []
        self._last: deque[str] = deque()
        self._held = 0
        self._dropped = 0
        self._begun = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> None:
        """Take what was written; nothing says that the stream has ended."""
        *lines, self._begun = (self._begun + self._decoder.decode(data, final=not data)).split("\n")
        for line in lines:
            self._add(f"{line}\n")
        # What never breaks its lines would never be shown, and would be held for ever.
        while len(self._begun) >= _LONGEST_LINE or (self._begun and not data):
            self._add(self._begun[:_LONGEST_LINE])
            self._begun = self._begun[_LONGEST_LINE:]

    def _add(self, line: str) -> None:
        # A line at a time: a secret that came in two pieces is one again.
        line = KNOWN.hide(line)
        if self._echo is not None:
            self._echo(line.rstrip("\n"))
        if not self._last and len(line) <= self._room:
            self._head.append(line)
            self._room -= len(line)
            return
        self._last.append(line)
        self._held += len(line)
        while self._held > self._tail:
            gone = len(self._last.popleft())
            self._held -= gone
            self._dropped += gone

    def text(self) -> str:
        """Return what is kept, with a line where something was left out; the line that is not complete yet, too."""
        gap = [f"[... {self._dropped} characters left out ...]\n"] if self._dropped else []
        return KNOWN.hide("".join([*self._head, *gap, *self._last, self._begun]))
