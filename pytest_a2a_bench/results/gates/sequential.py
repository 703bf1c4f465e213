"""Sequential tests: evidence that may be read after every trial and keeps its error rate. Pure.

Evidence against a claim is a process that, where the claim is true, is a non-negative martingale that begins at 1 (or
lies below one). By Ville's inequality it ever exceeds 1 / LEVEL in at most LEVEL of all runs, so that one may stop
whenever it does. All values are natural logarithms.

Trials have to come in an order that was drawn at random before, whatever order they finished in.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, log, pow

from pytest_a2a_bench.results.inference import LEVEL


class Floor:
    """Whether at least ``need`` of all trials will have succeeded, judged by the first of them.

    All trials of a run are a finite population that is drawn from without replacement. For either answer it has been
    computed before the first trial with how many successes, or misses, it is given after each: never more of the error
    rate is used up than :func:`_used` says, by every path on which the answer would be wrong. So the rate is exact, and
    nothing is lost to inequalities.

    :ivar reached: None while it is open; a decision stays.
    """

    def __init__(self, trials: int, need: int, level: float = LEVEL) -> None:
        self.reached = need <= 0 if not 0 < need <= trials else None
        self._seen = self._ok = 0
        if self.reached is None:
            # The same question twice, of successes and of misses: as many as leave too few successes.
            self._enough = floor_bounds(trials, need - 1, level)
            self._too_few = floor_bounds(trials, trials - need, level)

    def take(self, *, success: bool) -> None:
        """Take in the next trial."""
        if self.reached is not None:
            return
        self._seen += 1
        self._ok += success
        enough, too_few = next(self._enough), next(self._too_few)
        if self._ok >= enough:
            self.reached = True
        elif self._seen - self._ok >= too_few:
            self.reached = False


def floor_bounds(trials: int, most: int, level: float) -> Iterator[int]:
    """Yield, after each trial, how many successes tell that there will be more than ``most`` of them in the end.

    Fewer successes than ``most`` in the whole population reach no bound more often, so that this one is the worst.
    """
    # The chances of all paths that have met no bound yet, by their successes: of ``least`` the first.
    least, chances, used = 0, [1.0], 0.0
    for seen in range(trials):
        left = trials - seen
        met = [0.0] * (len(chances) + 1)
        for i, chance in enumerate(chances):
            good = max(0, most - least - i) / left
            met[i + 1] += chance * good
            met[i] += chance * (1 - good)
        may_use = level * _used((seen + 1) / trials)
        while met and used + met[-1] <= may_use:
            used += met.pop()
        # A bound below all paths that are left is none; what hardly ever happens need not be followed on.
        yield min(least + len(met), most + 1)
        while met and met[0] < _NEVER:
            del met[0]
            least += 1
        chances = met


def _used(share: float) -> float:
    """Return how much of the error rate may be used after a share of all trials: most of it in the first half."""
    return 1 - (1 - share) ** 3


_NEVER = 1e-18


_EVEN = 80
"""Pairs of trials with which the error rate is divided evenly between early verdicts and the last one."""

_MOST = 0.9
"""The largest part for early verdicts: a little more of it decides nothing much sooner, and the last one needs some."""


def early_share(pairs: int) -> float:
    """Return which part of the error rate is for early verdicts; the rest is for a run that was never decided.

    Known before the first trial. Bets on few pairs hardly ever win, so that it is better kept for the end; where they
    do, hardly any run gets there undecided.
    """
    return min(_MOST, pairs**2 / (pairs**2 + _EVEN**2))


def stake_of(pairs: int) -> float:
    """Return which share of the largest stake to bet on each of so many pairs.

    Small stakes tell drops near what is allowed, and take long for large ones. Few pairs leave no time for those; two
    stakes side by side took longer for most drops, since half of what one has is staked wrongly.
    """
    return min(0.8, 0.5 * pow(200 / max(1, pairs), 1 / 3))


_LEAST = 1e-3


class Bets:
    """Evidence about the mean of differences between -1 and 1, such as those of two runs' paired trials.

    Betting the same share of the capital on every difference makes a martingale if the mean is the one that is claimed.

    :param claimed: the mean that is not exceeded where the claim is true.
    :param share: of the largest stake; below 1, so that no difference takes all that one has.
    :ivar evidence: that the mean is larger than claimed.
    """

    def __init__(self, claimed: float, share: float = 0.5) -> None:
        self._claimed = claimed
        # Where every mean is above what is claimed (a drop of 1 is allowed), the stake is large and not infinite.
        self._stake = share / max(1 + claimed, _LEAST)
        self.evidence = 0.0

    def take(self, difference: float) -> None:
        """Take in the next difference."""
        self.evidence += log(1 + self._stake * (difference - self._claimed))


class DropBets:
    """Whether a success rate fell by more than what is allowed, asked after each pair of trials.

    Pairs are of one task: a trial, or several averaged, of the earlier run less those of the later one. No trial is in
    two pairs, so that the earlier run's chances count as much as the later one's.

    :param level: how often either answer may be wrong; with 0 there is none.
    :param pairs: how many there are to come, as is known before the first.
    """

    def __init__(self, allowed: float, level: float, pairs: int) -> None:
        self._enough = -log(level) if level else inf
        share = stake_of(pairs)
        self._more = Bets(allowed, share)
        self._less = Bets(-allowed, share)
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
