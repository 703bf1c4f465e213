"""Where text leaves the command line: without secrets, and harmless in a terminal or in a log of CI."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from pytest_a2a_bench.redact import KNOWN
from pytest_a2a_bench.text import sanitise

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


@contextlib.contextmanager
def harmless() -> Iterator[None]:
    """Hide secrets in what is printed, and make it harmless (:func:`~pytest_a2a_bench.text.sanitise`)."""
    out, err = Outlet(sys.stdout), Outlet(sys.stderr)
    with contextlib.redirect_stdout(cast(TextIO, out)), contextlib.redirect_stderr(cast(TextIO, err)):
        try:
            yield
        finally:
            out.finish()
            err.finish()


class Outlet:
    """A text stream that passes text on line by line: what is harmless in two pieces may be a command in one.

    A terminal gets colours; no CI reads what is written there.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun = ""

    def write(self, text: str) -> int:
        """Write the lines that are complete."""
        lines, end, self._begun = (self._begun + text).rpartition("\n")
        if end:
            self._stream.write(self._clean(lines) + end)
        return len(text)

    def flush(self) -> None:
        """Write a line that is not complete, too."""
        self.finish()
        self._stream.flush()

    def finish(self) -> None:
        """Pass on what is left."""
        begun, self._begun = self._begun, ""
        if begun and not self._stream.closed:
            self._stream.write(self._clean(begun))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _clean(self, text: str) -> str:
        text = KNOWN.hide(text)
        if not self._stream.isatty():
            return sanitise(text)
        return "".join(part if _COLOUR.fullmatch(part) else sanitise(part) for part in _COLOUR.split(text))
