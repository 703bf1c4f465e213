"""The power and the price of a run before it starts, by simulation from a baseline's measurements. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb, sqrt
from statistics import NormalDist, mean, stdev

from pytest_a2a_bench.model import dollars
from pytest_a2a_bench.results import inference
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.compare import NO_SIGN, SIGNS, could_show
from pytest_a2a_bench.results.inference import LEVEL, POWER, Interval, PairedTask
from pytest_a2a_bench.results.stats import count

RUNS = 200
"""Simulated runs behind each chance; its standard error is at most 3.5 points."""

TRIALS = (1, 2, 4, 8, 16, 32)
"""Trials of each task that a plan looks at."""

_PRIOR = 0.5
"""How many trials at the average rate each task's own are joined by: a single success is no certainty."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a baseline: its smoothed success rate, and the baseline's trials of it."""

    rate: float
    before: int


@dataclass(frozen=True, slots=True)
class Chances:
    """How often a run is said to ``pass``, to have ``regressed``, or shows signs of a drop, or no sign of one.

    The rest are runs that could not have shown any.
    """

    passes: float
    regressed: float
    signs: float
    no_sign: float


def tasks_of(baseline: Baseline) -> list[Task]:
    """Return the tasks of a baseline with their smoothed rates."""
    found = [record.outcomes for record in baseline.tasks.values() if record.outcomes]
    average = sum(map(sum, found)) / sum(map(len, found))
    return [Task((sum(o) + _PRIOR * average) / (len(o) + _PRIOR), len(o)) for o in found]


def chances(
    tasks: Sequence[Task],
    trials: int,
    allowed: float,
    drop: float = 0.0,
    runs: int = RUNS,
    seed: int = inference.SEED,
) -> Chances:
    """Return the gate's verdicts on an agent whose rate fell by ``drop``, on every task by the same factor.

    :param trials: of each task.
    """
    source = random.Random(seed)
    factor = 1 - drop * len(tasks) / max(sum(t.rate for t in tasks), 1e-9)
    found = {"pass": 0, "regressed": 0, SIGNS: 0, NO_SIGN: 0}
    for _ in range(runs):
        pairs = [
            PairedTask(
                t.before, _successes(source, t.rate, t.before), trials, _successes(source, t.rate * factor, trials)
            )
            for t in tasks
        ]
        low, high = quick_interval(pairs)
        if low > allowed:
            found["regressed"] += 1
        elif high <= allowed:
            found["pass"] += 1
        elif inference.paired_p(pairs) < LEVEL:
            found[SIGNS] += 1
        elif could_show(pairs):
            found[NO_SIGN] += 1
    return Chances(*(found[name] / runs for name in ("pass", "regressed", SIGNS, NO_SIGN)))


def quick_interval(pairs: Sequence[PairedTask]) -> Interval:
    """Return about the result of :func:`.inference.drop_interval`: by the normal law in place of the bootstrap."""
    step = 1 / min(min(t.before, t.after) for t in pairs)
    exact = [t.drop for t in pairs]
    drops = [*exact, step, -step]
    half = stdev(drops) / sqrt(len(drops)) * inference.student(max(1, len(pairs) - 1))
    half += 0.5 / (len(pairs) * max(max(t.before, t.after) for t in pairs))
    rarest = inference.rare_limit(exact, step), -inference.rare_limit([-d for d in exact], step)
    return Interval(min(mean(drops) - half, rarest[1]), max(mean(drops) + half, rarest[0]))


def trials_needed(tasks: Sequence[Task], allowed: float, power: float = POWER) -> int | None:
    """Return how many trials of each task, in both runs, let an unchanged agent pass that often; None beyond 32."""
    for trials in TRIALS:
        both = [Task(task.rate, max(task.before, trials)) for task in tasks]
        if chances(both, trials, allowed, runs=RUNS // 4).passes >= power:
            return trials
    return None


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


def outlook(baseline: Baseline, names: Sequence[str], trials: int, allowed: float, at_once: int = 1) -> Iterator[str]:
    """Describe in two lines the power of a run with a baseline, and its price.

    :param names: its tasks, as the baseline calls them.
    :param trials: of each.
    :param at_once: conversations in flight.
    """
    known = Baseline({name: baseline.tasks[name] for name in names if name in baseline.tasks})
    if not known.trials:
        return
    tasks = tasks_of(known)
    now, fallen = chances(tasks, trials, allowed), chances(tasks, trials, allowed, 0.2)
    yield (
        f"{count(len(tasks), 'task')} x {trials}: {price(len(names) * trials, baseline, at_once)}; an unchanged agent "
        f"shows no sign of a drop in {now.passes + now.no_sign:.0%} of such runs, and is proven to be within "
        f"{allowed:g} in {now.passes:.0%}; a drop of 0.2 is surely one in {fallen.regressed:.0%}, and shows in "
        f"{fallen.regressed + fallen.signs:.0%}"
    )
    if now.passes < POWER:
        enough = trials_needed(tasks, allowed)
        if enough is None:
            yield f"{TRIALS[-1]} trials of each do not prove it in {POWER:.0%}: run more tasks, or allow more"
        else:
            cost = price(len(names) * enough, baseline, at_once)
            yield f"{enough} trials of each, in the baseline too, prove it in {POWER:.0%}: {cost}"


def _successes(source: random.Random, chance: float, trials: int) -> int:
    return sum(source.random() < chance for _ in range(trials))
