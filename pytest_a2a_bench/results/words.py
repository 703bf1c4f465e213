"""Numbers with their words. Pure."""

from __future__ import annotations


def count(n: int, word: str, plural: str = "") -> str:
    """Return a number with its word: ``1 trial``, ``1,000 trials``."""
    return f"{n:,} {word if n == 1 else plural or word + 's'}"
