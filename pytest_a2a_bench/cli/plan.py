"""``a2a-bench plan``: what runs can tell and cost, by trials, tasks and allowed drop, before any is paid for.

With --baseline by simulation from its tasks, with --budget also of so many conversations that are given to those that
say most; with --min-pass how often an agent is found at or above a floor.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pytest_a2a_bench.configuration.rates import read_budget, read_drop, read_rate
from pytest_a2a_bench.configuration.readers import whole
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports.verdict import aligned
from pytest_a2a_bench.results import planning
from pytest_a2a_bench.results.baseline import Baseline, load
from pytest_a2a_bench.results.budget import affordable, allot, known_of, worth
from pytest_a2a_bench.results.inference import POWER
from pytest_a2a_bench.results.stats import count

_TRIALS = (1, 2, 4, 8, 16)
_ALLOWED = (0.03, 0.05, 0.1, 0.15)
_MOST = 8
"""Trials of a task that a budget may hold, as with ``--a2a-max-trials`` by default."""
_AROUND = (-0.15, -0.1, -0.05, 0.0, 0.05, 0.1, 0.15)

T = TypeVar("T")


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--baseline", metavar="FILE|DIR", help="Earlier run to be compared with")
    parser.add_argument("--max-drop", metavar="RATE", default="0.05", help="Drop of the success rate to allow (0.05)")
    parser.add_argument("--min-pass", metavar="RATE", help="Floor")
    parser.add_argument("--power", metavar="RATE", default=str(POWER), help="How often a run is to tell (%(default)s)")
    parser.add_argument(
        "--budget", metavar="N|$X", help="Conversations (or dollars) to be given to the baseline's tasks"
    )
    parser.add_argument("--tasks", metavar="N", help="Tasks that will be run (the baseline's, else 50)")


def run(namespace: Namespace) -> int:
    """Print the tables."""
    if not namespace.baseline and not namespace.min_pass:
        raise ConfigurationError("there is nothing to plan for: add --baseline FILE, --min-pass RATE, or both")
    allowed = _read("--max-drop", read_drop, namespace.max_drop)
    power = _read("--power", read_drop, namespace.power)
    budget = _read("--budget", read_budget, namespace.budget) if namespace.budget else 0
    if budget and not namespace.baseline:
        raise ConfigurationError("--budget goes by what an earlier run measured of each task: add --baseline FILE")
    if budget and namespace.tasks:
        raise ConfigurationError("--budget is given to the baseline's own tasks: leave --tasks out")
    number = _read("--tasks", whole(1), namespace.tasks) if namespace.tasks else 0
    baseline = load(Path(namespace.baseline)) if namespace.baseline else None
    blocks = []
    if namespace.min_pass:
        floor = _read("--min-pass", read_rate, namespace.min_pass)
        here = len(planning.tasks_of(baseline)) if baseline else 50
        blocks.append(list(_floor_lines(floor, number or here)))
    if baseline is not None:
        # First: what it refuses is said at once, and the tables take a while.
        bought = [list(_budget_lines(baseline, budget, allowed))] if budget else []
        blocks += [list(_drop_lines(baseline, number, allowed, power)), *bought]
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


_SAID = ("unchanged: pass", "no sign", "0.1 worse: regressed", "signs", "0.2 worse: regressed", "signs")


def _said(tasks: Sequence[planning.Task], trials: int | Sequence[int], allowed: float) -> list[str]:
    same, worse, bad = (planning.chances(tasks, trials, allowed, drop) for drop in (0.0, 0.1, 0.2))
    shown = (same.passes, same.no_sign, worse.regressed, worse.signs, bad.regressed, bad.signs)
    return [f"{chance:.0%}" for chance in shown]


def _drop_lines(baseline: Baseline, number: int, allowed: float, power: float) -> Iterator[str]:
    tasks = planning.tasks_of(baseline)
    tasks = planning.resized(tasks, number) if number else tasks
    yield f"{len(tasks)} tasks, a drop of {allowed:g} allowed; what a run will say of an agent that is"
    table = [["trials", "cost", *_SAID]]
    for trials in _TRIALS:
        cost = planning.price(len(tasks) * trials, baseline)
        table.append([str(trials), cost, *_said(tasks, trials, allowed)])
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


def _budget_lines(baseline: Baseline, budget: float, allowed: float) -> Iterator[str]:
    known = known_of(baseline)
    try:
        shares = allot(dict.fromkeys(known, _MOST), known, affordable(budget, baseline))
    except ValueError as error:
        raise ConfigurationError(f"--budget: {error}") from error
    each = list(shares.values())
    held = planning.price(sum(each), baseline)
    yield f"a budget of {held}: {count(len(each), 'task')}, {min(each)} to {max(each)} trials each"
    yield from aligned([["", *_SAID], ["budget", *_said(planning.tasks_of(baseline), each, allowed)]])
    if same := worth(shares, known):
        yield f"the rate will be known as well as from about {same:,} spread evenly"
