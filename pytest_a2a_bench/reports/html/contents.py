"""What a page is made of (pure)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.conformance.report import CheckRow
from pytest_a2a_bench.gates.files import StoredVerdict
from pytest_a2a_bench.gates.terms import DECIDED_ERROR
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.reports.summary import benchmark_notes, caveats, dialect_of
from pytest_a2a_bench.results.agents import AgentComparison
from pytest_a2a_bench.results.compare import Comparison
from pytest_a2a_bench.results.history import Entry
from pytest_a2a_bench.settings import BUILTIN_PREFIX


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that a page shows.

    :param endpoint: the agent's URL without secrets, or ``builtin:NAME``; empty where it is not known.
    :param agent: name and version from its card.
    :param interface: protocol version and transport.
    :param checks: what came of judging the protocol.
    :param explanations: what is to be said about checks, by :func:`~pytest_a2a_bench.reports.html.conformance.name_of`.
    :param comparison: this run beside an earlier one; ``baseline_name`` says which.
    :param beside: the same trials of that run by their keys, where their conversations are there.
    :param nodeids: the pytest items of trials, by their keys.
    :param compared: each further agent of the run against the first.
    :param notes: more that must be known before numbers are compared.
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
    made_at: str = ""
    history: Sequence[Entry] = ()

    def with_known_endpoint(self) -> Contents:
        """Return the same with the endpoint that the trials' requests went to, where none was given."""
        # The first request of each trial is enough.
        if self.endpoint:
            return self
        found = Counter(m.endpoint for r in self.trials for m in r.metrics[:1])
        return dataclasses.replace(self, endpoint=found.most_common(1)[0][0]) if found else self


def cautions(contents: Contents) -> list[str]:
    """Return what must be known before the numbers are compared with any others."""
    notes = list(contents.notes)
    trials = contents.trials
    if any(r.provenance.get("user") == "scripted" for r in trials):
        notes.append("The user is scripted. These are not leaderboard numbers: those need a model that plays the user.")
    if any(r.provenance.get("user") == "a2a" for r in trials):
        notes.append("An A2A agent plays the user. These are not leaderboard numbers: those need tau2's own simulator.")
    notes += [f"{told[0].upper()}{told[1:]}." for told in (*benchmark_notes(trials), *caveats(trials))]
    # The header would look like any agent's.
    if contents.endpoint.startswith(BUILTIN_PREFIX):
        notes.append(f"The agent is one of the harness's own ({contents.endpoint}): it shows that the harness works.")
    decided = sum(r.error_type == DECIDED_ERROR for r in trials)
    if decided:
        were = f"{decided:,} of {len(trials):,} trials were not held"
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
    """Return what produced the numbers: names and values."""
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
    # One value needs no count.
    found = Counter(str(v) for v in values if v)
    if len(found) <= 1:
        return next(iter(found), "")
    shown = [f"{value} ({count:,})" for value, count in found.most_common(4)]
    return ", ".join(shown) + (f" and {len(found) - 4} more" if len(found) > 4 else "")
