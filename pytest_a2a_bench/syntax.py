"""Parse Python's syntax in threads.

CPython 3.11 counts the depth of a tree that it builds once for all threads, and raises ``SystemError`` in one thread
where another builds a tree at the same time.
"""

from __future__ import annotations

import ast
import threading
from typing import Any

_LOCK = threading.Lock()
_TRIES = 10


def parse(text: str, mode: str = "exec") -> Any:
    """Return what :func:`ast.parse` returns, and raise what it raises."""
    with _LOCK:
        for _ in range(_TRIES - 1):
            try:
                return ast.parse(text, mode=mode)
            except SystemError:  # a thread of other code
                continue
        return ast.parse(text, mode=mode)


def literal(text: str) -> Any:
    """Return the value of a literal; see :func:`ast.literal_eval`."""
    return ast.literal_eval(parse(text.lstrip(" \t"), "eval"))
