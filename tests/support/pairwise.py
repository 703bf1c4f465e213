"""Configurations that contain every pair of values of every two factors, few of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

Pair = tuple[tuple[str, str], tuple[str, str]]


def pairs_of(configuration: Mapping[str, str]) -> set[Pair]:
    """Return the pairs that one configuration contains."""
    return set(itertools.combinations(sorted(configuration.items()), 2))


def all_pairs(factors: Mapping[str, Sequence[str]]) -> set[Pair]:
    """Return every pair that must be covered."""
    found: set[Pair] = set()
    for values in itertools.product(*factors.values()):
        found |= pairs_of(dict(zip(factors, values, strict=True)))
    return found


def covering(factors: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Return configurations that cover all pairs: greedily, always the one that adds the most."""
    missing = all_pairs(factors)
    candidates = [dict(zip(factors, values, strict=True)) for values in itertools.product(*factors.values())]
    chosen: list[dict[str, str]] = []
    while missing:
        best = max(candidates, key=lambda c: len(pairs_of(c) & missing))
        chosen.append(best)
        missing -= pairs_of(best)
    return chosen
