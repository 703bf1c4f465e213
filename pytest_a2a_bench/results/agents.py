"""Agents of one run against each other, paired by task: which is better, by how much, and how sure that is. Pure.

The statistics are those of two runs (:mod:`.compare`), but for one thing: nobody knew before which of the two would be
the better one. So its p is twice the smaller of both directions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.results import inference
from pytest_a2a_bench.results.baseline import Baseline, TaskRecord
from pytest_a2a_bench.results.compare import Comparison, compare
from pytest_a2a_bench.results.stats import count


@dataclass(frozen=True, slots=True)
class AgentComparison:
    """One agent against another.

    :param reference: the name of the agent that it is compared with, which is ``before`` in the comparison.
    :param better: the name of the better one; None where that is not shown.
    :param p: how likely it is that two equal agents differ as much or more: exact, two-sided.
    :param errors: trials of either that could not be evaluated.
    :param hidden: whether these, at worst, would leave it open which is better.
    """

    reference: str
    agent: str
    comparison: Comparison
    better: str | None = None
    p: float = 1.0
    errors: int = 0
    hidden: bool = False

    @property
    def sentence(self) -> str:
        """Which is better, by how much, and how sure that is."""
        group = self.comparison.overall
        if group is None:
            return f"no task was evaluated with both {self.reference} and {self.agent}"
        first, second = (self.agent, self.reference) if group.drop <= 0 else (self.reference, self.agent)
        sign = -1 if group.drop <= 0 else 1
        low, high = sorted((sign * group.low, sign * group.high))
        shown = f"{first} is better" if self.better else f"it is not shown that {first} or {second} is better"
        rates = f"{self.reference} {group.before.rate:.3f}, {self.agent} {group.after.rate:.3f}"
        text = (
            f"{shown}: {rates} over {count(group.tasks, 'task')} ({group.better} better with {self.agent}, "
            f"{group.worse} worse); {first} is ahead by {sign * group.drop:.3f}, 95 % sure of at least {low:+.3f} "
            f"and of at most {high:+.3f}; p = {self.p:.3g}, two-sided"
        )
        if self.errors:
            tail = " and might turn this over" if self.hidden else ""
            text += f"; {count(self.errors, 'trial')} could not be evaluated{tail}"
        return text

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "reference": self.reference,
            "agent": self.agent,
            "better": self.better,
            "p": self.p,
            "errors": self.errors,
            "sentence": self.sentence,
            "comparison": self.comparison.to_json(),
        }


def compare_agents(results: Iterable[TrialResult], names: Sequence[str]) -> tuple[AgentComparison, ...]:
    """Compare each agent with the first.

    :param names: what keys call the agents, that which the others are compared with first.
    """
    every = list(results)
    sides = {name: _side(r for r in every if r.key.agent == name) for name in names}
    return tuple(_against(names[0], name, sides[names[0]], sides[name]) for name in names[1:])


def agent_names(results: Iterable[TrialResult]) -> tuple[str, ...]:
    """Return what the keys of results call their agents, sorted."""
    return tuple(sorted({r.key.agent for r in results if r.key.agent is not None}))


def _side(results: Iterable[TrialResult]) -> Baseline:
    # How an agent was spoken to (its dialect) is part of the agent here, and makes nothing incomparable.
    found = Baseline.of(dataclasses.replace(r, key=r.key.of_any_agent) for r in results)
    return dataclasses.replace(found, measured={})


def _against(reference: str, name: str, before: Baseline, after: Baseline) -> AgentComparison:
    comparison = compare(before, after)
    errors = comparison.errors_before + comparison.errors_after
    if comparison.overall is None:
        return AgentComparison(reference, name, comparison, errors=errors)
    p = _two_sided(before, after)
    is_ahead = comparison.overall.drop < 0
    # Tasks with unlike numbers of trials: the test weighs trials, the drop tasks; who is better, both have to say.
    there, back = compare(before, after).overall, compare(after, before).overall
    agree = there is not None and back is not None and (back.p < there.p) == is_ahead
    # At worst the one that is ahead missed all that could not be evaluated, and the other one succeeded.
    worst = _two_sided(_decided(before, success=is_ahead), _decided(after, success=not is_ahead))
    hidden = p < inference.LEVEL <= worst
    shown = p < inference.LEVEL and not hidden and agree
    better = (name if is_ahead else reference) if shown else None
    return AgentComparison(reference, name, comparison, better, p, errors, hidden)


def _two_sided(before: Baseline, after: Baseline) -> float:
    there, back = compare(before, after).overall, compare(after, before).overall
    return min(1.0, 2 * min(there.p, back.p)) if there is not None and back is not None else 1.0


def _decided(side: Baseline, *, success: bool) -> Baseline:
    """Return the same with every trial that could not be evaluated as a success, or as a miss."""
    return Baseline({name: TaskRecord((*r.outcomes, *(success,) * r.errors)) for name, r in side.tasks.items()})
