"""A number of conversations given out among tasks, and the rates that were measured so. Pure.

Tasks whose outcome is uncertain get more trials, after Neyman. Each task is a stratum: rates are averages of the tasks'
own rates, in which every task counts the same whatever its number of trials, so that they are right on average wherever
the trials went. The numbers of trials must be chosen before the first of them, of an earlier run's outcomes alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple

from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results.baseline import Baseline, task_name
from pytest_a2a_bench.results.inference import LEVEL, Interval, PairedTask, student, wilson
from pytest_a2a_bench.results.stats import BUDGET_ERROR, count

First = Literal["uncertain", "weak"]
"""Which tasks get more: those whose outcome is least certain, or those that the baseline seldom solved."""

LEAST = 2
"""Trials of each task below which a task's own spread cannot be seen."""

_PRIOR = 0.5
"""How many trials at the average rate each task's own are joined by, as in a plan."""


class Known(NamedTuple):
    """An earlier run's evaluated trials of a task."""

    ok: int
    trials: int


def known_of(baseline: Baseline) -> dict[str, Known]:
    """Return what a baseline knows of each task that it evaluated, by name."""
    return {n: Known(sum(r.outcomes), len(r.outcomes)) for n, r in baseline.tasks.items() if r.outcomes}


def affordable(budget: float, baseline: Baseline) -> int:
    """Return how many conversations a budget pays for: a whole number is one of them, any other of dollars.

    :raises ValueError: saying why, if that is not known, or none.
    """
    if isinstance(budget, int):
        return budget
    if not baseline.cost_usd:
        there = "has no cost of a conversation (its agent reported none)"
        raise ValueError(f"the baseline {baseline.source} {there}; give a number of conversations instead")
    conversations = int(budget / baseline.cost_usd + 1e-9)
    if not conversations:
        raise ValueError(f"it pays for no conversation: one cost ${baseline.cost_usd:g} in {baseline.source}")
    return conversations


def guesses(known: Mapping[str, Known], names: Iterable[str]) -> dict[str, float]:
    """Return about which rate each task has; one that is not known has the average rate."""
    average = sum(k.ok for k in known.values()) / max(1, sum(k.trials for k in known.values()))
    found = {name: known.get(name, Known(0, 0)) for name in names}
    return {n: (k.ok + _PRIOR * average) / (k.trials + _PRIOR) for n, k in found.items()}


