"""Lint of tasks: what a rule is, what it found, and what a benchmark offers to have its tasks looked at.

A suite names the module of its linter (``Suite.linter``), whose ``LINTER`` is a :class:`Linter`: rules are the
benchmark's own, as golds, databases and policies are. What is found is decided without judgement, and said without the
texts and golds of the task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_a2a_bench.settings import Settings

Severity = Literal["error", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From the worst to the mildest."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that may be wrong with a task, and that a machine can decide.

    :param id: in kebab case, and stable: options, files and reports name it.
    :param text: one sentence: what is the matter with a task that it finds.
    :param why: what follows from it for whoever reads a reward.
    :param tells: whether its id says what the gold is, where golds are kept from results: then it is not cited there.
    :param replays: whether it takes replaying a gold; other rules look at the data files only.
    """

    id: str
    severity: Severity
    text: str
    why: str
    replays: bool = False
    tells: bool = False


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One rule's word on one task.

    :param task_id: empty for what is wrong with the data as a whole.
    :param message: what was found, in one line; never a gold's answer or a scenario's text.
    :param place: where in the task, as a JSON pointer; empty for the whole.
    :param file: the data file, as its linter opened it.
    """

    rule: str
    domain: str
    task_id: str
    message: str
    place: str = ""
    file: str = ""

    def to_json(self) -> dict[str, str]:
        """Return a JSON object."""
        return {name: getattr(self, name) for name in ("rule", "domain", "task_id", "message", "place", "file")}


@dataclass(frozen=True, slots=True)
class LintRequest:
    """What is to be looked at.

    :param directory: data of somebody's own; None for those that are installed or that settings name.
    :param split: which tasks.
    :param against: a directory with another edition of the same data.
    :param settings: the benchmark's own options.
    """

    directory: Path | None = None
    split: str = "base"
    against: Path | None = None
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True)
class DomainLint:
    """What was found in one domain.

    :param tasks: how many tasks were looked at.
    :param notes: what could not be looked at, and why.
    """

    domain: str
    tasks: int
    findings: tuple[LintFinding, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Linter:
    """What a benchmark offers.

    :param rules: every rule, in the order of tables.
    :param domains: the domains of a request. Raises ConfigurationError where there are no such data.
    :param lint: looks at one domain with every rule. Raises ConfigurationError for data that cannot be read.
    :param recognises: whether a directory holds data of this benchmark, by its file names.
    :param glance: what the rules that replay nothing say of one task: costs next to nothing, opens no database.
    :param digest: a text that changes with everything that :attr:`lint` depends on (data, code that replays them).
    """

    rules: tuple[Rule, ...]
    domains: Callable[[LintRequest], tuple[str, ...]]
    lint: Callable[[LintRequest, str], DomainLint]
    recognises: Callable[[Path], bool]
    glance: Callable[[LintRequest, str, str], Iterable[LintFinding]]
    digest: Callable[[LintRequest, str], str]

    def rule(self, name: str) -> Rule | None:
        """Return a rule by its id."""
        return next((rule for rule in self.rules if rule.id == name), None)


@dataclass(frozen=True, slots=True)
class LintReport:
    """What the command shows.

    :param source: what was looked at, in words.
    :param rules: the rules that were asked; findings of others are not in it.
    """

    suite: str
    source: str
    rules: tuple[Rule, ...]
    domains: tuple[DomainLint, ...]

    @property
    def findings(self) -> tuple[LintFinding, ...]:
        """Every finding, the worst rules first, then by domain and as the tasks are listed."""
        asked = {rule.id: SEVERITIES.index(rule.severity) for rule in self.rules}
        every = [f for domain in self.domains for f in domain.findings if f.rule in asked]
        places = {rule.id: place for place, rule in enumerate(self.rules)}
        return tuple(sorted(every, key=lambda f: (asked[f.rule], places[f.rule])))

    @property
    def tasks(self) -> int:
        """How many tasks were looked at."""
        return sum(domain.tasks for domain in self.domains)

    def severity_of(self, finding: LintFinding) -> Severity:
        """Return how much a finding weighs."""
        return next(rule.severity for rule in self.rules if rule.id == finding.rule)

    def counts(self) -> Iterator[tuple[Rule, dict[str, tuple[int, int]]]]:
        """Yield each rule that found something, the worst first, with its numbers by domain: tasks, and findings."""
        found = self.findings
        for rule in sorted(self.rules, key=lambda rule: SEVERITIES.index(rule.severity)):
            own = [f for f in found if f.rule == rule.id]
            if own:
                findings = Counter(f.domain for f in own)
                tasks = Counter(domain for domain, _ in {(f.domain, f.task_id) for f in own})
                yield rule, {domain: (tasks[domain], findings[domain]) for domain in findings}

    def fails(self, worst: Severity) -> bool:
        """Tell whether anything is at least as bad as a severity."""
        limit = SEVERITIES.index(worst)
        return any(SEVERITIES.index(self.severity_of(f)) <= limit for f in self.findings)


def read_findings(data: Any) -> tuple[LintFinding, ...]:
    """Read what :meth:`LintFinding.to_json` wrote, as stored by this package.

    :raises ValueError: if it is anything else.
    """
    if not isinstance(data, list):
        raise ValueError("no list of findings")
    names = ("rule", "domain", "task_id", "message", "place", "file")
    found = []
    for entry in data:
        if not isinstance(entry, dict) or any(not isinstance(entry.get(name), str) for name in names):
            raise ValueError("an entry is no finding")
        found.append(LintFinding(**{name: entry[name] for name in names}))
    return tuple(found)
