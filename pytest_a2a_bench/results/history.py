"""The history of runs: a line of JSON for each, which version control merges as lines.

    {"schema": "a2a-bench/history", "schema_version": 1, "run_id": "...", "at": "2026-11-22T18:00:00+00:00",
     "agent": "desk 1.2", "revision": "3f2a1bc", "verdict": "pass", "measured": {...},
     "tasks": {"tau2/airline/12": [3, 4, 0]}, "cost_usd": 0.013}

A task has how many of its trials succeeded, how many were evaluated, and how many could not be. A file holds all runs;
a directory holds a file for each, so that runs that end together never write the same one.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model.messages import Count, Finite
from pytest_a2a_bench.results.baseline import Baseline, Measured, differences
from pytest_a2a_bench.results.store import StoredForm
from pytest_a2a_bench.text import one_line, reason_of

ENDING = ".jsonl"

_REVISIONS = ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILD_SOURCEVERSION", "CIRCLE_SHA1", "GIT_COMMIT")
"""Variables in which CI systems have the commit under test; the first that is set is taken."""
_SHOWN_REVISION = 12


@dataclass(frozen=True, slots=True)
class Entry:
    """One run.

    :param at: when it ended, ISO 8601.
    :param revision: the commit under test, as the CI system names it.
    :param cost_usd: the average cost of a conversation, if the agent reported it.
    :param tasks: task -> trials that succeeded, that were evaluated, and that could not be.
    """

    run_id: str
    at: str
    agent: str = ""
    revision: str = ""
    verdict: str = ""
    measured: Measured = field(default_factory=dict)
    tasks: Mapping[str, tuple[Count, Count, Count]] = field(default_factory=dict)
    cost_usd: Finite | None = None

    @classmethod
    def of(cls, measured: Baseline, environ: Mapping[str, str], *, run_id: str, agent: str, verdict: str) -> Entry:
        """Make an entry from the measurements of a run."""
        revision = next((environ[name] for name in _REVISIONS if environ.get(name)), "")[:_SHOWN_REVISION]
        tasks = {n: (sum(t.outcomes), len(t.outcomes), t.errors) for n, t in sorted(measured.tasks.items())}
        when, cost = measured.created_at, measured.cost_usd
        return cls(run_id, when, agent, revision, verdict, measured.measured, tasks, cost)

    @property
    def evaluated(self) -> tuple[str, ...]:
        """The tasks of which a trial was evaluated."""
        return tuple(name for name, (_, every, _) in self.tasks.items() if every)

    @property
    def trials(self) -> tuple[int, int]:
        """How many trials succeeded, and how many there were; those that could not be evaluated did not succeed."""
        return sum(t[0] for t in self.tasks.values()), sum(t[1] + t[2] for t in self.tasks.values())

    @property
    def rate(self) -> float | None:
        """The average of its tasks' rates: tasks may have unequal numbers of trials."""
        return _average(self.tasks.values())

    @property
    def name(self) -> str:
        """Its name in reports: day and commit, or day and run id."""
        return " ".join(filter(None, [self.at[:10], self.revision or self.run_id]))

    def rates(self) -> dict[str, float]:
        """Return the average of the tasks' rates by suite and domain."""
        groups: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for task, found in self.tasks.items():
            groups[task.rpartition("/")[0]].append(found)
        return {name: rate for name, found in groups.items() if (rate := _average(found)) is not None}


def _average(tasks: Iterable[tuple[int, int, int]]) -> float | None:
    rates = [won / (evaluated + errors) for won, evaluated, errors in tasks if evaluated + errors]
    return sum(rates) / len(rates) if rates else None


def _check(entry: Entry) -> str | None:
    wrong = next((task for task, (won, every, _) in entry.tasks.items() if won > every), None)
    return None if wrong is None else f"tasks.{one_line(wrong, 120)}: more trials succeeded than were evaluated"


HISTORY = StoredForm(
    Entry,
    " is no run of a history that this version reads",
    "remove the line",
    ConfigurationError,
    schema="a2a-bench/history",
    check=_check,
)


def append(path: Path, entry: Entry) -> Path:
    """Add a run, and return the file that it is in.

    :param path: a file, which is made where it is not there; a directory gets a file for the run.
    :raises OSError: if it cannot be written.
    """
    target = path / f"{entry.run_id}{ENDING}" if path.is_dir() else path
    target.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(HISTORY.to_json(entry), separators=(",", ":")).encode() + b"\n"
    with target.open("ab+") as stream:
        # A file that an editor left without its last line's end would join two runs.
        if stream.tell() and _last_byte(stream) != b"\n":
            line = b"\n" + line
        # At once, for runs that end together.
        stream.write(line)
    return target


def _last_byte(stream: Any) -> bytes:
    stream.seek(-1, os.SEEK_END)
    return bytes(stream.read(1))


def read(path: Path) -> list[Entry]:
    """Return the runs of a file or directory, the oldest first, each once.

    :raises ConfigurationError: one line that names the file and the line that cannot be read.
    """
    files = sorted(path.glob(f"*{ENDING}")) if path.is_dir() else [path]
    found: dict[str, Entry] = {}
    for file in files:
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigurationError(f"history {file}: cannot be read: {reason_of(error)}") from error
        for number, line in enumerate(content.splitlines(), 1):
            if line.strip():
                entry = HISTORY.parse(line, Path(f"{file}:{number}"))
                found[entry.run_id] = entry
    return sorted(found.values(), key=lambda e: (e.at, e.run_id))


@dataclass(frozen=True, slots=True)
class Turned:
    """A task that has not succeeded since a run, and had before.

    :param since: the first bad run; :param last_good: the one before it in which all of its trials succeeded.
    """

    task: str
    since: Entry
    last_good: Entry
    runs: int


@dataclass(frozen=True, slots=True)
class Trend:
    """A history seen from its last run.

    :param runs: the runs that are comparable with the last one, the oldest first, the last one included.
    :param left_out: how many do not: measured with another user, judge or benchmark.
    :param turned: tasks that went bad, those of the last runs first.
    :param flaky: task -> its trials that succeeded and all of them, where it went there and back in these runs.
    """

    runs: tuple[Entry, ...]
    left_out: int = 0
    turned: tuple[Turned, ...] = ()
    flaky: Mapping[str, tuple[int, int]] = field(default_factory=dict)


_FLIPS = 2
"""How often a task changes between good and bad before it is called flaky: a fix or a break alone is one."""


def trend(entries: Sequence[Entry]) -> Trend | None:
    """Return a history seen from its last run; None for an empty one."""
    if not entries:
        return None
    last = entries[-1]
    runs = tuple(e for e in entries if not any(differences(e.measured, last.measured, (e.evaluated, last.evaluated))))
    turned: list[Turned] = []
    flaky: dict[str, tuple[int, int]] = {}
    for task in last.tasks:
        # Only runs that say something about it: one that was cut short, or in which nothing was evaluated, does not.
        known = [(e, e.tasks[task]) for e in runs if task in e.tasks and e.tasks[task][1]]
        states = [won == every for _, (won, every, _) in known]
        flips = sum(a != b for a, b in itertools.pairwise(states))
        if flips >= _FLIPS:
            flaky[task] = (sum(t[0] for _, t in known), sum(t[1] for _, t in known))
        elif flips == 1 and not states[-1]:
            first = states.index(False)
            turned.append(Turned(task, known[first][0], known[first - 1][0], len(states) - first))
    order = sorted(turned, key=lambda t: t.runs)
    return Trend(runs, len(entries) - len(runs), tuple(order), flaky)