def allot(
    planned: Mapping[str, int],
    known: Mapping[str, Known],
    budget: int,
    least: int = 1,
    first: First = "uncertain",
    uncounted: Collection[str] = (),
) -> dict[str, int]:
    """Return how many trials each task gets.

    One after the other, each trial goes where it tells most: Neyman's rule for whole numbers, with half of what the
    interval allows for luck. Neyman's alone has the least variance, which is what a floor wants, and leaves sure tasks
    so few trials that the interval of a few tasks gets wider; with all of it the interval is narrowest.

    :param planned: the most trials that each task may get.
    :param least: the fewest that each gets, if it has as many; :data:`LEAST` where the budget has room for them.
    :param uncounted: tasks that count in no rate (quarantined), of which nothing more is to be learnt.
    :raises ValueError: if the budget is too small for that.
    """
    floor = max(least, min(LEAST, budget // max(1, len(planned))))
    found = {name: min(floor, most) for name, most in planned.items()}
    left = budget - sum(found.values())
    if left < 0:
        raise ValueError(f"{budget} is less than {sum(found.values())}, {least} of each of {len(planned)} tasks")
    rates = guesses(known, planned)
    # What counts in no rate need not be known any better.
    wanted = sorted(planned.keys() - set(uncounted))
    variances = {n: _variance(rates[n], known.get(n, Known(0, 0)).trials, first) for n in wanted}

    def loss(name: str) -> float:
        n, luck = found[name], _MADE_UP / 2 / len(wanted)
        return -variances[name] / (n * (n + 1)) - luck * (1 / n**2 - 1 / (n + 1) ** 2)

    gains = [(loss(n), n) for n in wanted if found[n] < planned[n]]
    heapq.heapify(gains)
    while left > 0 and gains:
        _, name = heapq.heappop(gains)
        found[name] += 1
        left -= 1
        if found[name] < planned[name]:
            heapq.heappush(gains, (loss(name), name))
    return found


def worth(allotted: Mapping[str, int], known: Mapping[str, Known]) -> int:
    """Return about how many trials, as many of each task and judged by Wilson's interval, say as much of the rate.

    :return: 0 where that is not known, because all that is known ended alike.
    """
    rates = guesses(known, allotted)
    variances = {n: _variance(rates[n], known.get(n, Known(0, 0)).trials, "uncertain") for n in allotted}
    spread = [_Spread(variances[n] / trials, 0.0) for n, trials in allotted.items()]
    found = _interval(0.0, spread, list(allotted.values()), _TAIL)
    average = sum(rates.values()) / len(rates)
    z = NormalDist().inv_cdf(1 - _TAIL)
    return round(average * (1 - average) * (2 * z / (found.high - found.low)) ** 2)


_TAIL = 0.025


def _variance(rate: float, trials: int, first: First) -> float:
    # What p(1 - p) is on average, where so many trials and the prior are all that is known of p.
    spread = rate * (1 - rate) * (trials + _PRIOR) / (trials + _PRIOR + 1)
    return (1 - rate) ** 2 if first == "weak" else spread


# --- what was measured ------------------------------------------------------------------------------------------------


class Stratum(NamedTuple):
    """One task's trials, and the rate that it was guessed to have before them; None for no guess."""

    trials: int
    ok: int
    guess: float | None = None

    @property
    def rate(self) -> float:
        """The share that succeeded."""
        return self.ok / self.trials


class Estimate(NamedTuple):
    """The average of tasks' rates, and its limits.

    :param guessed: tasks of one trial for whose spread the baseline's rate stood in.
    """

    rate: float
    low: float
    high: float
    guessed: int = 0


def strata_of(results: Iterable[TrialResult], baseline: Baseline | None = None) -> list[Stratum]:
    """Return the tasks of trials; one that could not be evaluated did not succeed."""
    counts: dict[str, list[int]] = {}
    for result in results:
        found = counts.setdefault(task_name(result.key), [0, 0])
        found[0] += 1
        found[1] += result.success
    known = known_of(baseline) if baseline is not None else {}
    rates = guesses(known, counts)
    return [Stratum(n, ok, rates[name] if name in known else None) for name, (n, ok) in counts.items()]


def estimate(tasks: Sequence[Stratum], confidence: float = 0.95) -> Estimate:
    """Return the average rate of these tasks with its two-sided interval.

    A task's spread is seen in its own trials. Of a single trial it is not: the squared distance from any rate that was
    named beforehand is too large on average, and the least so for a good guess, such as the baseline's rate, which is
    used where it makes the interval narrower.

    :raises ValueError: if there are no tasks.
    """
    if not tasks:
        raise ValueError("no task was tried")
    rate = sum(t.rate for t in tasks) / len(tasks)
    level = (1 - confidence) / 2
    plain = _interval(rate, [_spread(t, rate) for t in tasks], [t.trials for t in tasks], level)
    guessed = sum(t.trials == 1 and t.guess is not None for t in tasks)
    if guessed:
        spread = [_spread(t, rate if t.guess is None else t.guess) for t in tasks]
        better = _interval(rate, spread, [t.trials for t in tasks], level)
        if better.high - better.low < plain.high - plain.low:
            return Estimate(rate, max(0.0, better.low), min(1.0, better.high), guessed)
    return Estimate(rate, max(0.0, plain.low), min(1.0, plain.high))


def rate_of(results: Sequence[TrialResult], weighted: bool, confidence: float = 0.95) -> Estimate:
    """Return the success rate of counted trials: Wilson's interval, or the tasks' average where a budget gave them out.

    :param results: may have trials that were skipped, which count in no rate.
    :param weighted: whether a budget gave them out, as all of the run's trials say.
    :raises ValueError: if no trial counts.
    """
    counted = [r for r in results if r.status != "skipped"]
    if weighted:
        return estimate(strata_of(counted), confidence)
    ok = sum(r.success for r in counted)
    return Estimate(ok / max(1, len(counted)), *wilson(ok, len(counted), confidence))


def drop_limits(tasks: Sequence[PairedTask], level: float = LEVEL) -> Interval:
    """Return limits of the average drop of these very tasks, each wrong in at most ``level`` of all runs.

    Unlike :func:`.inference.drop_interval` they say nothing of other tasks, and are made for tasks with unequal numbers
    of trials.

    :raises ValueError: if there are no tasks.
    """
    if not tasks:
        raise ValueError("no task is in both runs")
    drop = sum(t.drop for t in tasks) / len(tasks)
    spread = []
    for t in tasks:
        old, new = Stratum(t.before, t.before_ok), Stratum(t.after, t.after_ok)
        if min(t.before, t.after) > 1:
            own, other = _spread(old, 0), _spread(new, 0)
            spread.append(_Spread(own.variance + other.variance, own.skewness - other.skewness))
        else:
            # Either rate is as good a guess of the other as there is, and has its own spread in it.
            spread.append(_Spread(t.drop**2, 0.0))
    found = _interval(drop, spread, [min(t.before, t.after) for t in tasks], level)
    return Interval(max(-1.0, found.low), min(1.0, found.high))


class _Spread(NamedTuple):
    """Variance and third central moment of one task's rate."""

    variance: float
    skewness: float


def _spread(task: Stratum, guess: float) -> _Spread:
    n, p = task.trials, task.rate
    variance = p * (1 - p) / (n - 1) if n > 1 else (p - guess) ** 2
    return _Spread(variance, p * (1 - p) * (1 - 2 * p) / n**2)


_MADE_UP = 4.0
"""Made-up trials that came out by luck alone: tasks that all agreed are no certainty. Agresti and Coull add as many."""


def _interval(centre: float, spread: Sequence[_Spread], trials: Sequence[int], level: float) -> Interval:
    """Return the limits of an average of independent tasks, by Student's t and, outwards, Hall's term for skewness."""
    size = len(spread)
    z = NormalDist().inv_cdf(1 - level)
    made_up = _MADE_UP * sum(1 / n**2 for n in trials) / size
    variance = (sum(s.variance for s in spread) + made_up) / size**2
    half = student(max(1, size - 1), z) * sqrt(variance)
    bend = sum(s.skewness for s in spread) / size**3 / (6 * variance) * (1 + 2 * z * z)
    return Interval(centre - half + min(bend, 0.0), centre + half + max(bend, 0.0))


def beyond(keys: Iterable[TrialKey], allotted: Mapping[str, int]) -> frozenset[TrialKey]:
    """Return the trials that are not held: of each task all but the first so many."""
    by_task: dict[str, list[TrialKey]] = {}
    for key in keys:
        by_task.setdefault(task_name(key), []).append(key)
    return frozenset(
        key for name, own in by_task.items() for key in sorted(own, key=lambda k: k.trial)[allotted.get(name, 0) :]
    )


def budget_lines(results: Sequence[TrialResult]) -> Iterator[str]:
    """Say what a budget left out, and which numbers count tasks in place of trials."""
    gone = sum(result.error_type == BUDGET_ERROR for result in results)
    if gone:
        yield (
            f"{gone:,} of {count(len(results), 'trial')} were beyond the budget (--a2a-budget) and are in no rate; "
            "rates, rewards and pass^k count each task the same, and all else is of the trials that were held"
        )
