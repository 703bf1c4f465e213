"""The contents of a report: a run's trials, an earlier run, the verdict and a conformance report, read from files."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_a2a_bench import extensions
from pytest_a2a_bench.config.settings import BUILTIN_PREFIX
from pytest_a2a_bench.conformance.report import REPORT, CheckRow, StoredReport
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.reports import findings
from pytest_a2a_bench.reports.summary import benchmark_notes, caveats, dialect_of
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.baseline import Baseline, load
from pytest_a2a_bench.results.compare import AgentComparison, Comparison, agent_names, compare, compare_agents
from pytest_a2a_bench.results.gates.files import VERDICT, VERDICT_FILE, StoredVerdict
from pytest_a2a_bench.results.gates.terms import DECIDED_ERROR
from pytest_a2a_bench.results.history import Entry
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import Store, StoreError, write_atomically
from pytest_a2a_bench.text import refusing, shares


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that a report shows.

    :param endpoint: the agent's URL without secrets, or ``builtin:NAME``; empty where it is not known.
    :param agent: name and version from its card.
    :param interface: protocol version and transport.
    :param checks: the results of protocol checks.
    :param explanations: texts of checks, by their names.
    :param comparison: this run beside an earlier one; ``baseline_name`` says which.
    :param beside: the same trials of that run by their keys, where their conversations are there.
    :param nodeids: the pytest items of trials, by their keys.
    :param compared: each further agent of the run against the first.
    :param notes: more that must be known before numbers are compared.
    :param unfinished: the missing parts of the last run, where it goes on or was stopped.
    :param unreadable: the problem of each trial file that cannot be read.
    :param history: earlier runs and this one, the oldest first.
    :param made_at: when, as people read it.
    """

    trials: Sequence[TrialResult] = ()
    endpoint: str = ""
    agent: str = ""
    interface: str = ""
    checks: Sequence[CheckRow] = ()
    explanations: Mapping[str, str] = field(default_factory=dict)
    verdict: StoredVerdict | None = None
    comparison: Comparison | None = None
    baseline_name: str = ""
    beside: Mapping[str, TrialResult] = field(default_factory=dict)
    nodeids: Mapping[str, str] = field(default_factory=dict)
    compared: Sequence[AgentComparison] = ()
    notes: Sequence[str] = ()
    unfinished: Sequence[str] = ()
    unreadable: Sequence[str] = ()
    made_at: str = ""
    history: Sequence[Entry] = ()

    def with_known_endpoint(self) -> Contents:
        """Return the same with the endpoint that the trials' requests went to, where none was given."""
        # The first request of each trial is enough.
        if self.endpoint:
            return self
        found = Counter(m.endpoint for r in self.trials for m in r.metrics[:1])
        return dataclasses.replace(self, endpoint=found.most_common(1)[0][0]) if found else self


def gather(directory: Path, baseline: Path | None, conformance: Path | None, past: Sequence[Entry] = ()) -> Contents:
    """Read everything that a report shows.

    :param baseline: an earlier run's directory, or a baseline's file.
    :param past: earlier runs and this one.
    :raises A2ABenchError: if there are no trials, or a file is not what it should be.
    """
    if not directory.is_dir():
        raise ConfigurationError(f"{directory}: no such directory; give a run's --a2a-results")
    trials, unreadable = Store(directory).read_readable()
    if not trials:
        nothing = f"{directory}: there are no trial files (trials/*.json) in it"
        raise ConfigurationError(next(iter(unreadable.values()), nothing))
    # Shards that were joined by hand have none.
    asked = manifest.load(directory) if (directory / manifest.NAME).exists() else None
    others = 0
    if asked is not None:
        keys = {TrialKey.parse(key).file_stem: key for key in asked.keys}
        # As everywhere else: files of earlier runs or selections do not count, unless the last run has nothing yet.
        own = [r for r in trials if r.run_id in asked.runs and r.key.file_stem in keys]
        trials, others = (own, len(trials) - len(own)) if own else (trials, 0)
        trials += [manifest.missing(keys[stem], asked, why) for stem, why in unreadable.items() if stem in keys]
    found, notes = _verdict(directory, asked, trials)
    checks, explanations = _checks(conformance) if conformance else ((), {})
    comparison, about_baseline = _comparison(baseline, trials) if baseline else (None, [])
    return Contents(
        trials=trials,
        # Merged results have no verdict, and say which agent they are of.
        endpoint=found.agent.endpoint if found else asked.endpoint if asked else "",
        agent=found.agent.name if found else asked.card[0] if asked else "",
        interface=found.agent.interface if found else asked.card[1] if asked else "",
        checks=checks,
        explanations=explanations,
        verdict=found,
        comparison=comparison,
        baseline_name=str(baseline or ""),
        beside=beside(baseline, trials) if baseline else {},
        compared=_compared(found, trials),
        history=past,
        nodeids=_nodeids(asked),
        notes=[
            *notes,
            *(f"{note}." for note in manifest.about_others(others)),
            *about_baseline,
            *(f"This file cannot be read: {text}." for text in unreadable.values()),
        ],
        unfinished=_unfinished(asked, found, trials),
        unreadable=tuple(unreadable.values()),
        made_at=now(),
    )


