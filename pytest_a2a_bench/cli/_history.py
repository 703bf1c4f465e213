"""Show runs over time: which tasks went bad and since when, which are flaky."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.results import history, manifest
from pytest_a2a_bench.results.baseline import load
from pytest_a2a_bench.results.gates.files import VERDICT, VERDICT_FILE
from pytest_a2a_bench.text import one_line


def run(namespace: Namespace) -> int:
    """Print the runs and what they show."""
    if namespace.add is not None:
        try:
            history.append(namespace.history, entry_of(namespace.add))
        except OSError as error:
            raise ConfigurationError(f"{namespace.history}: cannot be written: {error.strerror}") from error
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
    for line in history.trend_lines(found):
        print(one_line(line, 2_000))
    return 0


def entry_of(directory: Path) -> history.Entry:
    """Return the run of a results directory as a line of a history.

    :raises ConfigurationError: if it is none.
    """
    if not directory.is_dir():
        raise ConfigurationError(f"{directory} is not a results directory (--a2a-results)")
    measured = load(directory)
    run = manifest.load(directory)
    try:
        verdict = VERDICT.read(directory / VERDICT_FILE)
        outcome = verdict.verdict if verdict.run_id in run.runs else ""
    except FileNotFoundError:
        outcome = ""
    return history.Entry.of(measured, os.environ, run_id=run.run_id, agent=run.agent, verdict=outcome)
