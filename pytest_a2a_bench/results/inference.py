"""Statistical inference from trials: intervals, paired tests, and the number of trials that is needed. Pure.

Two runs are paired by task. Trials of one task in one run are draws with the same chance; so when an agent has not
changed, its successes of both runs are dealt to the two runs at random, task by task. That is the null hypothesis of
:func:`paired_p`: McNemar's exact test where every task has one trial in each run, and its extension to several.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, comb, floor, hypot, sqrt
from operator import mul
from statistics import NormalDist
from typing import NamedTuple

# The usual level; with it one run in twenty of an unchanged agent is a false alarm.
LEVEL = 0.05
"""How often a gate may raise a false alarm: the one-sided level of every test here."""

POWER = 0.8
"""The power of a run of the recommended size: how often it notices a true drop."""

_Z = NormalDist().inv_cdf(1 - LEVEL)

RESAMPLES = 2000
MANY_TASKS = 1000
"""Above as many tasks a bootstrap says no more than a formula."""

# Any fixed number: the same results must give the same verdict tomorrow.
SEED = 20240612


class Interval(NamedTuple):
    """Two limits, lower first."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedTask:
    """One task's trials in two runs.

    :param before: trials of the baseline that were evaluated; ``before_ok`` of them succeeded.
    :param after: trials of this run that were evaluated; ``after_ok`` of them succeeded.
    """

    before: int
    before_ok: int
    after: int
    after_ok: int

    @property
    def drop(self) -> float:
        """How much lower the success rate is now: -1 to 1."""
        return self.before_ok / self.before - self.after_ok / self.after


