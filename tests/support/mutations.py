"""Damaged inputs made from good ones, always the same ones for a seed and a number, so that each can be made again."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 1e308, 10**400, "", " ", "x" * 300, "\0", "\ud800", "\u202e", "é😀", "null", "NaN",
    "2026-02-30", "../../etc/passwd", "javascript:alert(1)", "http://[::1", "http://a:99999/", "//b", [], [[]], {},
    {"": {}},
    {"type": "object", "properties": None}, ["a", 1, None], {"tool_calls": [{"name": 1}]}, {"kind": "text", "text": 1},
)  # fmt: skip

_TOKENS = (
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b"'", b"\\u0000", b"\\ud800", b"\xff", b"\xef\xbb\xbf", b"\0"),
    *(b"\r", b"\n", b"\n\n", b"data:", b"event:", b"id:", b"retry:"),
    *(b"NaN", b"-Infinity", b"1e999", b"null", b"true", b"None", b"[" * 200, b'{"a":' * 200),
    *(
        b"```json",
        b"```",
        b"<json>",
        b"</json>",
        b"<tool_call>",
        b'{"name": "get", "arguments": {',
        b'{"action": "respond"',
    ),
)


def numbered(seed: str, number: int) -> random.Random:
    """Return the source of the choices for one input."""
    return random.Random(f"{seed}:{number}")


def damaged_bytes(good: Sequence[bytes], draw: random.Random) -> bytes:
    """Change a good input in up to six places, without regard to what it means."""
    data = bytearray(draw.choice(good))
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        at = draw.randint(0, len(data))
        end = min(len(data), at + draw.choice((1, 1, 2, 8, 64)))
        match draw.randrange(7):
            case 0:
                data[at:end] = b""
            case 1:
                data[at:at] = draw.choice(_TOKENS)
            case 2:
                data[at:end] = draw.choice(_TOKENS)
            case 3:
                data[at:end] = draw.randbytes(end - at)
            case 4:
                data[at:at] = data[at:end] * draw.choice((1, 2, 20))
            case 5:
                other = draw.choice(good)
                start = draw.randint(0, len(other))
                data[at:end] = other[start : start + draw.choice((4, 40, 400))]
            case _:
                del data[at:]
    return bytes(data)


def damaged_json(good: Sequence[Any], draw: random.Random) -> Any:
    """Change a good document in up to four members: another value, another name, twice, gone, or from elsewhere."""
    document = json.loads(json.dumps(draw.choice(good)))
    for _ in range(draw.choice((1, 1, 2, 4))):
        places = list(_places(document))
        if not places:
            break
        container, key = draw.choice(places)
        match draw.randrange(6):
            case 0:
                del container[key]
            case 1 if isinstance(container, dict):
                container[draw.choice((key.upper(), key + "s", "", key[:-1], "kind", "type"))] = container.pop(key)
            case 2:
                container[key] = [container[key], copy.deepcopy(container[key])]
            case 3:
                other, name = draw.choice(places)
                container[key] = json.loads(json.dumps(other[name] if _has(other, name) else None))
            case _:
                container[key] = copy.deepcopy(draw.choice(ODD_VALUES))
    return document


def _has(container: Any, key: Any) -> bool:
    return key in container if isinstance(container, dict) else key < len(container)


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    rest = [value]
    while rest:
        current = rest.pop()
        members = current.items() if isinstance(current, dict) else enumerate(current)
        for key, inner in members:
            found.append((current, key))
            if isinstance(inner, dict | list):
                rest.append(inner)
    return found


def shrunk(bad: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """Take pieces away from an input for as long as it still fails, so that a person can see why."""
    size = len(bad)
    while size > 1:
        size //= 2
        at = 0
        while at < len(bad):
            shorter = bad[:at] + bad[at + size :]
            if fails(shorter):
                bad = shorter
            else:
                at += size
    return bad
