"""Two runs, or the agents of one run, compared: paired by task, per domain and over all. Pure.

A plan of a run is there, too: its price, and how many trials would prove something.

Every number is over the trials that were evaluated; tasks that only one run has, or that have errors only in one, are
named.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import comb, sqrt
from statistics import NormalDist
from typing import Any, Literal

from pytest_a2a_bench.model import TrialResult, dollars
from pytest_a2a_bench.model.messages import numbered
from pytest_a2a_bench.results import inference
from pytest_a2a_bench.results.baseline import Baseline, TaskRecord, differences
from pytest_a2a_bench.results.inference import Interval, PairedTask
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.text import p_value

GateVerdict = Literal["pass", "failed", "regressed", "inconclusive"]
"""The verdict of one gate, or of all gates, on a run; ``regressed`` is only said in comparison with a baseline."""


@dataclass(frozen=True, slots=True)
class Side:
    """One run's part in a comparison: ``ok`` of ``trials`` evaluated trials succeeded.

    :param rate: the average of its tasks' rates: where each has as many trials, the share that succeeded.
    :param wilson: its limits at 95 %: Wilson's, or where tasks have unequal numbers of trials those of the average.
    """

    ok: int
    trials: int
    rate: float
    wilson: Interval


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """The tasks of one domain, or all of them.

    :param drop: how much lower the success rate is now, averaged over tasks.
    :param low: 95 % confident (or as the comparison's level says) that the drop is at least this.
    :param high: likewise, that it is at most this.
    :param p: how likely an unchanged agent does as badly or worse (exact, one-sided).
    :param better: tasks whose rate rose; ``worse`` whose rate fell.
    """

    name: str
    tasks: int
    before: Side
    after: Side
    drop: float
    low: float
    high: float
    p: float
    better: int
    worse: int


@dataclass(frozen=True, slots=True)
class TaskComparison:
    """One task in both runs; ``before_errors`` and ``after_errors`` are trials beside those that were evaluated."""

    name: str
    before_ok: int
    before: int
    after_ok: int
    after: int
    before_errors: int = 0
    after_errors: int = 0

    @property
    def drop(self) -> float:
        """How much lower the success rate is now."""
        return self.before_ok / self.before - self.after_ok / self.after


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs compared.

    :param overall: None where no task was evaluated in both.
    :param tasks: every paired task, the largest drop first.
    :param only_before: tasks that are in the baseline alone; ``only_after`` in this run alone.
    :param changed: tasks that are in both, and are not the same any more.
    :param errored: tasks that are in both, and of which one run evaluated no trial.
    :param errors_before: trials of common tasks that could not be evaluated; ``errors_after`` in this run.
    :param differences: conditions that differ, so that the numbers do not compare.
    :param level: how often each limit of a drop may be wrong: less than 5 % where gates could be decided early.
    """

    overall: GroupComparison | None
    domains: tuple[GroupComparison, ...] = ()
    tasks: tuple[TaskComparison, ...] = ()
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    errored: tuple[str, ...] = ()
    errors_before: int = 0
    errors_after: int = 0
    differences: tuple[str, ...] = ()
    pairs: tuple[PairedTask, ...] = field(default=(), repr=False)
    level: float = inference.LEVEL

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object: all but the pairs, which the tasks are."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "pairs"}


def compare(before: Baseline, after: Baseline, level: float = inference.LEVEL) -> Comparison:
    """Compare two runs.

    :param level: how often each limit of a drop may be wrong.
    """
    # Tasks that were only planned have no place on either side.
    old, new = _tried(before), _tried(after)
    both = sorted(set(old) & set(new), key=numbered)
    changed = {name for name in both if "" != old[name].version != new[name].version != ""}
    common = [name for name in both if name not in changed]
    # Pairing needs an outcome on both sides; what errored in one is named.
    names = [name for name in common if old[name].outcomes and new[name].outcomes]
    pairs = {name: _pair(old[name], new[name]) for name in names}
    groups: dict[str, list[PairedTask]] = defaultdict(list)
    for name in names:
        groups["/".join(name.split("/")[:2])].append(pairs[name])
    tasks = [
        TaskComparison(n, p.before_ok, p.before, p.after_ok, p.after, old[n].errors, new[n].errors)
        for n, p in pairs.items()
    ]
    return Comparison(
        overall=_group("all", list(pairs.values()), level) if pairs else None,
        domains=tuple(_group(name, group, level) for name, group in sorted(groups.items())),
        # The worst first, and in the order of names among equals, so that two reports of the same runs are the same.
        tasks=tuple(sorted(tasks, key=lambda t: -t.drop)),
        only_before=tuple(sorted(set(old) - set(new), key=numbered)),
        only_after=tuple(sorted(set(new) - set(old), key=numbered)),
        changed=tuple(name for name in both if name in changed),
        errored=tuple(name for name in common if name not in pairs),
        errors_before=sum(old[name].errors for name in common),
        errors_after=sum(new[name].errors for name in common),
        # Where nothing is common there is nothing to be incomparable about.
        differences=tuple(differences(before.measured, after.measured, (names, names))) if pairs else (),
        pairs=tuple(pairs.values()),
        level=level,
    )


def passes_at_worst(before: Baseline, after: Baseline, allowed: float, level: float = inference.LEVEL) -> bool:
    """Return whether the drop is within the allowance even if each trial that could not be evaluated is a miss."""
    # For the run that is judged only: the baseline's errors would hide a drop if they were misses.
    worst = {
        name: dataclasses.replace(r, outcomes=(*r.outcomes, *(False,) * r.errors)) for name, r in after.tasks.items()
    }
    group = compare(before, Baseline(worst), level).overall
    return group is not None and judge_drop(group, allowed) == "pass"


def _tried(run: Baseline) -> dict[str, TaskRecord]:
    return {name: record for name, record in run.tasks.items() if record.outcomes or record.errors}


def judge_drop(group: GroupComparison, allowed: float) -> GateVerdict:
    """Return whether a drop is a regression.

    ``regressed``: larger than allowed, with 95 % confidence. ``pass``: at most as large as allowed, likewise.
    ``inconclusive``: there are too few trials to tell; :func:`describe_drop` says what they hint at.
    """
    # The lower limit, and no test against "no drop at all": a drop that is certain may be allowed.
    if group.low > allowed:
        return "regressed"
    return "pass" if group.high <= allowed else "inconclusive"


NO_SIGN = "no sign of a drop"
SIGNS = "signs of a drop"


def describe_drop(comparison: Comparison, verdict: GateVerdict) -> str:
    """Return the word for a comparison: the verdict, or for an inconclusive one ``signs`` or ``no sign of a drop``.

    ``signs of a drop`` are there where an unchanged agent does as badly in fewer than 5 % of runs (exact test), ``no
    sign`` where it does so more often, although these trials could have shown one. Where they could not, whatever
    became of them, there is no word for it: "".
    """
    group = comparison.overall
    if group is None:
        return ""
    if verdict == "inconclusive":
        if group.p < inference.LEVEL:
            return SIGNS
        return NO_SIGN if could_show(comparison.pairs) else ""
    if verdict == "pass":
        return "improved" if group.high < 0 else ""
    return "regressed"


def could_show(pairs: Iterable[PairedTask]) -> bool:
    """Return whether these trials would have shown signs of a drop if all of this run's had failed."""
    # A run of three trials sees nothing, which is no reason to trust it.
    return inference.paired_p(dataclasses.replace(pair, after_ok=0) for pair in pairs) < inference.LEVEL


def _group(name: str, pairs: list[PairedTask], level: float) -> GroupComparison:
    low, high = inference.drop_interval(pairs, level=level)
    return GroupComparison(
        name=name,
        tasks=len(pairs),
        before=_side([(p.before, p.before_ok) for p in pairs]),
        after=_side([(p.after, p.after_ok) for p in pairs]),
        drop=inference.drop_of(pairs),
        low=low,
        high=high,
        p=inference.paired_p(pairs),
        better=sum(p.drop < 0 for p in pairs),
        worse=sum(p.drop > 0 for p in pairs),
    )


def _pair(old: TaskRecord, new: TaskRecord) -> PairedTask:
    return PairedTask(len(old.outcomes), sum(old.outcomes), len(new.outcomes), sum(new.outcomes))


def _side(tasks: list[tuple[int, int]]) -> Side:
    ok, trials = sum(ok for _, ok in tasks), sum(n for n, _ in tasks)
    # The plain share would count a task twice that had twice the trials, as no drop does.
    rate = sum(ok / n for n, ok in tasks) / len(tasks) if len({n for n, _ in tasks}) > 1 else ok / trials
    return Side(ok, trials, rate, inference.wilson(rate * trials, trials))


# --- the agents of one run --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentComparison:
    """One agent of a run against another.

    The statistics are those of two runs, but as either agent may be the better one, p is twice the smaller p of both
    directions.

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
            f"and of at most {high:+.3f}; p {p_value(self.p, '= ')}, two-sided"
        )
        if self.errors:
            tail = " and might turn this over" if self.hidden else ""
            text += f"; {count(self.errors, 'trial')} could not be evaluated{tail}"
        return text

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {**dataclasses.asdict(self), "sentence": self.sentence, "comparison": self.comparison.to_json()}


def compare_agents(results: Iterable[TrialResult], names: Sequence[str]) -> tuple[AgentComparison, ...]:
    """Compare each agent with the first.

    :param names: names of the agents in keys, the reference agent first.
    """
    every = list(results)
    sides = {name: _results_of(r for r in every if r.key.agent == name) for name in names}
    return tuple(_against(names[0], name, sides[names[0]], sides[name]) for name in names[1:])


def agent_names(results: Iterable[TrialResult]) -> tuple[str, ...]:
    """Return the names of the agents in the keys of results, sorted."""
    return tuple(sorted({r.key.agent for r in results if r.key.agent is not None}))


def _results_of(results: Iterable[TrialResult]) -> Baseline:
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


def floor_chance(rate: float, floor: float, trials: int) -> float:
    """Return how often so many trials of a true rate measure at least the floor."""
    need = next(ok for ok in range(trials + 2) if ok > trials or ok / trials >= floor - 1e-12)
    if trials > 1000:  # where the normal law is as good
        return 1 - NormalDist(trials * rate, sqrt(trials * rate * (1 - rate)) or 1e-9).cdf(need - 0.5)
    return sum(comb(trials, ok) * rate**ok * (1 - rate) ** (trials - ok) for ok in range(need, trials + 1))


def price(conversations: int, baseline: Baseline | None, at_once: int = 1) -> str:
    """Return the price of conversations in words, as far as the baseline knows it."""
    words = count(conversations, "conversation")
    if baseline is not None and baseline.cost_usd is not None:
        words += f", {dollars(conversations * baseline.cost_usd, estimated=baseline.cost_estimated)}"
    if baseline is not None and baseline.seconds:
        minutes = conversations * baseline.seconds / at_once / 60
        words += f", {minutes:.0f} min" if minutes >= 1 else f", {minutes * 60:.0f} s"
    return words


def outlook(baseline: Baseline, names: Sequence[str], trials: int, allowed: float, at_once: int = 1) -> str:
    """Return the price of a run with a baseline, and how many trials would prove that nothing fell, in words.

    :param names: its tasks, as the baseline calls them.
    :param trials: of each.
    :param at_once: conversations in flight.
    """
    text = f"{count(len(names), 'task')} x {trials}: {price(len(names) * trials, baseline, at_once)}"
    known = [baseline.tasks[name].outcomes for name in names if name in baseline.tasks]
    # A single trial of a task does not tell how much its outcomes vary.
    if allowed > 0 and known and min(map(len, known)) > 1:
        enough = inference.trials_to_tell([PairedTask(len(o), sum(o), 0, 0) for o in known], allowed)
        has = min(trials, *map(len, known))
        text += f"; to prove that an unchanged agent is within {allowed:g}, {inference.enough_words(enough, has)}"
        if enough > trials:
            text += f": {price(len(names) * enough, baseline, at_once)}"
    return text
