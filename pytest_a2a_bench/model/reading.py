"""Between dataclasses and plain JSON values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


def known_fields(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that a dataclass has fields for, so that newer files can be read."""
    names = {f.name for f in dataclasses.fields(cls)}
    return {k: v for k, v in data.items() if k in names}


def to_plain(value: Any) -> Any:
    """Return dict, list, str, int, float, bool and None for anything made of dataclasses."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(v) for v in value]
    return value
