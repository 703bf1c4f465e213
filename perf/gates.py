"""How often the baseline gate says what, by simulation: its false alarms and its power, as in docs/guides/gates.md.

    python perf/gates.py [--runs 400]

Tasks are as hard as real ones: a third is nearly always solved, a third nearly never, the rest lies between. The
changed agent is worse by the true drop on average, on the tasks where it can be. Further rows are for agents that solve
every task with one chance, near 1. Seeds are fixed, so the table is too.
"""

from __future__ import annotations

import argparse
import random

from pytest_a2a_bench.results.inference import LEVEL, PairedTask, drop_interval, drop_of, paired_p

MIXED = ((50, 1), (50, 2), (50, 4), (50, 8), (114, 1), (114, 4))
NEARLY_PERFECT = ((40, 1, 1.0), (12, 4, 1.0), (50, 4, 1.0), (20, 8, 0.98))
DROPS = (0.0, 0.05, 0.1, 0.15, 0.2)
ALLOWED = 0.05


def chances(tasks: int) -> list[float]:
    third = tasks // 3
    middle = tasks - 2 * third
    return [0.95] * third + [0.05 + 0.9 * (i + 0.5) / middle for i in range(middle)] + [0.05] * third


def worse(before: list[float], drop: float) -> list[float]:
    # The same factor for every task: what is never solved cannot get worse.
    return [p * (1 - drop * len(before) / sum(before)) for p in before]


def simulate(before: list[float], trials: int, drop: float, runs: int) -> tuple[float, float]:
    """Return how often the gate says regressed, and pass."""
    source = random.Random(len(before) * 1000 + trials)
    after = worse(before, drop)
    regressed = passed = 0
    for _ in range(runs):
        pairs = [
            PairedTask(trials, _held(source, p, trials), trials, _held(source, q, trials))
            for p, q in zip(before, after, strict=True)
        ]
        if drop_of(pairs) > ALLOWED and paired_p(pairs) < LEVEL:
            regressed += 1
        elif drop_interval(pairs, resamples=300).high <= ALLOWED:
            passed += 1
    return regressed / runs, passed / runs


def _held(source: random.Random, chance: float, trials: int) -> int:
    return sum(source.random() < chance for _ in range(trials))


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    runs = parser.parse_args().runs
    print("| tasks x trials | " + " | ".join(f"drop {d:g}" for d in DROPS) + " |")
    print("|---|" + "---|" * len(DROPS))
    rows = [(f"{tasks} x {trials}", chances(tasks), trials) for tasks, trials in MIXED]
    rows += [(f"{tasks} x {trials}, rate {rate:g}", [rate] * tasks, trials) for tasks, trials, rate in NEARLY_PERFECT]
    for name, before, trials in rows:
        cells = [simulate(before, trials, drop, runs) for drop in DROPS]
        shown = " | ".join(f"{r:.0%} / {p:.0%}" for r, p in cells)
        print(f"| {name} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
