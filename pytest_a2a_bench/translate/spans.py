"""Stretches of a text by their positions: lookups in sorted, disjoint ones, and texts without some of them. Pure."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar


class Placed(Protocol):
    """Whatever has a place in a text."""

    @property
    def start(self) -> int:
        """Where it begins."""
        ...

    @property
    def end(self) -> int:
        """Where it is over."""
        ...


T = TypeVar("T", bound=Placed)


class Span(NamedTuple):
    """A stretch of a text."""

    start: int
    end: int


def around(position: int, spans: Sequence[T]) -> T | None:
    """Return the one of some sorted, disjoint stretches that a position is in."""
    index = bisect.bisect_right(spans, position, key=lambda s: s.start) - 1
    return spans[index] if index >= 0 and position < spans[index].end else None


def starting_at(position: int, spans: Sequence[T]) -> T | None:
    """Return the one of some sorted, disjoint stretches that starts at a position."""
    found = around(position, spans)
    return found if found is not None and found.start == position else None


def leave(position: int, spans: Sequence[Placed]) -> int:
    """Return the end of the stretch that a position is in, or the position itself if it is in none."""
    found = around(position, spans)
    return position if found is None else found.end


def outermost(spans: Sequence[tuple[int, int]]) -> list[Span]:
    """Return stretches, sorted, without those that lie inside others."""
    kept: list[Span] = []
    for start, end in sorted(set(spans), key=lambda s: (s[0], -s[1])):
        if not kept or end > kept[-1].end:
            kept.append(Span(start, end))
    return kept


def without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return what is left of a text, a line for each piece."""
    pieces: list[str] = []
    position = 0
    for start, end in sorted(spans):
        pieces.append(text[position : max(position, start)].strip())
        position = max(position, end)
    pieces.append(text[position:].strip())
    return "\n".join(p for p in pieces if p.strip(" \t\n,"))
