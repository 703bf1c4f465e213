"""ACTS tests among the other checks: registered under their ids, planned for each binding, with what they send."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_a2a_bench.conformance.acts.document import Step
from pytest_a2a_bench.conformance.acts.loader import Case, load_behaviors, load_cases
from pytest_a2a_bench.conformance.acts.making import TRANSPORTS, make
from pytest_a2a_bench.conformance.acts.risk import is_rough, is_safe
from pytest_a2a_bench.conformance.catalogue import ADDED, UNDECLARED, Added, load_requirements
from pytest_a2a_bench.conformance.finding import ACTS, BINDINGS, Level, Planned, Requirement
from pytest_a2a_bench.conformance.session.target import declared
from pytest_a2a_bench.errors import ConfigurationError

VERSION = "1.0"
_LEVELS: Mapping[str, Level] = {"must": "MUST", "should": "SHOULD", "may": "MAY"}
LONGEST_WAIT = 3600.0
"""Seconds that the waiting of one test may add to the time of a check."""
_SLOW = ("tck-long-running", "tck-cancel")


@dataclass(frozen=True, slots=True)
class ActsSuite:
    """The tests of ACTS files, which can be planned and made as all other checks.

    :param requirements: one for each test, in the order of the files.
    """

    requirements: tuple[Requirement, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all tests."""
        return tuple(entry.id for entry in self.requirements)

    def plan(self, card: Mapping[str, Any], endpoint: str = "") -> list[Planned]:
        """Return each test by binding; one entry for a test of none of the card's bindings, which is skipped."""
        here = [b for b in BINDINGS if (b, VERSION) in declared(card, endpoint)]
        found = []
        for entry in self.requirements:
            bindings = [b for b in here if b in entry.bindings] or entry.bindings[:1]
            found += [Planned(entry, binding) for binding in bindings]
        return found


def load_acts(path: str | Path, behaviors: str | Path | None = None) -> ActsSuite:
    """Read ACTS files, and register their tests in the place of those that were read before.

    :param path: a file, or a directory with ``suite.acts.yaml`` or ``*.acts.yaml``.
    :param behaviors: the file that says which prefixes the agent knows.
    :raises ConfigurationError: naming all that is wrong with them.
    """
    known = load_behaviors(Path(behaviors)) if behaviors is not None else frozenset[str]()
    cases = load_cases(Path(path))
    # The engine has a name of its own among them: what stands for an interface that no card declares.
    taken = {UNDECLARED, *(entry.id for entry in load_requirements(VERSION))}
    if both := [f"{case.where}: {case.test.id!r}" for case in cases if case.test.id in taken]:
        raise ConfigurationError(f"{'; '.join(both)}: the id is one of this package's own; give another one")
    # Reading other files in one process must leave nothing of these.
    ADDED.clear()
    ADDED.update({(case.test.id, VERSION): _added(case, known) for case in cases})
    return ActsSuite(tuple(map(_requirement, cases)))


def _requirement(case: Case) -> Requirement:
    test = case.test
    bindings = [TRANSPORTS[name] for name in test.transport]
    return Requirement(
        id=test.id,
        group=ACTS,
        spec=f"ACTS {test.spec_ref or test.id}",
        level=_LEVELS[test.level],
        text=test.name,
        version=VERSION,
        how=case.suite,
        # Words that the plan and the engine look for: such a test waits, and leaves a task that works.
        needs="scenario slow" if _slow(case) else "",
        bindings=tuple(b for b in BINDINGS if b in bindings or not bindings),
        note=case.where,
        profile="safe" if is_safe(test) and not _slow(case) else "standard",
    )


def _slow(case: Case) -> set[str]:
    return set(_SLOW) & set(case.test.requires_behaviors)


def _added(case: Case, behaviors: frozenset[str]) -> Added:
    test = case.test
    check = functools.partial(make, case, behaviors)
    # What watches a task while it works, or reads a stream to its end, may come too late on a busy machine.
    timed = any(map(_is_timed, test.steps))
    seconds = min(sum(map(_waits, test.steps)), LONGEST_WAIT)
    return Added(check, is_rough(test), timed or bool(_slow(case)), seconds)


def _is_timed(step: Step) -> bool:
    watched = (step.repeat, step.expect_stream, step.expect_webhook)
    return step.delay_ms > 0 or any(one is not None for one in watched)


def _waits(step: Step) -> float:
    """Return how many seconds a step may want to wait, whatever the agent does."""
    stream = step.expect_stream.timeout_ms if step.expect_stream is not None else None
    webhook = step.expect_webhook.timeout_ms if step.expect_webhook is not None else None
    repeated = step.repeat.seconds if step.repeat is not None else 0.0
    return sum(max(ms or 0, 0) / 1000 for ms in (step.delay_ms, stream, webhook)) + repeated
