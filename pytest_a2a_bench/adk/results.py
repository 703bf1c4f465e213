"""The results of a finished evaluation as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.adk.runs import Look
from pytest_a2a_bench.assessor.protocol import NAME as PROTOCOL_REPORT
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.results.manifest import load_selected

_OMITTED = ("assessment", "results", "task_rewards", "usage", "time_used", "domain")
"""Members of the assessor's result that are given below, or say nothing about the agent."""


def read_results(look: Look) -> dict[str, Any]:
    """Return the numbers, ``counts``, and a list of ``trials``: of a protocol, of the checks that did not pass.

    :raises ConfigurationError: if the evaluation has no result, with advice.
    :raises StoreError: if a file cannot be read.
    """
    record = look.record
    if not look.is_over:
        raise ConfigurationError(
            f"the evaluation {record.name} is {record.state}; ask get_evaluation_status until it is completed"
        )
    if record.state != "completed":
        how = "failed" if record.state == "failed" else "was canceled"
        raise ConfigurationError(f"the evaluation {record.name} has no results, it {how}: {record.summary}")
    numbers = {name: value for name, value in record.result.items() if name not in _OMITTED}
    if record.request.get("evaluation") == "conformance":
        return {**numbers, **_checks(look, numbers)}
    results = load_selected(look.directory).results
    passed = sum(one.success for one in results)
    errors = sum(one.status != "evaluated" for one in results)
    counts = {
        "trials": len(results),
        "tasks": len({one.key.task_id for one in results}),
        "passed": passed,
        "not_passed": len(results) - passed,
        "errors": errors,
        "failed": len(results) - passed - errors,
    }
    return {**numbers, "counts": counts, "trials": [_trial(one) for one in results]}


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


def _checks(look: Look, numbers: Mapping[str, Any]) -> dict[str, Any]:
    path = look.directory / PROTOCOL_REPORT
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read ({error}); evaluate the agent again") from error
    rows = [row for row in report.get("results", []) if row.get("status") in ("failed", "warned", "error")]
    found = {name: value for name, value in (numbers.get("counts") or {}).items() if isinstance(value, int)}
    judged, passed = int(numbers.get("max_score") or 0), int(numbers.get("score") or 0)
    return {
        "counts": {"checks": judged, "passed": passed, "not_passed": judged - passed, **found},
        "trials": [{"task_id": str(row["id"]), "outcome": row["status"], "level": row.get("level")} for row in rows],
    }
