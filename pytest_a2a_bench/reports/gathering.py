"""What a report page shows, read from the files of a run, an earlier one and its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.conformance.stored import REPORT
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.gates.files import VERDICT, VERDICT_FILE
from pytest_a2a_bench.reports.html import Contents, now
from pytest_a2a_bench.reports.html.conformance import rows_of
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.agents import agent_names, compare_agents
from pytest_a2a_bench.results.baseline import Baseline, load
from pytest_a2a_bench.results.compare import compare
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import Store, StoreError

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.report import CheckRow
    from pytest_a2a_bench.gates.files import StoredVerdict
    from pytest_a2a_bench.model import TrialResult
    from pytest_a2a_bench.results.agents import AgentComparison
    from pytest_a2a_bench.results.compare import Comparison
    from pytest_a2a_bench.results.history import Entry


def gather(directory: Path, baseline: Path | None, conformance: Path | None, past: Sequence[Entry] = ()) -> Contents:
    """Read everything that a page shows.

    :param baseline: an earlier run's directory, or a baseline's file.
    :param past: earlier runs and this one.
    :raises ConfigurationError: if there are no trials, or a file is not what it should be.
    """
    if not directory.is_dir():
        raise ConfigurationError(f"{directory}: no such directory; give a run's --a2a-results")
    trials = list(Store(directory).read_all())
    if not trials:
        raise ConfigurationError(f"{directory}: there are no trial files (trials/*.json) in it")
    asked = _manifest(directory)
    found, notes = _verdict(directory, asked, trials)
    if found is None and asked is not None:
        notes += _unfinished(asked, trials)
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
        beside=beside(baseline, trials) if baseline else {},
        compared=_compared(found, trials),
        history=past,
        **_known_of(asked),
        notes=[*notes, *about_baseline],
        made_at=now(),
    )


def beside(baseline: Path, trials: Sequence[TrialResult]) -> dict[str, TrialResult]:
    """Return the trials of an earlier run that belong beside these, by the keys of these; none of a baseline's file.

    Where the very same trial is not there, it is the first one of the same task.
    """
    if not baseline.is_dir():
        return {}
    others = {str(r.key): r for r in Store(baseline).read_all()}
    of_task: dict[str, TrialResult] = {}
    for other in others.values():
        of_task.setdefault(other.key.task_key, other)
    found = {str(r.key): others.get(str(r.key)) or of_task.get(r.key.task_key) for r in trials}
    return {key: other for key, other in found.items() if other is not None}


def of_manifest(directory: Path) -> dict[str, Any]:
    """Return ``nodeids`` of :class:`.Contents`, which only a run's manifest has."""
    return _known_of(_manifest(directory))


def _known_of(asked: manifest.Manifest | None) -> dict[str, Any]:
    if asked is None:
        return {}
    return {"nodeids": {key: nodeid for nodeid, key in asked.nodeids.items()}}


def _manifest(directory: Path) -> manifest.Manifest | None:
    try:
        return manifest.load(directory)
    except StoreError:  # shards that were joined by hand have none
        return None


def _verdict(
    directory: Path, asked: manifest.Manifest | None, trials: list[TrialResult]
) -> tuple[StoredVerdict | None, list[str]]:
    """Return what the verdict's file says, where it is about these trials, and what to say where it is not."""
    try:
        found = VERDICT.read(directory / VERDICT_FILE)
    except FileNotFoundError:
        return None, []
    runs = {r.run_id for r in trials}
    if asked is not None and found.run_id not in asked.runs:
        return None, [f"The verdict in {VERDICT_FILE} is of an earlier run than the last one here, and is not shown."]
    if found.run_id not in runs:
        return None, [f"The verdict in {VERDICT_FILE} is of another run than these trials, and is not shown."]
    notes = []
    if found.trials.not_run:
        notes.append(f"Of the run, {count(found.trials.not_run, 'trial')} more had not begun when it was stopped.")
    if len(runs) > 1:
        notes.append(f"The verdict is of run {found.run_id} alone; the trials below are of {len(runs)} runs.")
    return found, notes


def _unfinished(asked: manifest.Manifest, trials: list[TrialResult]) -> list[str]:
    """Say how much of the last run is missing where no verdict does: it goes on, or was killed."""
    own = [r for r in trials if r.run_id in asked.runs]
    absent = len(set(asked.keys) - {str(r.key) for r in own})
    if not absent:
        return []
    lacking = f"{count(absent, 'trial')} of {len(asked.keys)}"
    notes = [f"The last run here, {asked.run_id}, goes on or was stopped: there is no result of {lacking}."]
    if others := len(trials) - len(own):
        notes.append(f"Of the trials below, {others} of {len(trials)} are of earlier runs.")
    return notes


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
    comparison = compare(found, Baseline.of(trials))
    return comparison, [f"The baseline {path}: {note}." for note in found.notes]
