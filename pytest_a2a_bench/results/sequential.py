"""Verdicts that may be looked at after every trial: evidence that keeps its error rate however often it is read. Pure.

Evidence against a claim is a process that, where the claim is true, is a non-negative martingale that begins at 1 (or
lies below one). By Ville's inequality it ever exceeds 1 / LEVEL in at most LEVEL of all runs, so that one may stop
whenever it does. All values are natural logarithms.

Trials have to come in an order that was drawn at random before, whatever order they finished in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, inf, lgamma, log
from typing import NamedTuple

from pytest_a2a_bench.results.inference import LEVEL


class Stratum(NamedTuple):
    """The trials of one domain: ``seen`` of all ``trials`` have come, and ``ok`` of these succeeded."""

    trials: int
    seen: int
    ok: int


def evidence_of_reaching(strata: Sequence[Stratum], need: int) -> float:
    """Return the evidence that at least ``need`` of all trials will have succeeded in the end.

    All trials of a run are a finite population that is drawn from without replacement, each domain by itself. The
    evidence is how much better a mixture over all outcomes explains what was seen than the best outcome does that has
    too few successes: a ratio of hypergeometric chances (Waudby-Smith and Ramdas's prior over posterior, with a uniform
    prior; of a single domain the prior is on the outcomes that reach).
    """
    if len(strata) == 1 and strata[0].seen and strata[0].ok * (strata[0].trials + 1) <= (need - 1) * strata[0].seen:
        return 0.0  # the likeliest outcome of all has too few: at best this much speaks for more
    worst = _best_chance(strata, need - 1)
    if worst == -inf:
        return inf
    if len(strata) > 1:
        return sum(-log(s.seen + 1) for s in strata) - worst
    [one] = strata
    first, last = max(need, one.ok), one.trials - one.seen + one.ok
    if first > last:
        return -inf
    # Each chance from the one before it: there are as many as trials, and somebody looks after each of them.
    chance = total = 1.0
    for ok in range(first, last):
        chance *= _gain(one, ok)
        total += chance
    return log(total) + _log_chance(one, first) - log(one.trials - need + 1) - worst


def decide_floor(strata: Sequence[Stratum], need: int, level: float = LEVEL) -> bool | None:
    """Tell whether at least ``need`` of all trials will have succeeded; None where that cannot be told yet.

    Either answer is wrong in at most ``level`` of all runs.
    """
    found = [s for s in strata if s.trials]
    total = sum(s.trials for s in found)
    if not 0 < need <= total:
        return need <= 0
    if evidence_of_reaching(found, need) >= -log(level):
        return True
    # The same question about misses: as many as leave too few successes.
    missed = [s._replace(ok=s.seen - s.ok) for s in found]
    return False if evidence_of_reaching(missed, total - need + 1) >= -log(level) else None


_STAKES = (0.3, 0.7)
"""Shares of the largest stake: small ones for drops near what is allowed, large ones for those far from it."""


class Bets:
    """Evidence about the mean of differences between -1 and 1, such as those of two runs' paired trials.

    Whoever bets the same share of what they have on every difference makes a martingale if the mean is the one that is
    claimed; two shares are bet side by side, since nobody knows the best beforehand.

    :param claimed: the mean that is not exceeded where the claim is true.
    """

    def __init__(self, claimed: float) -> None:
        self._claimed = claimed
        self._stakes = [share / (1 + claimed) for share in _STAKES]
        self._logs = [0.0 for _ in self._stakes]

    def take(self, difference: float) -> None:
        """Take in the next difference."""
        for i, stake in enumerate(self._stakes):
            self._logs[i] += log(1 + stake * (difference - self._claimed))

    @property
    def evidence(self) -> float:
        """The evidence that the mean is larger than claimed."""
        return _log_sum(self._logs) - log(len(self._logs))


class DropBets:
    """Whether a success rate fell by more than what is allowed, asked after each pair of trials.

    Pairs are of one task: a trial, or several averaged, of the earlier run less those of the later one. No trial is in
    two pairs, so that the earlier run's chances count as much as the later one's.

    :param level: how often either answer may be wrong.
    """

    def __init__(self, allowed: float, level: float) -> None:
        self._enough = -log(level)
        self._more = Bets(allowed)
        self._less = Bets(-allowed)
        self.larger: bool | None = None

    def take(self, drop: float) -> None:
        """Take in the next pair; what has been decided stays."""
        if self.larger is None:
            self._more.take(drop)
            self._less.take(-drop)
            if self._more.evidence >= self._enough:
                self.larger = True
            elif self._less.evidence >= self._enough:
                self.larger = False


def _best_chance(strata: Sequence[Stratum], most: int) -> float:
    """Return the largest chance of what was seen, over all outcomes with at most so many successes; -inf for none."""
    # Chances are log-concave in the number of successes of each domain, so that the steps that gain most are taken
    # first: one at a time, they lead to the best outcome.
    totals = [s.ok for s in strata]
    rest = most - sum(totals)
    if rest < 0:
        return -inf
    if len(strata) == 1:
        [one] = strata
        likeliest = one.ok * (one.trials + 1) // one.seen if one.seen else most
        return _log_chance(one, min(most, likeliest, one.trials - one.seen + one.ok))
    gains = [_gain(s, total) for s, total in zip(strata, totals, strict=True)]
    while rest > 0:
        best = max(range(len(gains)), key=gains.__getitem__)
        if gains[best] <= 1:
            break
        totals[best] += 1
        gains[best] = _gain(strata[best], totals[best])
        rest -= 1
    return sum(_log_chance(s, total) for s, total in zip(strata, totals, strict=True))


def _gain(stratum: Stratum, total: int) -> float:
    """Return how much likelier one more success in the end makes what was seen."""
    trials, seen, ok = stratum
    if total >= trials - (seen - ok):
        return 0.0
    return (total + 1) / (total + 1 - ok) * (trials - total - (seen - ok)) / (trials - total)


def _log_chance(stratum: Stratum, total: int) -> float:
    """Return the hypergeometric chance of what was seen if ``total`` of all trials succeed in the end."""
    trials, seen, ok = stratum
    return _log_choose(total, ok) + _log_choose(trials - total, seen - ok) - _log_choose(trials, seen)


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def _log_sum(logs: Iterable[float]) -> float:
    values = list(logs)
    top = max(values)
    return top + log(sum(exp(value - top) for value in values))