def wilson(successes: float, trials: int, confidence: float = 0.95) -> Interval:
    """Return Wilson's two-sided interval of a rate.

    :raises ValueError: if there are no trials, or more successes than trials.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} of {trials} is no rate")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / trials
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    # The formula gives these up to rounding, which would leave a rate of 0 a little above 0.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return Interval(low, high)


def can_prove(rate: float, trials: int) -> bool:
    """Return whether a perfect run of so many trials would be evidence for a rate (Wilson's one-sided 95 % limit)."""
    return trials >= 1 and wilson(trials, trials, 1 - 2 * LEVEL).low >= rate - 1e-12


def trials_to_prove(rate: float) -> int:
    """Return the smallest number of trials that :func:`can_prove` a rate.

    :raises ValueError: for a rate of 1, which no number of trials proves, and for one outside of 0 to 1.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"no number of trials proves a rate of {rate:g}")
    # Wilson's limit of a perfect run can be solved for the number of trials; rounding may be off by one.
    guess = max(1, floor(_Z * _Z * rate / (1 - rate)))
    return next(n for n in range(guess, guess + 3) if can_prove(rate, n))


def paired_p(tasks: Iterable[PairedTask]) -> float:
    """Return how likely it is that an unchanged agent does as badly now, or worse: exact, one-sided.

    It is the exact conditional test of the tasks' two-by-two tables (Cochran, Mantel, Haenszel): within each task the
    successes of both runs fall on the trials of either run with equal chances.
    """
    kinds: Counter[tuple[int, int, int]] = Counter()
    observed = 0
    for task in tasks:
        total, ok = task.before + task.after, task.before_ok + task.after_ok
        observed += task.after_ok - max(0, ok - task.before)
        # Where all or none succeeded there is only one way to deal them, which says nothing.
        if 0 < ok < total:
            kinds[total, ok, task.after] += 1
    # A distribution over the sum of successes, built of those of equal tasks.
    sums = _Sums()
    for kind, times in sorted(kinds.items()):
        sums += _Sums(0, hypergeometric(*kind)) * times
    return min(1.0, sum(sums.chances[: max(0, observed + 1 - sums.least)]))


def drop_of(tasks: Sequence[PairedTask]) -> float:
    """Return how much lower the success rate is now, averaged over tasks; raises ValueError if there are no tasks."""
    if not tasks:
        raise ValueError("no task is in both runs")
    return sum(t.drop for t in tasks) / len(tasks)


def drop_interval(
    tasks: Sequence[PairedTask], resamples: int = RESAMPLES, seed: int = SEED, level: float = LEVEL
) -> Interval:
    """Return the range that the drop is in, each limit wrong in at most ``level`` of all runs.

    Each limit is the more careful one of two. A bootstrap over tasks (seed fixed), widened as Student's t is wider than
    the normal law and by half the smallest step of the drop, is right where there are many losses and gains. In it two
    made-up tasks join, one a little better and one a little worse (by one trial): without them a handful of tasks that
    happened to agree would look like certainty; Bonett and Price do the same for paired proportions. Where hardly
    anything is lost or gained, as with agents that are nearly perfect, losses and gains are counted as rare events: see
    :func:`rare_limit`.

    :raises ValueError: if there are no tasks.
    """
    drop_of(tasks)
    # One trial more or less, in the task with the fewest trials.
    step = 1 / min(min(t.before, t.after) for t in tasks)
    exact = [t.drop for t in tasks]
    drops = sorted([*exact, step, -step])
    size = len(drops)
    centre = sum(drops) / size
    z = NormalDist().inv_cdf(1 - level)
    if size > MANY_TASKS:
        least, most = _quantiles(drops, z)
    else:
        source = random.Random(seed)
        means = sorted(sum(source.choices(drops, k=size)) / size for _ in range(resamples))
        least, most = means[floor(level * resamples)], means[ceil((1 - level) * resamples) - 1]
    wider = sqrt(size / (size - 1)) * student(max(1, len(tasks) - 1), z) / z
    # Rates move in steps, and a limit between two of them would promise too much.
    half_step = 0.5 / (len(tasks) * max(max(t.before, t.after) for t in tasks))
    low = centre - (centre - least) * wider - half_step
    high = centre + (most - centre) * wider + half_step
    rarest = rare_limit(exact, step, z), -rare_limit([-d for d in exact], step, z)
    # The drop is between -1 and 1, whatever the widening made of it.
    return Interval(max(-1.0, min(low, rarest[1])), min(1.0, max(high, rarest[0])))


def _quantiles(drops: Sequence[float], z: float) -> tuple[float, float]:
    """Return the limit of a bootstrap's 5 % and 95 % quantiles of the mean for many tasks: normal law with skewness.

    That is the first term of Cornish and Fisher. With more than :data:`MANY_TASKS` a limit differs by less than 0.15
    standard errors from that of 2,000 resamples, whose own luck is as large, where 30 tasks or more lost or gained; of
    fewer the bootstrap knows little, and :func:`rare_limit` decides.
    """
    size = len(drops)
    centre = sum(drops) / size
    spread = sqrt(sum((d - centre) ** 2 for d in drops) / size)
    skewness = sum((d - centre) ** 3 for d in drops) / size / spread**3
    bend = skewness * (z * z - 1) / (6 * sqrt(size))
    return centre + (bend - z) * spread / sqrt(size), centre + (bend + z) * spread / sqrt(size)


def rare_limit(drops: Sequence[float], step: float, z: float = _Z) -> float:
    """Return the upper limit of the average drop, with 95 % confidence, where losses and gains are rare events.

    Losses and gains of the tasks are weighted sums of Poisson counts, whose limits are quantiles of gamma laws
    (Fay and Feuer); the distances of both limits from what was seen add up as in Newcombe's intervals of differences.
    Where nothing was lost or gained this is the rule of three.

    :param step: the weight of one trial.
    :param z: the normal law's quantile of another confidence.
    """
    lost = [d for d in drops if d > 0]
    gained = [-d for d in drops if d < 0]
    # One more loss than was seen, of the size of a step: the upper limit of a count (rule of three for none).
    most = _gamma_limit(sum(lost) + step, sum(d * d for d in lost) + step * step, z)
    least = _gamma_limit(sum(gained), sum(d * d for d in gained), -z) if gained else 0.0
    drop = sum(lost) - sum(gained)
    return (drop + hypot(most - sum(lost), sum(gained) - least)) / len(drops)


def _gamma_limit(mean: float, variance: float, z: float) -> float:
    """Return a quantile of the gamma law, by the cube root of Wilson and Hilferty."""
    freedom = 2 * mean * mean / variance
    return mean * max(0.0, 1 - 2 / (9 * freedom) + z * sqrt(2 / (9 * freedom))) ** 3


def student(freedom: int, z: float = _Z) -> float:
    """Return the quantile of Student's t where the normal law's is ``z`` (at 95 %), by its series around that."""
    n = freedom
    first = (z**3 + z) / (4 * n)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    return z + first + second + third


def trials_to_tell(tasks: Sequence[PairedTask], allowed: float) -> int:
    """Return how many trials of each of these tasks, in both runs, distinguish an unchanged agent from a drop.

    With so many, an unchanged agent is shown to be within the allowed drop four times out of five.

    :param allowed: the drop that does not matter, above 0.
    :raises ValueError: if nothing but no drop at all is allowed, which no number of trials can show.
    """
    if allowed <= 0:
        raise ValueError("no number of trials shows that there is no drop at all")
    z = _Z + NormalDist().inv_cdf(POWER)
    # One trial's variance p(1-p), estimated without bias from both runs; a task of its own that always varies joins.
    spread = sum(map(_variance, tasks)) + 0.25
    # Fewer show nothing even if all of them succeed.
    fewest = rare_limit([0.0], 1.0) / (len(tasks) * allowed)
    return max(1, ceil(fewest), ceil(z * z * 2 * spread / (len(tasks) * allowed) ** 2))


def enough_words(enough: int, has: int) -> str:
    """Return how many trials would be enough, as a sentence."""
    there = f"there is {has}" if has == 1 else f"there are {has}"
    return f"about {enough} trials of each task in both runs would be enough ({there})"


def _variance(task: PairedTask) -> float:
    total, ok = task.before + task.after, task.before_ok + task.after_ok
    # Without bias: divided by one less, as the rate is estimated from the same trials.
    return ok * (total - ok) / (total * (total - 1))


def hypergeometric(total: int, ok: int, drawn: int) -> list[float]:
    """Return the chances of each possible number of successes among those drawn, from the least on."""
    least, most = max(0, ok - (total - drawn)), min(ok, drawn)
    whole = comb(total, drawn)
    # Python's whole numbers: factorials of some hundred trials are beyond floats.
    return [comb(ok, i) * comb(total - ok, drawn - i) / whole for i in range(least, most + 1)]


@dataclass(frozen=True, slots=True)
class _Sums:
    """How likely each sum of some tasks' successes is: of ``least`` the first chance, of one more the next.

    A long one has no ends that hardly ever happen: each that is cut off is less likely than 1e-20, all of them
    together, for a million tasks, than 1e-12.
    """

    least: int = 0
    chances: Sequence[float] = (1.0,)

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(self.least + other.least, _convolve(self.chances, other.chances))._without_ends()

    def __mul__(self, times: int) -> _Sums:
        # By doubling: thousands of tasks are equal, and to add them one by one takes the square of their number.
        found, doubled = _Sums(), self
        while times:
            if times & 1:
                found += doubled
            times >>= 1
            if times:
                doubled += doubled
        return found

    def _without_ends(self) -> _Sums:
        if len(self.chances) <= _LONG:
            return self
        first = bisect_left(list(accumulate(self.chances)), _NEVER)
        last = bisect_left(list(accumulate(reversed(self.chances))), _NEVER)
        return _Sums(self.least + first, self.chances[first : len(self.chances) - last])


_LONG = 256
_NEVER = 1e-20


def _convolve(a: Sequence[float], b: Sequence[float]) -> list[float]:
    short, long = sorted((list(a), list(b)), key=len)
    beyond = [0.0] * (len(short) - 1)
    padded, turned = [*beyond, *long, *beyond], short[::-1]
    return [sum(map(mul, padded[i : i + len(short)], turned)) for i in range(len(long) + len(short) - 1)]
