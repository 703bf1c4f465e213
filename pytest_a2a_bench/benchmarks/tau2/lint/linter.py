"""tau2's linter: which rule is asked when, and editions beside each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_a2a_bench.benchmarks.lint import DomainLint, Linter, LintFinding, LintRequest
from pytest_a2a_bench.benchmarks.lint_known import code_digest
from pytest_a2a_bench.benchmarks.tau2 import DOMAINS, index, upstream
from pytest_a2a_bench.benchmarks.tau2.editions import find_edition
from pytest_a2a_bench.benchmarks.tau2.lint import data, editions
from pytest_a2a_bench.benchmarks.tau2.lint.data import DomainData, RawTask, glance
from pytest_a2a_bench.benchmarks.tau2.lint.rules import RULES
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.redact import one_line


def lint(request: LintRequest, domain: str) -> DomainLint:
    """Look at one domain with every rule."""
    found = data.read_domain(request, domain)
    findings = list(found.problems)
    for raw in found.tasks:
        findings += glance(raw)
    replayed, notes = _replay(found, data.directory_of(request))
    findings += replayed.findings
    if request.against is not None:
        other, more = _other(request, domain)
        notes += more
        if other is not None:
            findings += editions.compare(found, other.data, replayed.changes, other.changes)
    order = {raw.task_id: place for place, raw in enumerate(found.tasks)}
    findings.sort(key=lambda f: order.get(f.task_id, -1))
    return DomainLint(
        domain, len(found.tasks), tuple(dataclasses.replace(f, domain=domain) for f in findings), tuple(notes)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Replayed:
    """What replaying a domain's golds gave.

    :param changes: what each gold changes, by task.
    """

    data: DomainData
    findings: list[LintFinding]
    changes: Mapping[str, Any]


def _replay(found: DomainData, directory: Path | None) -> tuple[_Replayed, list[str]]:
    # Loads tau2 and jsonschema: only where golds are replayed.
    from pytest_a2a_bench.benchmarks.tau2.lint.golds import Examiner
    from pytest_a2a_bench.benchmarks.tau2.lint.policy import Policy
    from pytest_a2a_bench.benchmarks.tau2.lint.replay import Replayer

    findings: list[LintFinding] = []
    changes: dict[str, Any] = {}
    replayed = _Replayed(found, findings, changes)
    try:
        tau2 = upstream.load()
        tasks = list(_readable(tau2, found.tasks, findings))
        if not tasks:
            return replayed, []
        replayer = Replayer(tau2, found.domain, None if directory is None else found.directory, tasks[0][1])
        environment = replayer.environment(tasks[0][1])
    except A2ABenchError as error:
        return replayed, [f"{found.domain}: its golds are not replayed: {error}"]
    except Exception as error:  # a domain that the installed tau2 lacks, a database that it cannot read, a missing key
        what = one_line(f"{type(error).__name__}: {error}", 300)
        return replayed, [f"{found.domain}: its golds are not replayed, as the installed tau2 cannot build it: {what}"]
    examiner = Examiner(replayer, Policy(found.domain, found.policy), environment)
    for raw, task in tasks:
        with upstream.paused_collector():
            own, changed = examiner.examine(raw, task)
        findings += own
        if changed is not None:
            changes[raw.task_id] = changed.records
    return replayed, []


def _readable(
    tau2: upstream.Tau2, tasks: Iterable[RawTask], findings: list[LintFinding]
) -> Iterator[tuple[RawTask, Any]]:
    """Yield the tasks that tau2 can read; of the others it is said what is wrong."""
    for raw in tasks:
        try:
            yield raw, tau2.task_class.model_validate(raw.value)
        except ValueError as error:
            findings.append(raw.find("unreadable-task", one_line(f"tau2 cannot read it: {error}", 300)))


def _other(request: LintRequest, domain: str) -> tuple[_Replayed | None, list[str]]:
    """Read and replay the other edition; None where it does not have the domain."""
    if domain not in data.domain_directories(request.against):
        return None, [f"{domain}: {request.against} has no such domain to compare with"]
    found = data.read_domain(dataclasses.replace(request, directory=request.against), domain)
    return _replay(found, request.against)


def glance_at(request: LintRequest, domain: str, task_id: str) -> Iterator[LintFinding]:
    """Look at one task of a run, without its database."""
    yield from glance(
        RawTask(task_id, index.load_task_json(domain, task_id, find_edition(request.settings).data), "", "")
    )


def domains(request: LintRequest) -> tuple[str, ...]:
    """Return the domains of a request, in our usual order."""
    found = data.domain_directories(data.directory_of(request))
    return (*(d for d in DOMAINS if d in found), *(d for d in found if d not in DOMAINS))


def digest(request: LintRequest, domain: str) -> str:
    """Return what the findings depend on: the files, the tau2 that replays them, and this package."""
    code = code_digest(*map(str, Path(__file__).parent.glob("*.py")))
    return f"{data.digest(request, domain)} {index.find_installation().distribution} {code}"


LINTER = Linter(
    rules=RULES,
    domains=domains,
    lint=lint,
    recognises=data.has_data,
    glance=glance_at,
    digest=digest,
)
