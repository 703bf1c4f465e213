"""Gates decided before all of their trials have run: the sequential tests, and the order of the trials. Pure.

Finished trials count in the order that was drawn beforehand, up to the first one that is missing: trials that
fail take longer, so that the order in which trials end says something about how they end.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil, inf, log, pow
from typing import NamedTuple, Protocol

from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.compare import GateVerdict
from pytest_a2a_bench.results.gates.terms import (
    Decision,
    Quarantined,
    Thresholds,
    floor_name,
    groups_of,
    pass_k_name,
    quarantine_of,
)
from pytest_a2a_bench.results.inference import LEVEL, wilson
from pytest_a2a_bench.results.manifest import Manifest
from pytest_a2a_bench.results.stats import count, pass_hat_k, task_name
from pytest_a2a_bench.text import listed


def draw_order(keys: Iterable[TrialKey], seed: str) -> list[TrialKey]:
    """Return trials in an order drawn by a seed; those of any domain among them are in a drawn order, too."""
    # Sorted first: the same trials have one order, however they were collected.
    found = sorted(keys, key=str)
    random.Random(seed).shuffle(found)
    return found


class Finished(NamedTuple):
    """How a trial ended."""

    key: TrialKey
    status: str
    success: bool


class _Question(Protocol):
    """The sequential test of one gate, fed trial after trial."""

    def look(self, trial: Finished) -> GateVerdict | None:
        """Take in the next trial that the gate counts; the answer, once there is one."""
        ...


class _Floor:
    """Whether the whole run would reach a rate: its trials are all there are, so nothing else is uncertain."""

    def __init__(self, keys: Sequence[TrialKey], rate: float) -> None:
        self._floor = Floor(len(keys), ceil(rate * len(keys) - 1e-9))

    def look(self, trial: Finished) -> GateVerdict | None:
        # What could not be evaluated counts as not succeeded, as it does in the whole run.
        self._floor.take(success=trial.success)
        return None if self._floor.reached is None else "pass" if self._floor.reached else "failed"


class _PassK:
    """Whether pass^k can still be reached, or missed: certain, and so seldom early."""

    def __init__(self, keys: Sequence[TrialKey], k: int, rate: float) -> None:
        self._k, self._rate = k, rate
        self._rest: dict[str, int] = defaultdict(int)
        for key in keys:
            self._rest[task_name(key)] += 1
        self._planned = dict(self._rest)
        self._ok: dict[str, int] = defaultdict(int)

    def look(self, trial: Finished) -> GateVerdict | None:
        name = task_name(trial.key)
        self._rest[name] -= 1
        self._ok[name] += trial.success
        if min(self._planned.values()) < self._k:
            return None
        if self._average(best=False) >= self._rate:
            return "pass"
        return None if self._average(best=True) >= self._rate - 1e-12 else "failed"

    def _average(self, *, best: bool) -> float:
        values = [
            pass_hat_k(planned, self._ok[name] + (self._rest[name] if best else 0), self._k)
            for name, planned in self._planned.items()
        ]
        return sum(values) / len(values)


class _Drop:
    """Whether the success rate fell by more than is allowed, by pairs of a task's trials in both runs.

    :ivar level: the part of the error rate that is left for a run that is never decided.
    """

    def __init__(self, keys: Sequence[TrialKey], baseline: Baseline, allowed: float) -> None:
        planned: dict[str, int] = defaultdict(int)
        for key in keys:
            planned[task_name(key)] += 1
        self._before = {n: baseline.tasks[n].outcomes for n in planned if n in baseline.tasks}
        self._before = {n: outcomes for n, outcomes in self._before.items() if outcomes}
        # As many pairs of each task, so that each counts as much; where a run has more trials, several are averaged.
        self._pairs = min((min(planned[n], len(o)) for n, o in self._before.items()), default=0)
        self._size = {n: planned[n] // self._pairs for n in self._before} if self._pairs else {}
        self._now: dict[str, list[bool]] = defaultdict(list)
        pairs = self._pairs * len(self._before)
        early = LEVEL * early_share(pairs)
        self.level = LEVEL - early
        self._bets = DropBets(allowed, early, pairs)

    def look(self, trial: Finished) -> GateVerdict | None:
        name = task_name(trial.key)
        if name not in self._size:
            return None
        now, before = self._now[name], self._before[name]
        now.append(trial.success)
        pair, rest = divmod(len(now), self._size[name])
        if rest == 0 and pair <= self._pairs:
            each = len(before) // self._pairs
            old, new = before[(pair - 1) * each : pair * each], now[-self._size[name] :]
            self._bets.take(sum(old) / len(old) - sum(new) / len(new))
        if self._bets.larger is None:
            return None
        return "regressed" if self._bets.larger else "pass"


class _Gate:
    """One gate: the trials that it counts, and its sequential test."""

    def __init__(self, question: _Question, keys: Collection[TrialKey], spoilt_by: Collection[str]) -> None:
        self.keys = frozenset(keys)
        self.decision: Decision | None = None
        self._question = question
        self._spoilt_by = spoilt_by
        self._seen = 0
        self._spoilt = False

    def take(self, trial: Finished) -> None:
        if self._spoilt or self.decision is not None or trial.key not in self.keys:
            return
        self._spoilt = trial.status in self._spoilt_by
        if not self._spoilt:
            self._seen += 1
            found = self._question.look(trial)
            self.decision = Decision(found, self._seen, len(self.keys)) if found else None


_SHOWN = 5
"""Tasks that a line names."""

_SKIPPED = ("skipped",)
"""A skipped trial leaves the population, whose size is part of what a floor asks."""

_UNKNOWN = ("skipped", "infrastructure_error", "evaluator_error", "harness_error", "not_run")
"""An error is in no rate of a comparison, and could have hidden a drop."""


def early_verdict(
    run: Manifest, thresholds: Thresholds, baseline: Baseline | None, quarantine: Sequence[Quarantined]
) -> EarlyVerdict:
    """Return the gates of a run, from the trials in its ``run.json`` and their order."""
    order = [TrialKey.parse(key) for key in run.keys]
    return EarlyVerdict(
        order,
        thresholds,
        baseline,
        lambda key: groups_of(key.suite, key.domain, run.categories.get(key.task_key)),
        [key for key in order if quarantine_of(key, quarantine) is not None],
    )


class EarlyVerdict:
    """The gates of a run whose trials come in an order that was drawn.

    :param order: every trial of the run.
    :param groups_of: the names by which a floor may mean a trial.
    :param quarantined: trials that count in no rate.
    :ivar level: how often a comparison with the baseline may be wrong in the end, where it was not decided before.
    """

    def __init__(
        self,
        order: Sequence[TrialKey],
        thresholds: Thresholds,
        baseline: Baseline | None,
        groups_of: Callable[[TrialKey], Collection[str]],
        quarantined: Collection[TrialKey] = (),
    ) -> None:
        self._order = list(order)
        self._next = 0
        self._finished: dict[TrialKey, Finished] = {}
        self._gates: dict[str, _Gate] = {}
        quarantined = frozenset(quarantined)
        counted = [key for key in order if key not in quarantined]
        for group, rate in thresholds.min_pass.items():
            keys = [k for k in counted if not group or group in groups_of(k)]
            if keys:
                self._gates[floor_name(group)] = _Gate(_Floor(keys, rate), keys, _SKIPPED)
        for k, rate in thresholds.min_pass_k.items():
            self._gates[pass_k_name(k)] = _Gate(_PassK(counted, k, rate), counted, _SKIPPED)
        self.level = LEVEL
        if baseline is not None:
            drop = _Drop(counted, baseline, thresholds.max_drop)
            self.level = drop.level
            self._gates["baseline"] = _Gate(drop, counted, _UNKNOWN)
        known = frozenset(baseline.evaluated) if baseline is not None else frozenset()
        self._needless = frozenset(
            key for key in order if thresholds.tolerates(groups_of(key), baseline=task_name(key) in known)
        )

    def take(self, trial: Finished) -> None:
        """Take in a trial that has finished, whatever finished before it."""
        self._finished.setdefault(trial.key, trial)
        while self._next < len(self._order) and self._order[self._next] in self._finished:
            found = self._finished[self._order[self._next]]
            self._next += 1
            for gate in self._gates.values():
                gate.take(found)

    @property
    def decisions(self) -> Mapping[str, Decision]:
        """The decisions so far, by the name of the gate."""
        return {name: gate.decision for name, gate in self._gates.items() if gate.decision is not None}

    @property
    def needless(self) -> list[TrialKey]:
        """The trials that need not run any more: whose miss a gate counts, and all of whose gates are decided."""
        return [k for k in self._order if k in self._needless and k not in self._finished and self._is_settled(k)]

    @property
    def unfinished(self) -> list[TrialKey]:
        """The trials that have not ended yet."""
        return [key for key in self._order if key not in self._finished]

    def standing(self, left_out: Collection[TrialKey]) -> tuple[Mapping[str, Decision], bool]:
        """Return the decisions that count where these trials did not run, and whether an undecided gate lacks any.

        A floor of which all trials ran is judged as measured; a comparison has used a part of its error rate.
        """
        lacking = {name for name, gate in self._gates.items() if not gate.keys.isdisjoint(left_out)}
        found = {name: d for name, d in self.decisions.items() if name in lacking or name == "baseline"}
        return found, not lacking <= found.keys()

    def spent(self) -> Iterator[str]:
        """Describe the decisions, the trials that they took, and the trials that were left out because of them."""
        ran = [trial for trial in self._finished.values() if trial.status != "not_run"]
        if not ran:
            return
        tasks: dict[str, list[bool]] = defaultdict(list)
        for trial in ran:
            tasks[task_name(trial.key)].append(trial.success)
        least, most = min(map(len, tasks.values())), max(map(len, tasks.values()))
        each = f"{least}" if least == most else f"{least} to {most}"
        yield f"spent: {len(ran)} of {len(self._order)} trials, {each} on each of {count(len(tasks), 'task')}"
        groups = {
            "uncertain (both outcomes)": [name for name, seen in tasks.items() if 0 < sum(seen) < len(seen)],
            "weak (no success)": [name for name, seen in tasks.items() if not any(seen)],
        }
        for title, names in groups.items():
            # The least sure first: those that are next to a coin's toss, then those with most trials.
            names.sort(key=lambda name: (abs(sum(tasks[name]) / len(tasks[name]) - 0.5), -len(tasks[name]), name))
            if names:
                yield f"{title}: {listed([f'{n} {sum(tasks[n])} of {len(tasks[n])}' for n in names], _SHOWN)}"
        passed = sum(trial.success for trial in ran)
        now, whole = wilson(passed, len(ran)), wilson(passed / len(ran) * len(self._order), len(self._order))
        yield (
            f"learned: success rate {passed / len(ran):.3f}, 95 % sure of {now.low:.3f} to {now.high:.3f}; all "
            f"{len(self._order)} trials would have made that {whole.low:.3f} to {whole.high:.3f}"
        )

    def _is_settled(self, key: TrialKey) -> bool:
        # What counts in no gate (quarantined) is left out with the last of them.
        counting = [gate for gate in self._gates.values() if key in gate.keys] or self._gates.values()
        return all(gate.decision is not None for gate in counting)


# --- sequential tests: evidence that may be read after every trial and keeps its error rate ---
# Evidence against a claim is a process that, where the claim is true, is a non-negative martingale that begins at 1 (or
# lies below one). By Ville's inequality it ever exceeds 1 / LEVEL in at most LEVEL of all runs, so that one may stop
# whenever it does. All values are natural logarithms. Trials have to come in an order that was drawn at random before,
# whatever order they finished in.


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
    """Yield, after each trial, the number of successes from which there will be more than ``most`` in the end.

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
    """Whether a success rate fell by more than allowed, tested after each pair of trials.

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
        """Take in the next pair; a decision is final."""
        if self.larger is None:
            self._more.take(drop)
            self._less.take(-drop)
            if self._more.evidence >= self._enough:
                self.larger = True
            elif self._less.evidence >= self._enough:
                self.larger = False
