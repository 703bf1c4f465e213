"""The numbers of a finished evaluation, for ``results.json`` and the agent's model (pure)."""

from __future__ import annotations

from typing import Any

from pytest_a2a_bench.assessor.assessment import Concluded
from pytest_a2a_bench.assessor.result import data
from pytest_a2a_bench.model import TrialResult

_OMITTED = ("assessment", "results", "task_rewards", "usage", "time_used", "domain")
"""Members of the assessor's result that are given in another form, or say nothing about the agent."""


def results_of(found: Concluded) -> dict[str, Any]:
    """Return the numbers, ``counts``, and a list of ``trials``: of a protocol, of the checks that did not pass."""
    numbers = {name: value for name, value in data(found).items() if name not in _OMITTED}
    if found.report is not None:
        judged, passed = numbers["max_score"], numbers["score"]
        rows = [row for row in found.report.rows if row.status in ("failed", "warned", "error")]
        kinds = {name: value for name, value in numbers["counts"].items() if isinstance(value, int)}
        counts = {"checks": judged, "passed": passed, "not_passed": judged - passed, **kinds}
        trials = [{"task_id": row.id, "outcome": row.status, "level": row.level} for row in rows]
        return {**numbers, "counts": counts, "trials": trials}
    passed = sum(one.success for one in found.results)
    errors = sum(one.status != "evaluated" for one in found.results)
    counts = {
        "trials": len(found.results),
        "tasks": len({one.key.task_id for one in found.results}),
        "passed": passed,
        "not_passed": len(found.results) - passed,
        "errors": errors,
        "failed": len(found.results) - passed - errors,
    }
    return {**numbers, "counts": counts, "trials": [_trial(one) for one in found.results]}


def _trial(one: TrialResult) -> dict[str, Any]:
    is_evaluated = one.status == "evaluated"
    return {
        "task_id": one.key.task_id,
        "trial": one.key.trial,
        "passed": one.success,
        "reward": one.reward if is_evaluated else None,
        "ended": one.termination_reason or one.status if is_evaluated else one.error_type or one.status,
        **({"category": one.category} if one.category else {}),
    }
