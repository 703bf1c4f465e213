"""Baselines: the outcomes of an earlier run, small enough to be kept under version control.

A file (``a2a-bench gate DIR --write-baseline baseline.json``) has no transcripts::

    {"schema": "a2a-bench/baseline", "schema_version": 1, "created_at": "...", "run_ids": ["..."],
     "measured": {"tau2/airline": {"benchmark": ["tau2 1.0"], "dialect": ["tool_call"], "user": ["scripted"], ...}},
     "tasks": {"tau2/airline/12": {"outcomes": [1, 0, 1], "errors": 0}}}

``outcomes`` are the evaluated trials of a task, in their order; ``errors`` counts those that could not be evaluated, or
that the run was asked for and has no result of.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey, TrialResult, dollars
from pytest_a2a_bench.model.messages import Finite, Limits
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.stats import count, domain_name, task_name
from pytest_a2a_bench.results.store import Store, StoredForm, StoreError
from pytest_a2a_bench.text import listed, reason_of

NO_CONDITIONS = frozenset(
    {"category", "interactive", "metric", "measured", "split", "dialect_option", "judge_llm", "replayed", "variant"}
    | {"rescored", "rescored_from", "replaced", "edition", "corrected", "defects", "other_data"}
    | {"imported_from", "imported_agent"}
    # Estimates tokens and costs, which no reward depends on.
    | {"agent_model"}
    # Of a task, or of the machine that it ran on; what was chosen in the end is a condition.
    | {"user_judgement", "given_messages", "retrieval_why", "task_version"}
    # What happened in it.
    | {"native_calls", "native_calls_refused", "org_day", "shortcut"}
)
"""Members of a result's provenance that do not make two numbers incomparable where they differ. Any other does, also
one that only its benchmark knows: forgetting to name one here costs a comparison, never a wrong one. Tasks are paired
by name, so the split is not among the conditions."""

BY_TASK = ("dialect", "evaluation_type", "judge", "judge_times", "extractor")
"""Likewise, but a task or the agent decides which of several values a trial has, so that runs may share only some."""

_NO_VALUE = {"dialect": ("auto",), "extractor": ("literal",)}
"""Values of trials that did not come to the point where there is a choice."""

_OF_AGENT = re.compile(r".*:(?P<agent>[A-Za-z][A-Za-z0-9_]*)", re.DOTALL)

Measured = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Suite and domain -> name of a condition -> the values that occurred, sorted."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """The outcomes of one task.

    :param outcomes: whether each evaluated trial succeeded, in the order of the trials.
    :param errors: trials that could not be evaluated (infrastructure, evaluator, harness), or that are missing; skipped
        ones do not count.
    :param version: which one it is, where tasks change one by one; empty where that is not known.
    """

    outcomes: tuple[Annotated[int, Limits((("ge", 0), ("le", 1)))], ...] = ()
    # Each is taken for a miss where the worst is asked for, which takes memory.
    errors: Annotated[int, Limits((("ge", 0), ("lt", 1_000_000)))] = 0
    version: str = ""


@dataclass(frozen=True, slots=True)
class StoredBaseline:
    """The members of a baseline's file.

    :param tasks: task key (``tau2/airline/12``, with ``@label`` and ``:agent`` if there is one) to its outcomes.
    :param measured: the conditions of each suite/domain.
    :param seconds: of a trial on average, and ``cost_usd`` of one; None where it is not known.
    :param cost_estimated: whether that cost is partly an estimate.
    """

    tasks: Mapping[str, TaskRecord] = field(default_factory=dict)
    measured: Measured = field(default_factory=dict)
    run_ids: tuple[str, ...] = ()
    created_at: str = ""
    seconds: Finite | None = None
    cost_usd: Finite | None = None
    cost_estimated: bool = False


@dataclass(frozen=True, slots=True)
class Baseline(StoredBaseline):
    """The measurements of a run, and where they are from.

    :param source: where it was read from, for messages.
    :param absent: keys of trials that the run was asked for and has no result of.
    :param chosen: whether the run's trials were named one by one, so that their rate says nothing about the agent's.
    :param notes: remarks about the file or directory that it was read from.
    """

    source: str = ""
    absent: tuple[str, ...] = ()
    chosen: bool = False
    notes: tuple[str, ...] = ()

    @property
    def cost(self) -> str:
        """The average cost of a trial, in words."""
        return dollars(self.cost_usd, estimated=self.cost_estimated)

    @property
    def trials(self) -> int:
        """How many trials were evaluated."""
        return sum(len(t.outcomes) for t in self.tasks.values())

    @property
    def evaluated(self) -> tuple[str, ...]:
        """The tasks of which a trial was evaluated."""
        return tuple(name for name, record in self.tasks.items() if record.outcomes)

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents that it is of, sorted; none where agents had no names."""
        # A task's own id may end as an agent's name would; what was measured is kept by domain, and says whose it is.
        return tuple(
            sorted({match["agent"] for match in map(_OF_AGENT.fullmatch, self.measured or self.tasks) if match})
        )

    def only(self, agent: str) -> Baseline:
        """Return the part that is one agent's, in which nothing has its name any more; all, where agents had none."""
        if not self.agents:
            return self
        tail = f":{agent}"
        return dataclasses.replace(
            self,
            tasks={n.removesuffix(tail): record for n, record in self.tasks.items() if n.endswith(tail)},
            measured={n.removesuffix(tail): found for n, found in self.measured.items() if n.endswith(tail)},
            absent=tuple(key for key in self.absent if TrialKey.parse(key).agent == agent),
        )

    def named(self, agent: str) -> Baseline:
        """Return the same of an agent with a name."""
        return dataclasses.replace(
            self,
            tasks={f"{n}:{agent}": record for n, record in self.tasks.items()},
            measured={f"{n}:{agent}": found for n, found in self.measured.items()},
        )

    def to_json(self) -> dict[str, Any]:
        """Return the file's content."""
        whole = BASELINE.to_json(self)
        for name in {f.name for f in fields(self)} - {f.name for f in fields(StoredBaseline)}:
            del whole[name]
        whole["tasks"] = {
            name: {**task, "outcomes": [*map(int, task["outcomes"])]} for name, task in sorted(whole["tasks"].items())
        }
        return whole

    @classmethod
    def of(cls, results: Iterable[TrialResult], source: str = "") -> Baseline:
        """Make one of trial results."""
        # By trial number within a task, whatever order workers finished in.
        every = sorted(
            results, key=lambda r: (r.key.suite, r.key.domain, r.key.task_id, r.key.label or "", r.key.trial)
        )
        evaluated = [r for r in every if r.status == "evaluated"]
        costs = [r.cost for r in evaluated if r.cost is not None]
        outcomes: dict[str, list[bool]] = defaultdict(list)
        errors: dict[str, int] = defaultdict(int)
        versions: dict[str, str] = {}
        for result in every:
            name = task_name(result.key)
            versions[name] = str(result.provenance.get("task_version") or versions.get(name, ""))
            if result.status == "evaluated":
                outcomes[name].append(result.success)
            # A skipped trial was not tried for want of a judge, and is no error.
            elif result.status != "skipped":
                errors[name] += 1
        return cls(
            tasks={n: TaskRecord(tuple(outcomes[n]), errors[n], versions[n]) for n in sorted({*outcomes, *errors})},
            measured=measured_by(every),
            run_ids=tuple(sorted({r.run_id for r in every if r.run_id})),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            source=source,
            seconds=round(sum(r.duration for r in evaluated) / len(evaluated), 3) if evaluated else None,
            cost_usd=round(sum(costs) / len(costs), 6) if costs else None,
            cost_estimated=any(r.spent.estimated for r in evaluated),
        )


