"""What an agent's process writes, within bounds: its beginning, where it says how it started, and its end."""

from __future__ import annotations

import codecs
import threading
from collections import deque
from collections.abc import Callable

from pytest_a2a_bench.secret import KNOWN

_LONGEST_LINE = 16 * 1024


class BoundedLog:
    """One stream's text: whole lines, without the secrets of this process. Of several threads one may feed it.

    :param echo: called with each line as it is complete, without its line break.
    :param head: characters that are kept of the beginning; ``tail`` of the end.
    """

    def __init__(
        self, echo: Callable[[str], None] | None = None, *, head: int = 32 * 1024, tail: int = 224 * 1024
    ) -> None:
        self._echo = echo
        self._room = head
        self._tail = tail
        self._head: list[str] = []
        self._last: deque[str] = deque()
        self._dropped = 0
        self._begun = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()

    def feed(self, data: bytes) -> None:
        """Take what was written; nothing says that the stream has ended."""
        with self._lock:
            *lines, begun = (self._begun + self._decoder.decode(data, final=not data)).split("\n")
            lines = [f"{line}\n" for line in lines]
            # What never breaks its lines is shown in pieces.
            while len(begun) >= _LONGEST_LINE or (begun and not data):
                lines.append(begun[:_LONGEST_LINE])
                begun = begun[_LONGEST_LINE:]
            self._begun = begun
            # A line at a time: a secret that came in two pieces is one again.
            lines = [KNOWN.hide(line) for line in lines]
            for line in lines:
                self._add(line)
        if self._echo is not None:
            for line in lines:
                self._echo(line.rstrip("\n"))

    def _add(self, line: str) -> None:
        if not self._last and len(line) <= self._room:
            self._head.append(line)
            self._room -= len(line)
            return
        self._last.append(line)
        self._tail -= len(line)
        while self._tail < 0:
            gone = len(self._last.popleft())
            self._tail += gone
            self._dropped += gone

    def text(self) -> str:
        """Return what is kept, with a line where something was left out; the line that is not complete yet, too."""
        with self._lock:
            gap = [f"[... {self._dropped} characters left out ...]\n"] if self._dropped else []
            return KNOWN.hide("".join([*self._head, *gap, *self._last, self._begun]))
