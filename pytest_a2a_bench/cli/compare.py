"""``a2a-bench compare A B``: changes from one run to another, by domain and by task, with the statistics.

``--history PATH`` shows the runs of a history file over time instead: rates, tasks that went bad, flaky ones.

Exit code 0 unless B regressed (1), or the comparison is inconclusive (with --strict, 1): the runs do not compare, there
are too few trials, or those of B that could not be evaluated may hide a drop.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_a2a_bench.cli._settings import results_directory
from pytest_a2a_bench.config.rates import read_drop
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports import summary
from pytest_a2a_bench.results import history, inference, manifest
from pytest_a2a_bench.results.baseline import load
from pytest_a2a_bench.results.compare import compare, judge_drop, passes_at_worst
from pytest_a2a_bench.results.gates.files import VERDICT, VERDICT_FILE
from pytest_a2a_bench.results.stats import count, spans
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.text import one_line, refusing

if TYPE_CHECKING:
    from pytest_a2a_bench.results.baseline import Baseline
    from pytest_a2a_bench.results.compare import Comparison


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "runs", nargs="*", type=results_directory, metavar="A B", help="results directories or baseline files"
    )
    parser.add_argument("--max-drop", metavar="RATE", default="0.05", help="Drop of the success rate to allow (0.05)")
    parser.add_argument("--strict", action="store_true", help="Exit with 1 also for an inconclusive comparison")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="Output (text)")
    over_time = parser.add_argument_group("over time")
    over_time.add_argument("--history", type=Path, metavar="PATH", help="file or directory of --a2a-history-file")
    over_time.add_argument("--add", type=Path, metavar="DIR", help="add the run of a results directory first")
    over_time.add_argument("--last", type=int, metavar="N", default=20, help="runs to list (20)")


def run(namespace: Namespace) -> int:
    """Compare the runs and print the changes."""
    if namespace.history is not None:
        if namespace.runs:
            raise ConfigurationError("--history shows the runs of a history; leave out the two runs")
        if namespace.strict or namespace.format != "text":
            raise ConfigurationError("--history compares no two runs; leave out --strict and --format")
        if namespace.last < 1:
            raise ConfigurationError(f"--last {namespace.last}: it is a number of runs, 1 or more")
        return _compare_with_history(namespace)
    if namespace.add is not None:
        raise ConfigurationError("--add belongs to --history PATH")
    if len(namespace.runs) != 2:
        raise ConfigurationError("give two runs, A and B, or --history PATH")
    namespace.before, namespace.after = namespace.runs
    try:
        allowed = read_drop(namespace.max_drop)
    except ValueError as error:
        raise ConfigurationError(f"--max-drop: {error}") from error
    before, after = load(namespace.before, ""), load(namespace.after, "")
    for found in (before, after):
        for note in found.notes:
            print(f"{found.source}: {note}", file=sys.stderr)
    # As the gate of the later run does.
    comparison = compare(before, after)
    if comparison.overall is None:
        raise ConfigurationError(f"{namespace.before} and {namespace.after} have no evaluated task in common")
    outcome = "inconclusive" if comparison.differences else judge_drop(comparison.overall, allowed)
    # The trials that ended in an error count in neither rate: a pass that they could turn over is no pass.
    hidden = outcome == "pass" and comparison.errors_after and not passes_at_worst(before, after, allowed)
    outcome = "inconclusive" if hidden else outcome
    if namespace.format == "json":
        print(
            json.dumps(
                {
                    "verdict": outcome,
                    "allowed": allowed,
                    "cost_usd": [before.cost_usd, after.cost_usd],
                    **comparison.to_json(),
                },
                indent=1,
            )
        )
    else:
        _print_verdict(comparison, outcome, allowed)
        _print_errors(comparison, hidden=bool(hidden))
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 160
        for line in summary.comparison_lines(comparison, width):
            print(line)
        spent = [_spent("A", namespace.before, before), _spent("B", namespace.after, after)]
        if any(cell != "-" for row in spent for cell in row[1:]):
            print("\n".join(summary.aligned([["", *summary.SPENT], *spent])))
    return int(outcome == "regressed" or (namespace.strict and outcome == "inconclusive"))


def _spent(name: str, path: Path, baseline: Baseline) -> list[str]:
    """Return cost, times and tokens of a run's trials; of a baseline's file only the cost is known."""
    return [name, *summary.spent(Store(path).read_readable()[0] if path.is_dir() else (), baseline)]


def _print_verdict(comparison: Comparison, outcome: str, allowed: float) -> None:
    print(f"verdict: {outcome} (allowed drop {allowed:g})")
    group = comparison.overall
    if group is not None and judge_drop(group, allowed) == "inconclusive" and not comparison.differences:
        has = min(min(p.before, p.after) for p in comparison.pairs)
        enough = max(inference.trials_to_tell(comparison.pairs, allowed), has + 1)
        print(f"too few trials to tell: {inference.enough_words(enough, has)}")


def _print_errors(comparison: Comparison, *, hidden: bool) -> None:
    for name, number in (("A", comparison.errors_before), ("B", comparison.errors_after)):
        if number:
            tail = "; taken for misses they could be a drop beyond what is allowed" if hidden and name == "B" else ""
            print(f"{count(number, 'trial')} of {name} could not be evaluated{tail}")


def _compare_with_history(namespace: Namespace) -> int:
    """Print the runs and their trend."""
    if namespace.add is not None:
        with refusing(f"{namespace.history}: cannot be written"):
            history.append(namespace.history, entry_of(namespace.add))
    entries = history.read(namespace.history)
    found = history.trend(entries)
    if found is None:
        raise ConfigurationError(f"{namespace.history}: there is no run in it; pytest --a2a-history-file adds them")
    for entry in entries[-namespace.last :]:
        won, every = entry.trials
        rate = "-" if entry.rate is None else f"{entry.rate:.3f}"
        cost = () if entry.cost_usd is None else (f"${entry.cost_usd:.4f} each",)
        cells = (
            entry.at,
            rate,
            f"{won}/{every}",
            entry.verdict or "-",
            entry.revision or "-",
            entry.agent or "-",
            *cost,
        )
        print("  ".join(one_line(cell, 60) for cell in cells))
    for line in summary.trend_lines(found):
        print(one_line(line, 2_000))
    return 0


def entry_of(directory: Path) -> history.Entry:
    """Return the run of a results directory as a line of a history; raises ConfigurationError if it is none."""
    if not directory.is_dir():
        raise ConfigurationError(f"{directory} is not a results directory (--a2a-results)")
    measured = load(directory, "")
    run = manifest.load(directory)
    why = ""
    if measured.absent:
        why = f"{len(measured.absent)} of its trials have no result (--a2a-resume goes on)"
    elif run.named:
        why = "its trials were named one by one"
    elif run.shard is not None:
        why = "it is a shard; merge them"
    if why:
        raise ConfigurationError(f"{directory} is not added to the history: {why}")
    try:
        verdict = VERDICT.read(directory / VERDICT_FILE)
        outcome = verdict.verdict if verdict.run_id in run.runs else ""
    except FileNotFoundError:
        outcome = ""
    entry = history.Entry.of(measured, os.environ, run_id=run.run_id, agent=run.card[0], verdict=outcome)
    # Not when it is added: a history is in the order of its runs.
    times = [end for _, end in spans(manifest.read_own(run, directory).results)]
    return replace(entry, at=datetime.fromtimestamp(max(times), UTC).isoformat(timespec="seconds")) if times else entry
