"""JSON with line breaks, as ``json.dumps`` writes it: that does it in Python, one generator within the other.

Writing its file and the tools into its first message were a quarter of what a telecom trial cost.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any


def dump_indented(value: object, indent: int) -> str:
    """Return ``json.dumps(value, indent=indent, ensure_ascii=False)``.

    :raises TypeError: for what JSON does not have.
    :raises ValueError: for what contains itself.
    """
    pieces: list[str] = []
    try:
        _write(value, "\n", " " * indent, pieces.append)
    except (_OtherError, RecursionError):
        return json.dumps(value, indent=indent, ensure_ascii=False)
    return "".join(pieces)


class _OtherError(Exception):
    """A value of a kind that is not written here."""


_CONSTANTS = {True: "true", False: "false", None: "null"}


def _write(value: Any, line: str, step: str, add: Callable[[str], None]) -> None:
    kind = type(value)
    if kind is str:
        add(encode_basestring(value))
    elif kind is dict:
        if not value:
            add("{}")
            return
        inner = line + step
        before = "{" + inner
        for name, member in value.items():
            if type(name) is not str:
                raise _OtherError
            add(before)
            add(encode_basestring(name))
            before = "," + inner
            # Most members are texts.
            if type(member) is str:
                add(": " + encode_basestring(member))
            else:
                add(": ")
                _write(member, inner, step, add)
        add(line + "}")
    elif kind is list or kind is tuple:
        if not value:
            add("[]")
            return
        inner = line + step
        before = "[" + inner
        for member in value:
            add(before)
            before = "," + inner
            _write(member, inner, step, add)
        add(line + "]")
    elif kind is bool or value is None:
        add(_CONSTANTS[value])
    elif kind is int:
        add(int.__repr__(value))
    elif kind is float and value - value == 0:
        add(float.__repr__(value))
    else:
        raise _OtherError