def beside(baseline: Path, trials: Sequence[TrialResult]) -> dict[str, TrialResult]:
    """Return the trials of an earlier run that belong beside these, by the keys of these; none of a baseline's file.

    Where the very same trial is not there, it is the first one of the same task.
    """
    if not baseline.is_dir():
        return {}
    others = {str(r.key): r for r in Store(baseline).read_readable()[0]}
    of_task: dict[str, TrialResult] = {}
    for other in others.values():
        of_task.setdefault(other.key.task_key, other)
    found = {str(r.key): others.get(str(r.key)) or of_task.get(r.key.task_key) for r in trials}
    return {key: other for key, other in found.items() if other is not None}


def nodeids_of(directory: Path) -> dict[str, str]:
    """Return the pytest item of each trial of a run, by the keys of trials; none where there is no manifest."""
    try:
        return _nodeids(manifest.load(directory))
    except StoreError:
        return {}


def _nodeids(asked: manifest.Manifest | None) -> dict[str, str]:
    return {key: nodeid for nodeid, key in asked.nodeids.items()} if asked is not None else {}


def _verdict(
    directory: Path, asked: manifest.Manifest | None, trials: list[TrialResult]
) -> tuple[StoredVerdict | None, list[str]]:
    """Return the stored verdict if it is about these trials, and otherwise a note that says why it is left out."""
    try:
        found = VERDICT.read(directory / VERDICT_FILE)
    except FileNotFoundError:
        return None, []
    runs = {r.run_id for r in trials}
    if asked is not None and found.run_id not in asked.runs:
        return None, [f"The verdict in {VERDICT_FILE} is of an earlier run than the last one here, and is not shown."]
    if found.run_id not in runs:
        return None, [f"The verdict in {VERDICT_FILE} is of another run than these trials, and is not shown."]
    return found, []


def _unfinished(asked: manifest.Manifest | None, found: StoredVerdict | None, trials: list[TrialResult]) -> list[str]:
    """Describe how much of the last run is missing: it goes on, or was stopped."""
    if asked is None or (found is not None and not (found.trials.cut_short or found.trials.not_run)):
        return []
    own = [r for r in trials if r.run_id in asked.runs]
    absent = len(set(asked.keys) - {str(r.key) for r in own})
    if not absent:
        return []
    if not own:
        every = count(len(asked.keys), "trial")
        return [f"The last run here, {asked.run_id}, has finished none of its {every}: these are of earlier runs."]
    lacking = f"{count(absent, 'trial')} of {len(asked.keys)}"
    return [f"The last run here, {asked.run_id}, goes on or was stopped: there is no result of {lacking}."]


def _compared(found: StoredVerdict | None, trials: list[TrialResult]) -> tuple[AgentComparison, ...]:
    """Compare the agents of a run with the first that was named, as far as its verdict tells which that was."""
    ids = [agent.id for agent in found.agents if agent.role == "under test"] if found is not None else []
    there = agent_names(trials)
    names = [name for name in ids if name in there] or list(there)
    return compare_agents(trials, names) if len(names) > 1 else ()


def _checks(path: Path) -> tuple[list[CheckRow], dict[str, str]]:
    try:
        with refusing(f"{path}: cannot be read"):
            report = REPORT.read(path)
    except ConfigurationError as error:
        raise ConfigurationError(f"--conformance {error}") from error
    return rows_of(report)


def _comparison(path: Path, trials: list[TrialResult]) -> tuple[Comparison, list[str]]:
    """Return the comparison, and notes about the baseline."""
    found = load(path)
    comparison = compare(found, Baseline.of(trials))
    return comparison, [f"The baseline {path}: {note}." for note in found.notes]


