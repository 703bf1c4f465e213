"""Repeat checks that depend on time: one that fails on time is judged again, with nothing else in flight.

It fails only if it fails again; otherwise it is ``inconclusive``, with the evidence of both times. Two kinds depend on
time: checks that are declared so (``timed`` in the catalogue), and what was judged by an answer that came too late.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pytest_a2a_bench.conformance.finding import FOUND, CheckResult, Exchange, Finding
from pytest_a2a_bench.conformance.wire.exchange import is_late

TOO_LONG = "the check did not end within"
"""The beginning of a finding about a check that took longer than it may."""
SHOWN = 3
"""Exchanges of the second time that are kept as evidence."""


def late_methods(result: CheckResult) -> frozenset[tuple[str, str]]:
    """Return (binding, method) of the requests whose answers a result is about and came too late, or never."""
    return frozenset((e.binding, e.method) for f in result.findings for e in f.exchanges if is_late(e))


def wants_repeating(result: CheckResult) -> bool:
    """Return whether a result has to recur before it counts."""
    if result.outcome not in FOUND or not result.findings:
        return False
    ran_out = any(f.found.startswith(TOO_LONG) for f in result.findings)
    return result.requirement.timed or ran_out or bool(late_methods(result))


def is_known(result: CheckResult, silent: frozenset[tuple[str, str]]) -> bool:
    """Return whether the repetition of another check has shown already that this one would recur.

    :param silent: requests that were not answered in time when they were asked alone.
    """
    methods = late_methods(result)
    return bool(methods) and methods <= silent


def conclude(first: CheckResult, second: CheckResult, asked: Sequence[Exchange]) -> CheckResult:
    """Return the verdict of a check that was made twice.

    :param asked: the exchanges of the second time.
    """
    if second.outcome in FOUND:
        # What was found alone is the better evidence: nothing else was in flight that could have caused it.
        return dataclasses.replace(second, seconds=first.seconds + second.seconds)
    again = "passed" if second.outcome == "passed" else f"{second.outcome} ({second.reason})"
    reason = f"found once, and not again when it was repeated alone, which {again}: {first.findings[0].found}"
    softened = [dataclasses.replace(f, severity="note", found=f"the first time: {f.found}") for f in first.findings]
    calm = Finding(
        rule=first.requirement.id,
        severity="note",
        found=f"repeated alone, with nothing else in flight: {again}",
        expected=first.findings[0].expected,
        spec=first.requirement.spec,
        fix="judge the agent on a machine that is less busy, or raise the limit of time; if it comes again there, the "
        "agent does it now and then",
        exchanges=tuple(asked[-SHOWN:]),
    )
    seconds = first.seconds + second.seconds
    return CheckResult(first.requirement, first.binding, "inconclusive", (*softened, calm), reason, seconds)