BASELINE = StoredForm(
    StoredBaseline,
    " is not a baseline that this version reads",
    "make one with: a2a-bench gate RESULTS-DIR --write-baseline FILE",
    ConfigurationError,
    schema="a2a-bench/baseline",
)


def load(path: Path, what: str = "baseline ") -> Baseline:
    """Read a baseline from a file, or from a results directory: the trials of its last run, where it says which.

    :param what: before its name in messages; empty where it may be any run.
    :raises ConfigurationError: with its problem in one line.
    """
    try:
        found = _of_directory(path) if path.is_dir() else _of_file(path)
    except StoreError as error:
        raise ConfigurationError(f"{what}{path}: {error}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{what}{error}") from error
    if not found.trials:
        raise ConfigurationError(f"{what}{path}: no trial in it was evaluated, so there is nothing to compare with")
    return found


def _of_file(path: Path) -> Baseline:
    try:
        stored = BASELINE.read(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {reason_of(error)}") from error
    return Baseline(**{f.name: getattr(stored, f.name) for f in fields(stored)}, source=str(path))


def _of_directory(directory: Path) -> Baseline:
    """Read the trials of the last run, or, where nothing says which these are, all."""
    # Written by hand or by an older version: then all files count.
    if not (directory / manifest.NAME).exists():
        results = list(Store(directory).read_all())
        if not results:
            raise StoreError("the directory holds no trial files (trials/*.json)")
        return Baseline.of(results, str(directory))
    # The last run's trials only: a directory may hold earlier ones of other selections.
    run = manifest.load_selected(directory)
    found = Baseline.of(run.every, str(directory))
    notes = list(run.unreadable)
    absent = tuple(run.absent)
    if absent:
        some = listed(absent, 3)
        have = "has" if len(absent) == 1 else "have"
        notes.append(f"{len(absent):,} of the run's {count(len(run.manifest.keys), 'trial')} {have} no result ({some})")
    notes += manifest.about_others(run.others)
    return dataclasses.replace(found, absent=absent, chosen=run.manifest.named, notes=tuple(notes))


def measured_by(results: Iterable[TrialResult]) -> Measured:
    """Return the conditions under which trials were evaluated, by suite and domain."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for result in results:
        if result.status != "evaluated":
            continue
        values = {**result.provenance, "dialect": result.dialect}
        noise = values.get("noise")
        rates = noise.get("rates") if isinstance(noise, Mapping) else None
        if isinstance(rates, Mapping):  # its events are those of the agent's own calls
            values["noise"] = ", ".join(f"{kind}={rate}" for kind, rate in sorted(rates.items()))
        # None, "" and False say nothing; a benchmark that leaves a member out is the same as one that says so.
        for name, value in values.items():
            if name not in NO_CONDITIONS and value not in (None, "", False, *_NO_VALUE.get(name, ())):
                found[domain_name(result.key)][name].add(_text(value))
    return {suite: {n: tuple(sorted(v)) for n, v in names.items()} for suite, names in found.items()}


def differences(
    before: Measured, after: Measured, tasks: tuple[Collection[str], Collection[str]] = ((), ())
) -> Iterator[str]:
    """Yield the conditions that differ, in each domain that both have.

    :param tasks: the names of tasks with evaluated trials, of either run: a domain that has some is a run's also where
        the run does not say how it was measured.
    """
    for domain in sorted({*before, *after}):
        if not all(domain in run or _any_of(domain, names) for run, names in zip((before, after), tasks, strict=True)):
            continue
        was, now = before.get(domain, {}), after.get(domain, {})
        # Conditions that a task or the agent decides are last, as they tell least.
        for name in sorted({**was, **now}, key=lambda name: name in BY_TASK):
            old, new = was.get(name, ()), now.get(name, ())
            # Exactly the same, or at least one in common where a task or the agent decides.
            differs = old != new if name not in BY_TASK else old and new and set(old).isdisjoint(new)
            if differs:
                yield difference(domain, name, old, new)


def difference(domain: str, name: str, old: tuple[str, ...], new: tuple[str, ...]) -> str:
    """Return the sentence about a condition of a suite and domain that had other values."""
    return f"{domain}: {name} was {_words(old, new)} and is {_words(new, old)}"


def _any_of(domain: str, tasks: Iterable[str]) -> bool:
    """Return whether any task is of a domain, and of its agent where agents have names (``tau2/airline:ours``)."""
    name, _, agent = domain.partition(":")
    return any(task.startswith(f"{name}/") and (not agent or task.endswith(f":{agent}")) for task in tasks)


def _text(value: Any) -> str:
    """Return a value as text that is the same for the same data, and short."""
    if not isinstance(value, Mapping):
        return str(value)
    # Data sets are described by objects; their hash tells versions apart in a line that people can read.
    digest = hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]
    return f"{value.get('name', '')} {digest}".strip()


def _words(values: tuple[str, ...], others: tuple[str, ...]) -> str:
    # A switch is stored where it is on.
    is_switch = "True" in (*values, *others)
    return " + ".join("on" if value == "True" else value for value in values) or ("off" if is_switch else "none")
