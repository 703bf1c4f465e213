"""Read ``--a2a-shard``: which of several parts of a run this machine runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
    """The variables in which a CI system numbers its parallel jobs.

    :param base: the number of the first job.
    """

    system: str
    index: str
    total: str
    base: int


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
    """Return the part of this CI job.

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
