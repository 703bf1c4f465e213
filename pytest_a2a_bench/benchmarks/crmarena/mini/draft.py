"""A task before it has an id."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Draft:
    """Question, what must be known to understand it, and the gold."""

    query: str
    required: str
    answers: tuple[str, ...]
