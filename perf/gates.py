"""How often gates say what, and what it costs to decide early, by simulation: the tables of docs/guides/gates.md.

    python perf/gates.py baseline|floors|early|early-best|drawn|budget|budget-drop [--runs 400] [--only 50x4]

Tasks are as hard as real ones: a third is nearly always solved, a third nearly never, the rest lies between. The
changed agent is worse by the true drop on average, on the tasks where it can be. Further rows are for agents that solve
every task with one chance, near 1. Seeds are fixed, so the tables are too.
"""

from __future__ import annotations

import argparse
import random
from bisect import bisect_left
from collections import Counter
from math import ceil, sqrt
from typing import NamedTuple

from pytest_a2a_bench.results.budget import Known, Stratum, allot, drop_limits, estimate, guesses
from pytest_a2a_bench.results.inference import LEVEL, Interval, PairedTask, drop_interval, paired_p, wilson
from pytest_a2a_bench.results.sequential import DropBets, early_share, floor_bounds

MIXED = ((50, 1), (50, 2), (50, 4), (50, 8), (114, 1), (114, 4))
NEARLY_PERFECT = ((40, 1, 1.0), (12, 4, 1.0), (50, 4, 1.0), (20, 8, 0.98))
DROPS = (0.0, 0.05, 0.1, 0.15, 0.2)
ALLOWED = 0.05
FLOOR = 0.6
TRUTHS = (0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
RUNS_LENGTHS = ((50, 1), (50, 4), (50, 8), (114, 4))
EARLY_LENGTHS = ((50, 1, 1), (50, 1, 8), (50, 4, 4), (50, 8, 8), (114, 4, 4))
"""Tasks, trials of each, and the baseline's trials of each."""


def chances(tasks: int) -> list[float]:
    third = tasks // 3
    middle = tasks - 2 * third
    return [0.95] * third + [0.05 + 0.9 * (i + 0.5) / middle for i in range(middle)] + [0.05] * third


def worse(before: list[float], drop: float) -> list[float]:
    # The same factor for every task: what is never solved cannot get worse.
    return [p * (1 - drop * len(before) / sum(before)) for p in before]


def shifted(before: list[float], rate: float) -> list[float]:
    """Return chances of the same kinds whose average is another."""
    average = sum(before) / len(before)
    if rate <= average:
        return [p * rate / average for p in before]
    return [1 - (1 - p) * (1 - rate) / (1 - average) for p in before]


def compared(before: list[float], trials: int, drop: float, runs: int) -> Counter[str]:
    """Return how often a run of all trials says what."""
    source = random.Random(len(before) * 1000 + trials)
    after = worse(before, drop)
    said: Counter[str] = Counter()
    for _ in range(runs):
        pairs = [
            PairedTask(trials, _held(source, p, trials), trials, _held(source, q, trials))
            for p, q in zip(before, after, strict=True)
        ]
        low, high = drop_interval(pairs, resamples=300)
        if low > ALLOWED:
            said["regressed"] += 1
        elif high <= ALLOWED:
            said["pass"] += 1
        else:
            said["signs" if paired_p(pairs) < LEVEL else "no sign"] += 1
    return said


def floor(tasks: int, trials: int, rate: float, runs: int) -> tuple[float, float]:
    """Return how often the early verdict of a floor is not what all trials would have measured, and its cost."""
    source = random.Random(tasks * 1000 + trials)
    planned, wrong, held = tasks * trials, 0, 0
    need = ceil(FLOOR * planned - 1e-9)
    # What sequential.Floor asks for after each trial; the same in all runs.
    enough, too_few = list(floor_bounds(planned, need - 1, LEVEL)), list(floor_bounds(planned, planned - need, LEVEL))
    for _ in range(runs):
        outcomes = [source.random() < p for p in shifted(chances(tasks), rate) for _ in range(trials)]
        source.shuffle(outcomes)
        ok = 0
        for seen, success in enumerate(outcomes, 1):
            ok += success
            reached = True if ok >= enough[seen - 1] else False if seen - ok >= too_few[seen - 1] else None
            if reached is not None:
                break
        wrong += reached != (sum(outcomes) >= need)
        held += seen
    return wrong / runs, held / runs / planned


def early(tasks: int, trials: int, known: int, drop: float, runs: int) -> tuple[Counter[str], float]:
    """Return how often a run that may end early says what, and its cost: what is never decided is judged in the end.

    :param known: trials of each task in the baseline, a multiple of the run's.
    """
    source = random.Random(tasks * 1000 + trials)
    before = chances(tasks)
    after = worse(before, drop)
    each = known // trials
    level = LEVEL * early_share(tasks * trials)
    said: Counter[str] = Counter()
    # Runs that lost and gained the same are judged once: with one trial of each task most do.
    judged: dict[tuple[float, ...], Interval] = {}
    held = 0
    for _ in range(runs):
        old = [[source.random() < p for _ in range(known)] for p in before]
        new = [[source.random() < q for _ in range(trials)] for q in after]
        order = [(task, trial) for task in range(tasks) for trial in range(trials)]
        source.shuffle(order)
        bets = DropBets(ALLOWED, level, tasks * trials)
        for task, trial in order:
            held += 1
            bets.take(sum(old[task][trial * each : (trial + 1) * each]) / each - new[task][trial])
            if bets.larger is not None:
                break
        if bets.larger is None:
            pairs = [PairedTask(known, sum(o), trials, sum(n)) for o, n in zip(old, new, strict=True)]
            key = tuple(sorted(pair.drop for pair in pairs))
            if key not in judged:
                judged[key] = drop_interval(pairs, resamples=300, level=LEVEL - level)
            low, high = judged[key]
            said["regressed" if low > ALLOWED else "pass" if high <= ALLOWED else ""] += 1
        else:
            said["regressed" if bets.larger else "pass"] += 1
    return said, held / runs / len(order)


class Law(NamedTuple):
    """How likely a pair of trials is a loss, nothing, and a gain."""

    lost: float
    same: float
    gained: float


def law(before: list[float], drop: float) -> Law:
    """Return that of a pair whose task is drawn."""
    pairs = list(zip(before, worse(before, drop), strict=True))
    lost = sum(p * (1 - q) for p, q in pairs) / len(pairs)
    gained = sum((1 - p) * q for p, q in pairs) / len(pairs)
    return Law(lost, 1 - lost - gained, gained)


def best_early(pairs: int, drop: float, prize: float) -> tuple[float, float]:
    """Return how often the best of all tests calls so many pairs ``regressed``, and its cost, which no other undercuts.

    It knows what no gate knows: how likely losses and gains are if the drop is just what is allowed, and if it is
    ``drop``. By backward induction: it stops where that is worth more than to go on, and is wrong in 5 % at most.

    :param prize: what it is worth to be told of the drop, in pairs.
    """
    allowed, real = law(chances(pairs), ALLOWED), law(chances(pairs), drop)
    cheap, dear = 0.0, 1000 * prize
    # The dearest mistakes are too many; halved until they are 5 %.
    for _ in range(22):
        fine = (cheap + dear) / 2
        stops = _stops(pairs, allowed, real, prize, fine)
        if _told(stops, allowed)[0] > LEVEL:
            cheap = fine
        else:
            dear = fine
    said, held = _told(_stops(pairs, allowed, real, prize, dear), real)
    return said, held / pairs


def _stops(pairs: int, allowed: Law, real: Law, prize: float, fine: float) -> list[set[tuple[int, int]]]:
    """Return after each pair with how many losses and gains to stop."""
    found: list[set[tuple[int, int]]] = [set() for _ in range(pairs + 1)]
    later: dict[tuple[int, int], float] = {}
    for seen in range(pairs, -1, -1):
        values = {}
        for lost in range(seen + 1):
            for gained in range(seen - lost + 1):
                same = seen - lost - gained
                unlikely = (allowed.lost / real.lost) ** lost * (allowed.same / real.same) ** same
                now = prize - fine * unlikely * (allowed.gained / real.gained) ** gained
                go_on = 0.0
                if seen < pairs:
                    go_on = real.lost * later[lost + 1, gained] + real.gained * later[lost, gained + 1]
                    go_on += real.same * later[lost, gained] - 1
                if now > go_on:
                    found[seen].add((lost, gained))
                values[lost, gained] = max(now, go_on)
        later = values
    return found


def _told(stops: list[set[tuple[int, int]]], truth: Law) -> tuple[float, float]:
    """Return how often a stop is reached, and how many pairs are held on average."""
    alive: dict[tuple[int, int], float] = {(0, 0): 1.0}
    said = held = 0.0
    for seen, here in enumerate(stops):
        step: dict[tuple[int, int], float] = {}
        for (lost, gained), likely in alive.items():
            if (lost, gained) in here or seen == len(stops) - 1:
                said += likely * ((lost, gained) in here)
                held += likely * seen
                continue
            for place, chance in zip(((lost + 1, gained), (lost, gained), (lost, gained + 1)), truth, strict=True):
                step[place] = step.get(place, 0.0) + likely * chance
        alive = step
    return said, held


def best_table() -> None:
    """Print what the best early test would say and cost."""
    drops, prizes = (0.15, 0.2, 0.3), (10, 40, 1000)
    _table("50 x 1, worth of the answer in conversations", drops, "drop ")
    for prize in prizes:
        cells = [best_early(50, drop, prize) for drop in drops]
        print(f"| {prize} | " + " | ".join(f"{said:.0%}, {cost:.0%}" for said, cost in cells) + " |", flush=True)


def drawn(tasks: int, trials: int, runs: int, *, broken: bool) -> tuple[float, float]:
    """Return how often an early verdict is wrong about all tasks there are, and about those that ran.

    The tasks of each run are drawn; what is allowed is just what all of them lost: each a little, or some everything.
    """
    source = random.Random(tasks * 1000 + trials)
    kinds = chances(tasks)
    share = ALLOWED * len(kinds) / sum(kinds)
    level = LEVEL * early_share(tasks * trials)
    decided = wrong = 0
    for _ in range(runs):
        before = source.choices(kinds, k=tasks)
        lost = [source.random() < share if broken else share for _ in before]
        after = [p * (1 - part) for p, part in zip(before, lost, strict=True)]
        pairs = [(p, q) for p, q in zip(before, after, strict=True) for _ in range(trials)]
        source.shuffle(pairs)
        bets = DropBets(ALLOWED, level, tasks * trials)
        for p, q in pairs:
            bets.take((source.random() < p) - (source.random() < q))
        decided += bets.larger is True
        wrong += bets.larger is not None and bets.larger != (sum(before) - sum(after) > ALLOWED * tasks)
    return decided / runs, wrong / runs


def drawn_table(runs: int) -> None:
    """Print what early verdicts against a baseline are about."""
    print("| tasks x trials | each task lost a little | some tasks lost everything |\n|---|---|---|")
    for tasks, trials in RUNS_LENGTHS:
        cells = [drawn(tasks, trials, runs, broken=broken) for broken in (False, True)]
        print(f"| {tasks} x {trials} | " + " | ".join(f"{a:.1%}, {b:.1%}" for a, b in cells) + " |", flush=True)


def sure(tasks: int, share: float, rate: float) -> list[float]:
    """Return chances of tasks of which a share is hardly ever, or hardly ever not, solved; the rest lies between."""
    each = int(tasks * share / 2)
    middle = tasks - 2 * each
    return [rate] * each + [0.05 + 0.9 * (i + 0.5) / middle for i in range(middle)] + [1 - rate] * each


BUDGET_KINDS = {
    "a third 0.95, a third 0.05": chances,
    "two thirds 0.99 or 0.01": lambda tasks: sure(tasks, 0.67, 0.99),
    "80 % always or never": lambda tasks: sure(tasks, 0.8, 1.0),
    "all 0.7": lambda tasks: [0.7] * tasks,
    "all 0.98": lambda tasks: [0.98] * tasks,
}
BUDGET_LENGTHS = ((50, 4, 4), (50, 8, 4), (50, 8, 8), (114, 8, 4), (278, 8, 4))
"""Tasks, the baseline's trials of each, and how many of each an even run has. 278 are tau2's in its three domains."""


def changed(before: list[float], how: str, source: random.Random) -> list[float]:
    """Return the chances of an agent that lost 0.1 on average, or nothing."""
    if how == "unchanged":
        return before
    if how == "all worse":
        return worse(before, 0.1)
    after, rest = list(before), 0.1 * len(before)
    if how == "sure ones worse":  # where the baseline let least be held
        most = [i for i, p in enumerate(before) if p >= 0.9] or list(range(len(before)))
        part = min(1.0, rest / sum(before[i] for i in most))
        for i in most:
            after[i] *= 1 - part
        return after
    order = list(range(len(before)))
    source.shuffle(order)
    for i in order:  # some lost everything
        after[i] -= min(rest, before[i])
        rest -= before[i] - after[i]
    return after


CHANGES = ("unchanged", "all worse", "sure ones worse", "some broken")


def budgeted(
    before: list[float],
    known_trials: int,
    budget: int,
    how: str,
    runs: int,
    *,
    by: str = "baseline",
    drop: bool = False,
) -> tuple[float, float]:
    """Return how wide the interval of a run is whose trials a budget gave out, and how often it misses the truth.

    :param by: what it goes by: the ``baseline``; the ``truth``, which nobody knows; as many trials of each task are
        ``even``, with the same interval.
    :param drop: of the drop, each limit at 95 %, of which the worse is told; else of the rate, both limits together.
    """
    source = random.Random(f"{len(before)}/{known_trials}/{how}")
    after = changed(before, how, source)
    truth = sum(before) / len(before) - sum(after) / len(after) if drop else sum(after) / len(after)
    names = [str(i) for i in range(len(before))]
    sure = 10**6
    rates = {n: Known(round(p * sure), sure) for n, p in zip(names, before, strict=True)}
    trials = dict.fromkeys(names, budget // len(names))
    if by == "truth":
        trials = allot(dict.fromkeys(names, 32), rates, budget)
    width, below, above = 0.0, 0, 0
    for _ in range(runs):
        known = {n: Known(_held(source, p, known_trials), known_trials) for n, p in zip(names, before, strict=True)}
        if by == "baseline":
            trials = allot(dict.fromkeys(names, 32), known, budget)
        ok = {n: _held(source, p, trials[n]) for n, p in zip(names, after, strict=True)}
        if drop:
            low, high = drop_limits([PairedTask(known[n].trials, known[n].ok, trials[n], ok[n]) for n in names])
        else:
            guessed = guesses(known, names)
            _, low, high, _ = estimate([Stratum(trials[n], ok[n], guessed[n]) for n in names])
        width += high - low
        below += low > truth + 1e-9
        above += high < truth - 1e-9
    return width / runs, (max(below, above) if drop else below + above) / runs


def plain_width(before: list[float], known_trials: int, each: int, runs: int, *, drop: bool) -> float:
    """Return how wide the interval of a run without a budget is."""
    source = random.Random(f"{len(before)}/{known_trials}")
    found = 0.0
    for _ in range(runs):
        now = [_held(source, p, each) for p in before]
        interval: Interval = wilson(sum(now), each * len(now))
        if drop:
            old = [_held(source, p, known_trials) for p in before]
            pairs = [PairedTask(known_trials, o, each, n) for o, n in zip(old, now, strict=True)]
            interval = drop_interval(pairs, resamples=300)
        found += interval.high - interval.low
    return found / runs


def budget_table(runs: int, *, drop: bool) -> None:
    """Print which share of an even run's trials a budget needs for the same width, and how often it is wrong."""
    print("| chances | tasks x trials (baseline) | width | even | known | budget | " + " | ".join(CHANGES) + " |")
    print("|---|---|---|---|---|---|" + "---|" * len(CHANGES))
    for name, kind in BUDGET_KINDS.items():
        for tasks, known, each in BUDGET_LENGTHS:
            before = kind(tasks)
            wanted = plain_width(before, known, each, runs, drop=drop)
            needed = []
            for by in ("even", "truth", "baseline"):
                # By whole trials of each task where they are even, else by a twentieth.
                parts = each if by == "even" else 20
                shares = [i / parts for i in range(1, 4 * parts) if i * each >= parts]
                found = bisect_left(
                    shares,
                    -wanted,
                    key=lambda share: (
                        -budgeted(
                            before,
                            known,
                            round(share * tasks * each),
                            "unchanged",
                            max(40, runs // 10),
                            by=by,
                            drop=drop,
                        )[0]
                    ),
                )
                needed.append(f"{shares[found]:.0%}" if found < len(shares) else "more")
            wrong = [budgeted(before, known, tasks * each, how, runs, drop=drop)[1] for how in CHANGES]
            cells = [f"{wanted:.3f}", *needed, *(f"{share:.1%}" for share in wrong)]
            print(f"| {name} | {tasks} x {each} ({known}) | {' | '.join(cells)} |", flush=True)
    if drop:
        # Neyman's: the average spread squared, over the average squared spread.
        spreads = {name: [sqrt(p * (1 - p)) for p in kind(600)] for name, kind in BUDGET_KINDS.items()}
        least = {name: sum(s) ** 2 / len(s) / sum(x * x for x in s) for name, s in spreads.items()}
        print("\nof countless tasks, with known rates: " + ", ".join(f"{n}: {share:.0%}" for n, share in least.items()))


def _held(source: random.Random, chance: float, trials: int) -> int:
    return sum(source.random() < chance for _ in range(trials))


def _table(first: str, columns: tuple[float, ...], word: str = "") -> None:
    print(f"| {first} | " + " | ".join(f"{word}{column:g}" for column in columns) + " |")
    print("|---|" + "---|" * len(columns))


def _lengths(only: str) -> list[tuple[int, int]]:
    return [(tasks, trials) for tasks, trials in RUNS_LENGTHS if not only or only == f"{tasks}x{trials}"]


def baseline_table(runs: int) -> None:
    """Print verdicts, and how many merges the policies of ``--a2a-inconclusive`` stop."""
    rows = [(f"{tasks} x {trials}", chances(tasks), trials) for tasks, trials in MIXED]
    rows += [(f"{tasks} x {trials}, rate {rate:g}", [rate] * tasks, trials) for tasks, trials, rate in NEARLY_PERFECT]
    found = {name: [compared(before, trials, drop, runs) for drop in DROPS] for name, before, trials in rows}
    _table("regressed / pass", DROPS, "drop ")
    for name, every in found.items():
        cells = [f"{said['regressed'] / runs:.0%} / {said['pass'] / runs:.0%}" for said in every]
        print(f"| {name} | {' | '.join(cells)} |")
    print()
    _table("stopped by pass / signs / fail", DROPS, "drop ")
    for name, every in found.items():
        stopped = [(said["regressed"], said["regressed"] + said["signs"], runs - said["pass"]) for said in every]
        cells = [" / ".join(f"{number / runs:.0%}" for number in numbers) for numbers in stopped]
        print(f"| {name} | {' | '.join(cells)} |")


def floor_table(runs: int, only: str) -> None:
    """Print what early verdicts of a floor cost, and how often they are wrong."""
    _table(f"floor {FLOOR:g}, true rate", TRUTHS)
    for tasks, trials in _lengths(only):
        cells = [floor(tasks, trials, rate, runs) for rate in TRUTHS]
        shown = " | ".join(f"{wrong:.1%}, {cost:.0%}" for wrong, cost in cells)
        print(f"| {tasks} x {trials} | {shown} |", flush=True)


def early_table(runs: int, only: str) -> None:
    """Print what early verdicts against a baseline say, and cost."""
    drops = (-0.1, *DROPS, 0.3)
    _table("tasks x trials (baseline)", drops, "drop ")
    for tasks, trials, known in EARLY_LENGTHS:
        if only and only != f"{tasks}x{trials}":
            continue
        cells = [early(tasks, trials, known, drop, runs) for drop in drops]
        shown = " | ".join(
            f"{said['regressed'] / runs:.1%} / {said['pass'] / runs:.1%}, {cost:.0%}" for said, cost in cells
        )
        print(f"| {tasks} x {trials} ({known}) | {shown} |", flush=True)


def main() -> None:
    """Print one of the tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "table", choices=("baseline", "floors", "early", "early-best", "drawn", "budget", "budget-drop")
    )
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", default="", metavar="TASKSxTRIALS", help="one row of floors or early")
    asked = parser.parse_args()
    if asked.table == "floors":
        floor_table(asked.runs, asked.only)
    elif asked.table == "early":
        early_table(asked.runs, asked.only)
    elif asked.table == "early-best":
        best_table()
    elif asked.table == "drawn":
        drawn_table(asked.runs)
    elif asked.table.startswith("budget"):
        budget_table(asked.runs, drop=asked.table == "budget-drop")
    else:
        baseline_table(asked.runs)


if __name__ == "__main__":
    main()
