"""JSON and server-sent events as hardly anybody writes them, and as everybody has to read them."""

import json
from typing import Any

_FREE = ("metadata", "schemes", "scopes", "params", "securitySchemes")
"""Members whose content has names of the agent's own, among which none can be unknown."""


def text(value: Any) -> str:
    """Write JSON with escapes, white space, fractions of zero, another order and members that nobody knows."""
    return _json(_with_unknown(value, ""))


def event(value: Any) -> str:
    """Write an event with a comment, fields that nobody reads, and its data in several lines."""
    lines = "\r\n".join(f"data:{line}" for line in text(value).split("\n"))
    return f": a comment\r\nid: 7\r\nevent: message\r\nretry: 3000\r\nx-unknown: x\r\n{lines}\r\n\r\n"


def _with_unknown(value: Any, owner: str) -> Any:
    if isinstance(value, list):
        return [_with_unknown(item, owner) for item in value]
    if not isinstance(value, dict) or owner in _FREE or (owner == "data" and "@type" not in value):
        return value
    kept = {name: _with_unknown(item, name) for name, item in value.items()}
    return {"x_note": {"deep_in": [None]}, **kept, "zNothing": None}


def _json(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{_text(name)}  :\n{_name_free(name, item)}" for name, item in reversed(value.items()))
        return "{\n\t" + "\n , ".join(members) + "\n}"
    if isinstance(value, list):
        return "[ " + " ,\n".join(map(_json, value)) + "\n ]"
    if isinstance(value, str):
        return _text(value)
    # JSON has one kind of number.
    return f"{value}.0" if type(value) is int else json.dumps(value)


def _name_free(name: str, item: Any) -> str:
    # JSON-RPC wants these as they came, and codes without a fraction.
    return json.dumps(item) if name in ("id", "code") else _json(item)


def _text(value: str) -> str:
    # Every third character is escaped that need not be.
    return (
        '"'
        + "".join(
            f"\\u{ord(c):04X}" if i % 3 == 1 and ord(c) < 0x10000 else json.dumps(c)[1:-1] for i, c in enumerate(value)
        ).replace("/", "\\/")
        + '"'
    )
