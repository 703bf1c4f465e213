"""``a2a-bench rescore DIR``: evaluate stored conversations again, with the evaluators that are installed now.

Prints what differs. Exits with 2 where something could not be evaluated, else with 1 where a reward changed.
"""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.benchmarks.base import evaluated_by, rescorer
from pytest_a2a_bench.benchmarks.registry import get_benchmark
from pytest_a2a_bench.cli._places import add_places, benchmark_options
from pytest_a2a_bench.cli._results import results_directory
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.results import manifest, rescore
from pytest_a2a_bench.settings import Settings
from pytest_a2a_bench.trials import models

if TYPE_CHECKING:
    from pytest_a2a_bench.model import Reward, TrialResult


CHANGED = 1
NOT_EVALUATED = 2


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("directory", type=results_directory, metavar="DIR", help="results directory")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", type=results_directory, metavar="DIR", help="new directory for the results")
    where.add_argument("--in-place", action="store_true", help="replace the results in DIR")
    parser.add_argument("--judge-llm", metavar="MODEL", help="model that judges what a benchmark leaves to a judge")
    add_places(parser)


def run(namespace: Namespace) -> int:
    """Rescore, and show the differences."""
    found = manifest.load_selected(namespace.directory)
    # Who judges is said anew, because it costs.
    options = benchmark_options(found.manifest.settings, namespace)
    settings = Settings(judge_llm=namespace.judge_llm, benchmark_options=options)
    for _, problem in models.find_problems(settings):
        raise ConfigurationError(f"--judge-llm: {problem}")
    trials = rescore.rescore(found, lambda r: evaluate(r, settings), datetime.now(UTC).isoformat(timespec="seconds"))
    for trial in trials:
        for line in trial.differences():
            print(line)
    for key in found.absent:
        print(f"{key}: there is no result")
    output = namespace.directory if namespace.in_place else namespace.output
    if output is not None:
        run_id = f"rescored-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(3).hex()}"
        rescore.write(found, trials, output, run_id)
    changed = sum(trial.changed for trial in trials)
    failed = sum(trial.problem is not None for trial in trials) + len(found.absent)
    print(
        f"{len(trials) + len(found.absent)} trials: {changed} rewards changed, "
        f"{len(trials) - sum(t.problem is not None for t in trials) - changed} are the same, {failed} not evaluated"
        + (f"; written to {output}" if output is not None else "; nothing was written (-o DIR)")
    )
    if failed:
        return NOT_EVALUATED
    return CHANGED if changed else 0


def evaluate(result: TrialResult, settings: Settings) -> tuple[Reward, Mapping[str, Any]]:
    """Let a trial's benchmark evaluate it again.

    :raises A2ABenchError: if the benchmark cannot.
    """
    benchmark = get_benchmark(result.key.suite)
    reward = rescorer(benchmark)(result, settings)
    return reward, evaluated_by(benchmark, result.key, settings)
