"""What the fields of stored dataclasses may hold, and their values as plain JSON.

The limits are for whoever validates a file that somebody may have edited: pydantic asks each of them for its part of a
schema, and nothing of pydantic is needed for that, so that the vocabulary stays free of it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True, slots=True)
class Limits:
    """Keywords of a schema that a type alone does not say."""

    keywords: tuple[tuple[str, object], ...]

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> dict[str, object]:
        """Return the schema of the type with its limits."""
        return {**handler(source), **dict(self.keywords)}


Finite = Annotated[float, Limits((("allow_inf_nan", False),))]
"""Any number; JSON as Python writes it knows NaN and Infinity too, and no sum survives them."""

Seconds = Annotated[float, Limits((("allow_inf_nan", False), ("ge", 0)))]
"""A duration, or anything else that is measured and not negative."""

# Larger numbers are no counts, and do not fit into a float that they are averaged with.
Count = Annotated[int, Limits((("ge", 0), ("lt", 2**63)))]
"""A number of things."""


_LEAVES = frozenset({str, int, float, bool, type(None)})


@functools.cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind))


def to_plain(value: Any) -> Any:
    """Return dict, list, str, int, float, bool and None for anything made of dataclasses."""
    kind: Any = type(value)
    if kind in _LEAVES:
        return value
    if kind is dict:
        return {k if type(k) is str else str(k): to_plain(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(getattr(value, name)) for name in _names(kind)}
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(v) for v in value]
    return value
