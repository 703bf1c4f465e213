"""``a2a-bench report DIR -o FILE``: make one page of a results directory.

The page needs no network: verdict, charts, every trial and its transcript are in the one file. ``-o DIR/`` keeps the
transcripts in files beside the page, which are read when one is opened.
"""

from __future__ import annotations

import dataclasses
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_a2a_bench.cli._results import results_directory
from pytest_a2a_bench.conformance.stored import REPORT
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.gates.files import VERDICT, VERDICT_FILE
from pytest_a2a_bench.reports.html import Contents, now, write
from pytest_a2a_bench.reports.html.conformance import rows_of
from pytest_a2a_bench.reports.own import write_with
from pytest_a2a_bench.results import history
from pytest_a2a_bench.results.agents import agent_names, compare_agents
from pytest_a2a_bench.results.baseline import Baseline, load
from pytest_a2a_bench.results.compare import compare
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import Store

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.report import CheckRow
    from pytest_a2a_bench.gates.files import StoredVerdict
    from pytest_a2a_bench.model import TrialResult
    from pytest_a2a_bench.results.agents import AgentComparison
    from pytest_a2a_bench.results.compare import Comparison


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("directory", metavar="DIR", type=results_directory, help="Results directory of a run")
    parser.add_argument("-o", "--output", metavar="FILE|DIR/", default="report.html", help="(report.html)")
    parser.add_argument("--format", metavar="NAME", default="html", help="html, or an installed reporter's name (html)")
    parser.add_argument("--baseline", metavar="FILE|DIR", type=results_directory, help="Earlier run to compare with")
    parser.add_argument("--history", metavar="PATH", type=Path, help="Runs of --a2a-history-file, to show over time")
    parser.add_argument(
        "--conformance", metavar="FILE", type=Path, help="Report of: a2a-bench conformance URL --format json"
    )


def run(namespace: Namespace) -> int:
    """Write the page and say where it is."""
    contents = gather(namespace.directory, namespace.baseline, namespace.conformance)
    if namespace.history is not None:
        contents = dataclasses.replace(contents, history=history.read(namespace.history))
    try:
        if namespace.format == "html":
            page = write(namespace.output, contents)
        else:
            page = write_with(namespace.format, Path(namespace.output), contents)
    except OSError as error:
        raise ConfigurationError(f"-o {namespace.output}: cannot be written: {error.strerror or error}") from error
    print(f"{page}: {count(len(contents.trials), 'trial')}")
    return 0


def gather(directory: Path, baseline: Path | None, conformance: Path | None) -> Contents:
    """Read everything that a page shows.

    :raises ConfigurationError: if there are no trials, or a file is not what it should be.
    """
    if not directory.is_dir():
        raise ConfigurationError(f"{directory}: no such directory; give a run's --a2a-results")
    trials = list(Store(directory).read_all())
    if not trials:
        raise ConfigurationError(f"{directory}: there are no trial files (trials/*.json) in it")
    found, notes = _verdict(directory, trials)
    checks, explanations = _checks(conformance) if conformance else ((), {})
    comparison, about_baseline = _comparison(baseline, trials) if baseline else (None, [])
    return Contents(
        trials=trials,
        endpoint=found.agent.endpoint if found else "",
        agent=found.agent.name if found else "",
        interface=found.agent.interface if found else "",
        checks=checks,
        explanations=explanations,
        verdict=found,
        comparison=comparison,
        baseline_name=str(baseline or ""),
        compared=_compared(found, trials),
        notes=[*notes, *about_baseline],
        made_at=now(),
    )


def _verdict(directory: Path, trials: list[TrialResult]) -> tuple[StoredVerdict | None, list[str]]:
    """Return what the verdict's file says, where it is about these trials, and what to say where it is not."""
    try:
        found = VERDICT.read(directory / VERDICT_FILE)
    except FileNotFoundError:
        return None, []
    runs = {r.run_id for r in trials}
    if found.run_id not in runs:
        return None, [f"The verdict in {VERDICT_FILE} is of another run than these trials, and is not shown."]
    notes = []
    if found.trials.not_run:
        notes.append(f"Of the run, {count(found.trials.not_run, 'trial')} more had not begun when it was stopped.")
    if len(runs) > 1:
        notes.append(f"The verdict is of run {found.run_id} alone; the trials below are of {len(runs)} runs.")
    return found, notes


def _compared(found: StoredVerdict | None, trials: list[TrialResult]) -> tuple[AgentComparison, ...]:
    """Compare the agents of a run with the first that was named, as far as its verdict tells which that was."""
    told = [agent.id for agent in found.agents if agent.role == "under test"] if found is not None else []
    there = agent_names(trials)
    names = [name for name in told if name in there] or list(there)
    return compare_agents(trials, names) if len(names) > 1 else ()


def _checks(path: Path) -> tuple[list[CheckRow], dict[str, str]]:
    try:
        return rows_of(REPORT.read(path))
    except FileNotFoundError as error:
        raise ConfigurationError(f"--conformance {path}: cannot be read: {error.strerror}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"--conformance {error}") from error


def _comparison(path: Path, trials: list[TrialResult]) -> tuple[Comparison, list[str]]:
    """Return the comparison, and what is to be said about the baseline."""
    found = load(path)
    return compare(found, Baseline.of(trials)), [f"The baseline {path}: {note}." for note in found.notes]
