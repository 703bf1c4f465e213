"""``a2a-bench compare A B``: what changed from one run to another, by domain and by task, with the statistics.

Exit code 0 unless B regressed (1), or the runs cannot be compared or told apart by that many trials (with --strict, 1).
"""

from __future__ import annotations

import json
import shutil
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from pytest_a2a_bench.errors import ConfigurationError

NAME = "compare"
HELP = "compare two runs, paired by task"


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("before", metavar="A", help="The earlier run: a results directory or a baseline file")
    parser.add_argument("after", metavar="B", help="The later run, likewise")
    parser.add_argument("--max-drop", metavar="RATE", default="0.05", help="Drop of the success rate to allow (0.05)")
    parser.add_argument("--strict", action="store_true", help="Exit with 1 too where nothing can be told")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="Output (text)")


def run(namespace: Namespace) -> int:
    """Compare the runs and print what changed."""
    from pytest_a2a_bench.gate_options import read_drop
    from pytest_a2a_bench.results.baseline import load
    from pytest_a2a_bench.results.compare import compare, judge_drop

    try:
        allowed = read_drop(namespace.max_drop)
    except ValueError as error:
        raise ConfigurationError(f"--max-drop: {error}") from error
    comparison = compare(load(Path(namespace.before)), load(Path(namespace.after)))
    if comparison.overall is None:
        raise ConfigurationError(f"{namespace.before} and {namespace.after} have no evaluated task in common")
    outcome = "inconclusive" if comparison.differences else judge_drop(comparison.overall, allowed)
    if namespace.format == "json":
        print(json.dumps({"verdict": outcome, "allowed": allowed, **comparison.to_json()}, indent=1))
    else:
        _print(comparison, outcome, allowed)
    return int(outcome == "regressed" or (namespace.strict and outcome == "inconclusive"))


def _print(comparison: Any, outcome: str, allowed: float) -> None:
    from pytest_a2a_bench.reports import verdict
    from pytest_a2a_bench.results import inference

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 160
    for line in verdict.comparison_lines(comparison, width):
        print(line)
    print(f"verdict: {outcome} (allowed drop {allowed:g})")
    if outcome == "inconclusive" and not comparison.differences:
        has = min(min(p.before, p.after) for p in comparison.pairs)
        enough = max(inference.trials_to_tell(comparison.pairs, allowed), has + 1)
        print(f"about {enough} trials of each task in both runs would be enough to tell (there are {has})")
