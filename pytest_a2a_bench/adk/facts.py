"""What the files of an evaluation say: in one object for a model, and in words where there is none."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pytest_a2a_bench.adk.figures import Figures
from pytest_a2a_bench.adk.runs import Look
from pytest_a2a_bench.assessor.protocol import NAME as PROTOCOL
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.results.manifest import load_selected

_MOST_NAMED = 20
_LEFT_OUT = ("assessment", "results", "task_rewards", "usage", "time_used")
"""Of the result: what would let any number pass, or is told below."""


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

    @property
    def domain(self) -> str:
        """What was evaluated."""
        return str(self.told.get("domain", ""))

    @property
    def names(self) -> list[str]:
        """Ids of tasks, or of checks."""
        return [str(one["task_id"]) for one in self.trials]

    @cached_property
    def figures(self) -> Figures:
        """The numbers that may be said of it."""
        reasons = Counter(str(one.get("ended") or one.get("outcome")) for one in self.trials)
        interval = (self.told.get("intervals") or {}).get("pass_rate") or {}
        rates = [self.told.get("pass_rate"), interval.get("low"), interval.get("high"), 95]
        # A version's number is none, and may be said with its name.
        provenance = [str(value) for value in (self.told.get("provenance") or {}).values()]
        return Figures.of(
            {name: value for name, value in self.told.items() if name not in ("provenance", "notes")},
            {**self.counts, **reasons},
            [*self.names, *(value for value in provenance if len(value) > 2)],
            [one for one in rates if isinstance(one, int | float)],
        )

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


# --- without a model --------------------------------------------------------------------------------------------------


def summarise(facts: Facts) -> str:
    """Return what it came to, in a few sentences of our own."""
    return " ".join(f"{line}." for line in facts.look.record.summary.split("\n")[:2] if line)


def findings(facts: Facts) -> Iterator[str]:
    """Yield what stands out."""
    bad = [one for one in facts.trials if not one.get("passed")]
    what = "Checks" if "checks" in facts.counts else "Tasks"
    for how, number in Counter(str(one.get("ended") or one.get("outcome")) for one in bad).most_common():
        named = [str(one["task_id"]) for one in bad if (one.get("ended") or one.get("outcome")) == how]
        named = list(dict.fromkeys(named))
        more = " and others" if len(named) > _MOST_NAMED else ""
        yield f"{number} ended as {how}: {what.lower()} {', '.join(named[:_MOST_NAMED])}{more}"
    if not bad:
        yield f"Nothing was missed: all {facts.counts.get('trials') or facts.counts.get('checks', 0)} were passed"
    yield from (str(note) for note in facts.told.get("notes") or ())


def recommendations(facts: Facts) -> Iterator[str]:
    """Yield what to do next."""
    if facts.counts.get("errors"):
        yield "Look at what could not be evaluated first: it says nothing about the agent, and counts as not passed"
    if "checks" in facts.counts:
        yield f"Each check that was not kept has its exchange in {PROTOCOL} of the results"
    elif facts.counts.get("failed"):
        yield "Read the transcripts of the failed trials: a2a-bench report DIR makes one page of the results"
    if not facts.counts.get("not_passed"):
        yield "Take more tasks, or more trials of each: that an agent passed these says little about others"
    provenance = facts.told.get("provenance")
    if isinstance(provenance, Mapping) and provenance.get("user") == "scripted":
        yield "The user was scripted; set a model of the user before comparing with published numbers"
