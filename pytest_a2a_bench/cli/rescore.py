"""``a2a-bench rescore DIR``: evaluate stored conversations again, with the evaluators that are installed now.

Prints what differs. Exits with 2 where something could not be evaluated, else with 1 where a reward changed.
"""

from __future__ import annotations

import dataclasses
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_a2a_bench.model import Reward, TrialResult
    from pytest_a2a_bench.settings import Settings


CHANGED = 1
NOT_EVALUATED = 2


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="results directory")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", type=Path, metavar="DIR", help="new directory for the results")
    where.add_argument("--in-place", action="store_true", help="replace the results in DIR")
    parser.add_argument("--judge-llm", metavar="MODEL", help="model that judges what a benchmark leaves to a judge")
    parser.add_argument("--crm-data", metavar="DIR|hub", help="CRMArena's data, if they are elsewhere now")


def run(namespace: Namespace) -> int:
    """Rescore, and show the differences."""
    import os
    import time
    from datetime import UTC, datetime

    from pytest_a2a_bench.results import rescore, selected

    found = selected.load(namespace.directory)
    settings = _settings(found.manifest.settings, namespace.judge_llm, namespace.crm_data)
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


def _settings(asked: Mapping[str, Any], judge: str | None, crm_data: str | None) -> Settings:
    """Return the run's own settings where they name data; who judges is said anew, because it costs."""
    from pytest_a2a_bench.settings import Settings

    known = {field.name for field in dataclasses.fields(Settings)}
    data = {name: value for name, value in asked.items() if name.startswith("crm_") and name in known}
    if crm_data is not None:
        data["crm_data"] = crm_data
    return Settings(judge_llm=judge, **data)


def evaluate(result: TrialResult, settings: Settings) -> tuple[Reward, str]:
    """Let a trial's benchmark evaluate it again.

    :raises A2ABenchError: if the benchmark cannot.
    """
    from pytest_a2a_bench.benchmarks.base import evaluator, get_benchmark, rescorer

    benchmark = get_benchmark(result.key.suite)
    reward = rescorer(benchmark)(result, settings)
    return reward, evaluator(benchmark, result.key.domain, settings)
