"""Evaluate stored conversations again, with the evaluators that are installed now."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.benchmarks import models
from pytest_a2a_bench.benchmarks.base import evaluated_by, rescorer
from pytest_a2a_bench.benchmarks.registry import get_benchmark
from pytest_a2a_bench.cli._settings import load_settings, moved_places
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports.summary import judge_spread
from pytest_a2a_bench.results import manifest, merge

if TYPE_CHECKING:
    from pytest_a2a_bench.model import Reward, TrialResult


CHANGED = 1
NOT_EVALUATED = 2


def run(namespace: Namespace, directory: Path) -> int:
    """Rescore, and show the differences."""
    found = manifest.load_selected(directory)
    # Who judges is said anew, because it costs.
    loaded = load_settings(namespace)
    options = moved_places(loaded, found.manifest.settings)
    settings = Settings(
        judge_llm=namespace.judge_llm,
        judge_times=loaded.settings.judge_times,
        user_llm_args=loaded.settings.user_llm_args,
        benchmark_options=options,
    )
    for _, problem in models.model_problems(settings):
        raise ConfigurationError(f"--judge-llm: {problem}")
    trials = merge.rescore(found, lambda r: evaluate(r, settings), datetime.now(UTC).isoformat(timespec="seconds"))
    for trial in trials:
        for line in trial.differences():
            print(line)
    for key in found.absent:
        print(f"{key}: there is no result")
    output = directory if namespace.in_place else namespace.output
    if output is not None:
        run_id = f"rescored-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(3).hex()}"
        merge.write_rescored(found, trials, output, run_id)
    changed = sum(trial.changed for trial in trials)
    failed = sum(trial.problem is not None for trial in trials) + len(found.absent)
    print(
        f"{len(trials) + len(found.absent)} trials: {changed} rewards changed, "
        f"{len(trials) - sum(t.problem is not None for t in trials) - changed} are the same, {failed} not evaluated"
        + (f"; written to {output}" if output is not None else "; nothing was written (-o DIR, --in-place)")
    )
    for line in judge_spread(trial.result for trial in trials):
        print(line)
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
