"""Strict and safe reading of JSON that an agent sent (pure)."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from pytest_a2a_bench.errors import ProtocolError

_EXCERPT = 200


def parse_json(body: bytes | str) -> Any:
    """Parse JSON; no NaN, no invalid UTF-8, no nesting that exhausts the stack, no half surrogates.

    :raises ProtocolError: that says what is wrong; nothing else is ever raised.
    """
    try:
        text = body.decode("utf-8-sig") if isinstance(body, bytes) else body
        value = json.loads(text, parse_constant=_refuse_constant)
        return _mend(value) if "\\ud" in text.lower() else value
    except UnicodeDecodeError as error:
        raise ProtocolError(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError as error:
        raise ProtocolError("nested too deeply") from error
    except ValueError as error:
        raise ProtocolError(f"malformed JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _mend(value: Any) -> Any:
    """Replace escaped half surrogates, which no file and no terminal can hold, by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mend(v) for v in value]
    if isinstance(value, dict):
        return {_mend(k): _mend(v) for k, v in value.items()}
    return value


def excerpt(body: bytes | str, limit: int = _EXCERPT) -> str:
    """Return how a body begins, as a quoted, printable, bounded text."""
    text = body[: limit * 4].decode("utf-8", "replace") if isinstance(body, bytes) else body
    return repr(text[:limit]) + ("..." if len(text) > limit else "")
