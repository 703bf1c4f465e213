"""How often gates say what, and what it costs to decide early, by simulation: the tables of docs/guides/gates.md.

    python perf/gates.py baseline|floors|early|drawn [--runs 400] [--only 50x4]

Tasks are as hard as real ones: a third is nearly always solved, a third nearly never, the rest lies between. The
changed agent is worse by the true drop on average, on the tasks where it can be. Further rows are for agents that solve
every task with one chance, near 1. Seeds are fixed, so the tables are too.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from math import ceil

from pytest_a2a_bench.results.gates.early import DropBets, early_share, floor_bounds
from pytest_a2a_bench.results.inference import LEVEL, Interval, PairedTask, drop_interval, paired_p

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


def _held(source: random.Random, chance: float, trials: int) -> int:
    return sum(source.random() < chance for _ in range(trials))


def _table(first: str, columns: tuple[float, ...], word: str = "") -> None:
    print(f"| {first} | " + " | ".join(f"{word}{column:g}" for column in columns) + " |")
    print("|---|" + "---|" * len(columns))


def _lengths(only: str) -> list[tuple[int, int]]:
    return [(tasks, trials) for tasks, trials in RUNS_LENGTHS if not only or only == f"{tasks}x{trials}"]


def baseline_table(runs: int) -> None:
    """Print verdicts, and how many merges the policies of ``inconclusive`` stop."""
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
    parser.add_argument("table", choices=("baseline", "floors", "early", "drawn"))
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", default="", metavar="TASKSxTRIALS", help="one row of floors or early")
    asked = parser.parse_args()
    if asked.table == "floors":
        floor_table(asked.runs, asked.only)
    elif asked.table == "early":
        early_table(asked.runs, asked.only)
    elif asked.table == "drawn":
        drawn_table(asked.runs)
    else:
        baseline_table(asked.runs)


if __name__ == "__main__":
    main()
