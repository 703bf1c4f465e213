"""Which part of a run this machine does: disjoint, complete, the same wherever it is computed. Pure."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model.fields import Seconds
from pytest_a2a_bench.results.stored import StoredForm


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several parts.

    :param index: counted from 1.
    """

    index: int
    total: int

    def __str__(self) -> str:
        return f"{self.index}/{self.total}"


@dataclass(frozen=True, slots=True)
class CiVariables:
    """Where a CI system says which of several equal jobs this is.

    :param base: what it counts from.
    """

    system: str
    index: str
    total: str
    base: int


# Counted from 0 or from 1, as each system does.
CI_SYSTEMS = (
    CiVariables("GitLab CI", "CI_NODE_INDEX", "CI_NODE_TOTAL", 1),
    CiVariables("CircleCI", "CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL", 0),
    CiVariables("Buildkite", "BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT", 0),
    CiVariables("Semaphore", "SEMAPHORE_JOB_INDEX", "SEMAPHORE_JOB_COUNT", 1),
    CiVariables("Azure Pipelines", "SYSTEM_JOBPOSITIONINPHASE", "SYSTEM_TOTALJOBSINPHASE", 1),
)


def read(text: str, environ: Mapping[str, str]) -> Shard:
    """Read ``I/N`` (counted from 1) or ``auto``.

    :raises ValueError: naming what would be valid.
    """
    if text.strip() == "auto":
        return from_ci(environ)
    index, slash, total = text.partition("/")
    if not slash or not index.strip().isdecimal() or not total.strip().isdecimal():
        raise ValueError(f"{text!r} is neither I/N, such as 2/5, nor auto")
    return _checked(int(index), int(total), repr(text))


def from_ci(environ: Mapping[str, str]) -> Shard:
    """Return the part that the CI system gives this job.

    :raises ValueError: if no known system says so, or its variables make no sense.
    """
    for system in CI_SYSTEMS:
        index, total = environ.get(system.index), environ.get(system.total)
        if index is None or total is None:
            # Both or none: with one of them alone the job is not parallel.
            continue
        found = f"{system.system}'s {system.index}={index}, {system.total}={total}"
        if not index.isdecimal() or not total.isdecimal():
            raise ValueError(f"auto: {found} are not whole numbers")
        return _checked(int(index) + 1 - system.base, int(total), f"auto: {found}")
    names = ", ".join(f"{s.index} of {s.system}" for s in CI_SYSTEMS)
    raise ValueError(f"auto finds no CI system's numbers ({names}); pass I/N, such as 2/5")


def _checked(index: int, total: int, found: str) -> Shard:
    if not 1 <= index <= total:
        raise ValueError(f"{found} is not a part: I counts from 1 to N, and N is at least 1")
    return Shard(index, total)


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