def rows_of(report: StoredReport) -> tuple[list[CheckRow], dict[str, str]]:
    """Return the rows of a stored report, and a remark about each, by its name."""
    return list(report.results), {row.name: "\n".join(_lines(row)) for row in report.results}


def _lines(check: CheckRow) -> Iterator[str]:
    yield f"{check.spec}: {check.requirement}"
    if check.waiver is not None:
        yield f"waiver{', expired' if check.waiver.expired else ''}: {check.waiver.reason}"
    if check.reason:
        yield f"reason: {check.reason}"
    yield from (f"explains: {line}" for line in check.explains)
    yield from findings.found_lines(check.findings)


def write_with(name: str, path: Path, contents: Contents) -> Path:
    """Write the report of another package's reporter whole or not at all, readable by its owner only.

    :param name: the reporter's.
    :return: the file.
    :raises ConfigurationError: if there is no such reporter, it raises, or returns something else than text.
    :raises OSError: if the file cannot be written.
    """
    reporter = extensions.load("reporters", name)
    try:
        text = reporter(contents)
    except KeyboardInterrupt:
        raise
    # Also SystemExit and pytest's own exceptions: a run that failed must not end well because of a reporter.
    except BaseException as error:
        raise ConfigurationError(f"the reporter {name!r} failed: {type(error).__name__}: {error}") from error
    if not isinstance(text, str):
        raise ConfigurationError(f"the reporter {name!r} returned {type(text).__name__}, not the text of its file")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)
    return path


def now() -> str:
    """Return the time as a report shows it."""
    return datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


# --- notes ------------------------------------------------------------------------------------------------------------


def cautions(contents: Contents) -> list[str]:
    """Return caveats for comparisons of the numbers with those of other runs."""
    notes = list(contents.notes)
    trials = contents.trials
    if any(r.provenance.get("user") == "scripted" for r in trials):
        notes.append("The user is scripted. These are not leaderboard numbers: those need a model that plays the user.")
    if any(r.provenance.get("user") == "a2a" for r in trials):
        notes.append("An A2A agent plays the user. These are not leaderboard numbers: those need tau2's own simulator.")
    notes += [f"{note[0].upper()}{note[1:]}." for note in (*benchmark_notes(trials), *caveats(trials))]
    # The header would look like any agent's.
    if contents.endpoint.startswith(BUILTIN_PREFIX):
        notes.append(f"The agent is one of the harness's own ({contents.endpoint}): it shows that the harness works.")
    decided = sum(r.error_type == DECIDED_ERROR for r in trials)
    if decided:
        were = f"{decided:,} of {len(trials):,} trials did not run"
        notes.append(f"{were}: every gate was decided before, or the money was spent, and no rate counts them.")
    unjudged = sum(r.status == "skipped" for r in trials) - decided
    if unjudged:
        notes.append(f"{unjudged:,} of {len(trials):,} trials were skipped: they need a judge, and none is configured.")
    absent = sum(r.status == "not_run" for r in trials)
    if absent:
        notes.append(f"{absent:,} of {len(trials):,} trials were not run and count as not passed: the run was stopped.")
    troubled = sum(r.status not in ("evaluated", "skipped", "not_run") for r in trials)
    if troubled:
        notes.append(
            f"{troubled:,} of {len(trials):,} trials ended in an error: they have no reward and count as not passed."
        )
    runs = {r.run_id for r in trials if r.run_id}
    if len(runs) > 1:
        notes.append(f"The trials come from {len(runs)} runs.")
    return notes


def provenance(contents: Contents) -> list[tuple[str, str]]:
    """Return the conditions of the run (agent, user, models, seed, versions) as names and values."""
    trials = contents.trials
    every = (
        ("Agent", contents.agent),
        ("Endpoint", contents.endpoint),
        ("Interface", contents.interface),
        ("User", _counted(r.user for r in trials)),
        ("Judge", _counted(r.provenance.get("judge") or "none" for r in trials)),
        ("Benchmark", _counted(r.provenance.get("benchmark") for r in trials)),
        ("Scoring", _counted(r.provenance.get("scoring") for r in trials)),
        ("Split", _counted(r.provenance.get("split") for r in trials)),
        ("Dialect", _counted(map(dialect_of, trials))),
        ("Run", _counted(r.run_id for r in trials)),
        ("Page made", contents.made_at),
    )
    return [(name, value) for name, value in every if value]


def _counted(values: Iterable[Any]) -> str:
    return shares(Counter(str(v) for v in values if v), "")
