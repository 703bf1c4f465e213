"""``a2a-bench plan``: what runs can tell and cost, by trials, tasks and allowed drop, before any is paid for.

With --baseline by simulation from its tasks; with --min-pass how often an agent is found at or above a floor.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from pytest_a2a_bench.configuration.rates import read_drop, read_rate
from pytest_a2a_bench.configuration.readers import whole
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports.verdict import aligned
from pytest_a2a_bench.results import planning
from pytest_a2a_bench.results.baseline import Baseline, load
from pytest_a2a_bench.results.inference import POWER

_TRIALS = (1, 2, 4, 8, 16)
_ALLOWED = (0.03, 0.05, 0.1, 0.15)
_AROUND = (-0.15, -0.1, -0.05, 0.0, 0.05, 0.1, 0.15)

T = TypeVar("T")


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--baseline", metavar="FILE|DIR", help="Earlier run to be compared with")
    parser.add_argument("--max-drop", metavar="RATE", default="0.05", help="Drop of the success rate to allow (0.05)")
    parser.add_argument("--min-pass", metavar="RATE", help="Floor")
    parser.add_argument("--power", metavar="RATE", default=str(POWER), help="How often a run is to tell (%(default)s)")
    parser.add_argument("--tasks", metavar="N", help="Tasks that will be run (the baseline's, else 50)")


def run(namespace: Namespace) -> int:
    """Print the tables."""
    if not namespace.baseline and not namespace.min_pass:
        raise ConfigurationError("there is nothing to plan for: add --baseline FILE, --min-pass RATE, or both")
    allowed = _read("--max-drop", read_drop, namespace.max_drop)
    power = _read("--power", read_drop, namespace.power)
    number = _read("--tasks", whole(1), namespace.tasks) if namespace.tasks else 0
    baseline = load(Path(namespace.baseline)) if namespace.baseline else None
    blocks = []
    if namespace.min_pass:
        floor = _read("--min-pass", read_rate, namespace.min_pass)
        here = len(planning.tasks_of(baseline)) if baseline else 50
        blocks.append(list(_floor_lines(floor, number or here)))
    if baseline is not None:
        blocks.append(list(_drop_lines(baseline, number, allowed, power)))
    print("\n\n".join("\n".join(block) for block in blocks))
    return 0


def _read(name: str, read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise ConfigurationError(f"{name}: {error}") from error


def _floor_lines(floor: float, tasks: int) -> Iterator[str]:
    rates = [rate for rate in (floor + d for d in _AROUND) if 0 <= rate <= 1]
    yield f"at or above a floor of {floor:g}, by the agent's true rate, with {tasks} tasks:"
    table = [["trials", "conversations", *(f"{rate:.2f}" for rate in rates)]]
    for trials in _TRIALS:
        found = [planning.floor_chance(rate, floor, tasks * trials) for rate in rates]
        table.append([str(trials), f"{tasks * trials:,}", *(f"{chance:.0%}" for chance in found)])
    yield from aligned(table)


def _drop_lines(baseline: Baseline, number: int, allowed: float, power: float) -> Iterator[str]:
    tasks = planning.tasks_of(baseline)
    tasks = planning.resized(tasks, number) if number else tasks
    yield f"{len(tasks)} tasks, a drop of {allowed:g} allowed; what a run will say of an agent that is"
    table = [
        [
            "trials",
            "cost",
            "unchanged: pass",
            "no sign",
            "0.1 worse: regressed",
            "signs",
            "0.2 worse: regressed",
            "signs",
        ]
    ]
    for trials in _TRIALS:
        same, worse, bad = (planning.chances(tasks, trials, allowed, drop) for drop in (0.0, 0.1, 0.2))
        shown = (same.passes, same.no_sign, worse.regressed, worse.signs, bad.regressed, bad.signs)
        cost = planning.price(len(tasks) * trials, baseline)
        table.append([str(trials), cost, *(f"{chance:.0%}" for chance in shown)])
    yield from aligned(table)
    yield ""
    yield f"trials of each task, in the baseline too, with which an unchanged agent passes in {power:.0%} of runs,"
    yield "by tasks and allowed drop:"
    grid = [["tasks", *(f"{drop:g}" for drop in _ALLOWED)]]
    for size in (max(1, len(tasks) // 2), len(tasks), 2 * len(tasks)):
        some = planning.resized(tasks, size)
        needed = [planning.trials_needed(some, drop, power) for drop in _ALLOWED]
        grid.append([str(size), *(str(n) if n else f"> {planning.TRIALS[-1]}" for n in needed)])
    yield from aligned(grid)
