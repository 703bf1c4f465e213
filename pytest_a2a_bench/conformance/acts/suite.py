"""ACTS tests among the other checks: a requirement each, planned for each binding, with its profile."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_a2a_bench.conformance.acts.document import AskingStep, OperationStep, RawStep, Step
from pytest_a2a_bench.conformance.acts.loader import Case, load_behaviors, load_cases
from pytest_a2a_bench.conformance.acts.steps import run_case
from pytest_a2a_bench.conformance.catalogue import UNDECLARED, load_requirements
from pytest_a2a_bench.conformance.finding import ACTS, BINDING_OF, BINDINGS, Level, Planned, Requirement
from pytest_a2a_bench.conformance.target import declared
from pytest_a2a_bench.errors import ConfigurationError

VERSION = "1.0"
LONGEST_WAIT = 3600.0
"""Most seconds that the waiting of one test may add to the time limit of a check."""
_LEVELS: Mapping[str, Level] = {"must": "MUST", "should": "SHOULD", "may": "MAY"}
_SLOW = ("tck-long-running", "tck-cancel")
_PUSH = "pushnotificationconfig"


@dataclass(frozen=True, slots=True)
class ActsSuite:
    """The tests of ACTS files, which are planned and made like all other checks.

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
    """Read ACTS files.

    :param path: a file, or a directory with ``suite.acts.yaml`` or ``*.acts.yaml``.
    :param behaviors: the file that lists the prefixes that the agent knows.
    :raises ConfigurationError: naming all that is wrong with them.
    """
    known = load_behaviors(Path(behaviors)) if behaviors is not None else frozenset[str]()
    cases = load_cases(Path(path))
    # The engine's own id stands for an interface that no card declares.
    taken = {UNDECLARED, *(entry.id for entry in load_requirements(VERSION))}
    if both := [f"{case.where}: {case.test.id!r}" for case in cases if case.test.id in taken]:
        raise ConfigurationError(f"{'; '.join(both)}: the id is one of this package's own; give another one")
    return ActsSuite(tuple(_requirement(case, known) for case in cases))


def _requirement(case: Case, behaviors: frozenset[str]) -> Requirement:
    test = case.test
    bindings = [BINDING_OF[name] for name in test.transport]
    is_slow, is_rough = bool(set(_SLOW) & set(test.requires_behaviors)), not all(map(_is_answered, test.steps))
    return Requirement(
        id=test.id,
        group=ACTS,
        spec=f"ACTS {test.spec_ref or test.id}",
        level=_LEVELS[test.level],
        text=test.name,
        version=VERSION,
        how=case.suite,
        # The plan and the engine read these words: such a test waits, and leaves a working task behind.
        needs="scenario slow" if is_slow else "",
        bindings=tuple(b for b in BINDINGS if b in bindings or not bindings),
        note=case.where,
        profile="standard" if is_slow or is_rough or any(map(_names_webhook, test.steps)) else "safe",
        check=functools.partial(run_case, case, behaviors),
        # A busy machine may be too late to watch a working task, or to read a stream to its end.
        timed=is_slow or any(map(_is_timed, test.steps)),
        rough=is_rough,
        seconds=min(sum(map(_waits, test.steps)), LONGEST_WAIT),
    )


def _is_timed(step: Step) -> bool:
    streams = isinstance(step, AskingStep) and (step.repeat or step.expect_stream) is not None
    return streams or step.delay_ms > 0


def _waits(step: Step) -> float:
    """Return how many seconds a step may wait, whatever the agent does."""
    milliseconds, repeated = [step.delay_ms], 0.0
    if isinstance(step, AskingStep):
        milliseconds.append((step.expect_stream.timeout_ms or 0) if step.expect_stream is not None else 0)
        repeated = step.repeat.seconds if step.repeat is not None else 0.0
    return sum(max(ms, 0) for ms in milliseconds) / 1000 + repeated


# --- what a test may do to an agent -----------------------------------------------------------------------------------


def _is_answered(step: Step) -> bool:
    """Return whether a step sends nothing malformed: it is not written by hand, and not to be refused."""
    if not isinstance(step, OperationStep):
        return not isinstance(step, RawStep)
    return step.expect_error is None and (step.expect is None or step.expect.status in (None, 200))


def _names_webhook(step: Step) -> bool:
    # A message may bring one along in its configuration.
    return isinstance(step, OperationStep) and (_PUSH in step.a2a_operation.lower() or _has_push(step.params))


def _has_push(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_PUSH in str(k).replace("_", "").lower() or _has_push(inner) for k, inner in value.items())
    return isinstance(value, list) and any(map(_has_push, value))
