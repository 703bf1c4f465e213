"""Why a scenario missed: the test's assertion that failed, or the criterion that the judge saw broken (pure)."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.diagnosis import Cause, Diagnoser, Diagnosis
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.redact import one_line

CAUSES = {
    "assertion": Cause("did not do what the test asserts: {subject}", "read the conversation (a2a-bench show)"),
    "criterion": Cause("broke a criterion: {subject}", "read the conversation (a2a-bench show)"),
}


def diagnose(result: TrialResult) -> Diagnosis | None:
    """Return the first check that was not met; None where there is none."""
    for check in result.reward_info.checks if result.reward_info else ():
        if not check.met:
            return Diagnosis(check.kind, one_line(check.description, 120), check.detail or check.description)
    return None


DIAGNOSER = Diagnoser(diagnose, CAUSES)
