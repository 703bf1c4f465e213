"""What the files of an evaluation say, in one object for a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.adk.runs import Look
from pytest_a2a_bench.assessor.protocol import NAME as PROTOCOL
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.results.manifest import load_selected

_LEFT_OUT = ("assessment", "results", "task_rewards", "usage", "time_used")
"""Of the result: what is told below, or says nothing of the agent."""


@dataclass(frozen=True)
class Facts:
    """What is known of an evaluation that is over.

    :param told: the numbers as a JSON object.
    :param trials: what came of each trial or, of the protocol, of each check that was not kept.
    """

    look: Look
    told: Mapping[str, Any]
    trials: tuple[Mapping[str, Any], ...]
    counts: Mapping[str, int]

    def text(self) -> str:
        """Return all of it as JSON."""
        return json.dumps({**self.told, "counts": self.counts, "trials": self.trials}, ensure_ascii=False, default=str)


def read_facts(look: Look) -> Facts:
    """Read the files of an evaluation.

    :raises ConfigurationError: if it has no result, with what to do.
    :raises StoreError: if a file cannot be read.
    """
    record = look.record
    if not look.is_over:
        raise ConfigurationError(
            f"the evaluation {record.name} is {record.state}; ask get_evaluation_status until it is completed"
        )
    if record.state != "completed":
        raise ConfigurationError(f"the evaluation {record.name} has no results, it {_ended(look)}")
    told = {name: value for name, value in record.result.items() if name not in _LEFT_OUT}
    if record.request.get("evaluation") == "conformance":
        return _of_protocol(look, told)
    results = load_selected(look.directory).results
    trials = tuple(_trial(one, alone=record.request.get("num_trials", 1) == 1) for one in results)
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
    return Facts(look, told, trials, counts)


def _ended(look: Look) -> str:
    how = {"failed": "failed", "canceled": "was canceled"}[look.record.state]
    return f"{how}: {look.record.summary}"


def _trial(one: TrialResult, *, alone: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"task_id": one.key.task_id, "passed": one.success, "reward": one.reward}
    if not alone:
        told["trial"] = one.key.trial
    if one.category:
        told["category"] = one.category
    told["ended"] = one.termination_reason or one.status
    if one.status != "evaluated":
        told |= {"reward": None, "ended": one.error_type or one.status}
    return told


def _of_protocol(look: Look, told: Mapping[str, Any]) -> Facts:
    path = look.directory / PROTOCOL
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read ({error}); evaluate the agent again") from error
    rows = [row for row in report.get("results", []) if row.get("status") in ("failed", "warned", "error")]
    broken = tuple({"task_id": str(row["id"]), "outcome": row["status"], "level": row.get("level")} for row in rows)
    numbers = {name: value for name, value in (told.get("counts") or {}).items() if isinstance(value, int)}
    made, kept = int(told.get("max_score") or 0), int(told.get("score") or 0)
    return Facts(look, told, broken, {"checks": made, "passed": kept, "not_passed": made - kept, **numbers})
