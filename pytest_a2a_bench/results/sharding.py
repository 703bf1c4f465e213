"""Divide trials among the parts of a run: disjoint, complete, and the same on every machine. Pure."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping, Sequence

from pytest_a2a_bench.config.shards import Shard
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model.keys import Seconds
from pytest_a2a_bench.results.store import StoredForm


def members(names: Sequence[str], seconds: Mapping[str, float], shard: Shard) -> set[str]:
    """Return the names that belong to a part.

    The longest goes first to the part that has the least to do. A name whose duration is not known counts as the
    median of those that are. The order of ``names`` makes no difference.

    :param seconds: how long each took before.
    """
    known = [seconds[name] for name in names if name in seconds]
    # Something that does not move: without any durations all names are equal.
    usual = statistics.median(known) if known else 1.0
    load = [0.0] * shard.total
    mine: set[str] = set()
    # Among equals a hash decides: neighbours in a list are often alike, and one part should not get all of them.
    for name in sorted(set(names), key=lambda n: (-seconds.get(n, usual), hashlib.sha256(n.encode()).hexdigest())):
        # By number among equal loads, so that every machine comes to the same parts.
        part = min(range(shard.total), key=lambda i: (load[i], i))
        load[part] += seconds.get(name, usual)
        if part == shard.index - 1:
            mine.add(name)
    return mine


DURATIONS: StoredForm[dict[str, float]] = StoredForm(
    dict[str, Seconds],
    ": cannot be read as JSON durations",
    "expected an object of trial keys and seconds, or name a results directory",
    ConfigurationError,
    version=0,
)
"""A file that says how many seconds each trial took, by its key."""
