"""Where two JSON values differ. Pure."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

ABSENT: Final = object()
"""In place of a member that is only on the other side."""


def differences(left: Any, right: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the place of each difference, and what is there on either side."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys(), key=str):
            yield from differences(left.get(key, ABSENT), right.get(key, ABSENT), f"{path}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for position, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differences(one, other, f"{path}[{position}]")
    # 1 and True, 5 and 5.0 hash differently.
    elif left != right or type(left) is not type(right):
        yield path, left, right


def short(value: Any, limit: int = 160) -> str:
    """Return a value as JSON, cut where it is long."""
    text = "nothing" if value is ABSENT else json.dumps(value, default=str, sort_keys=True)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def both(left: Any, right: Any, room: int = 160) -> tuple[str, str]:
    """Return two different values as JSON, each cut to where they begin to differ."""
    one, other = short(left, sys.maxsize), short(right, sys.maxsize)
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(0, same - room // 4)
    return _window(one, begin, room), _window(other, begin, room)


def _window(text: str, begin: int, room: int) -> str:
    cut = text[begin : begin + room]
    return ("..." if begin else "") + cut + ("..." if begin + room < len(text) else "")
