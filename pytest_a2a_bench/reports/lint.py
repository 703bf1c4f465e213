"""Lint of tasks as text, JSON and SARIF (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath

from pytest_a2a_bench import __version__
from pytest_a2a_bench.benchmarks.lint import SEVERITIES, LintFinding, LintReport, Rule
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.reports import sarif
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.secret import dump_json

SCHEMA_VERSION = 1
_SHOWN = 20
_TOOL = {"name": "a2a-bench lint", "version": __version__}


def render(report: LintReport, format: str, *, verbose: bool = False) -> str:
    """Return a report in one of :data:`FORMATS`, with a line break at its end.

    :param verbose: whether text names every task.
    """
    if format == "text":
        return to_text(report, shown=None if verbose else _SHOWN)
    return FORMATS[format](report)


def to_text(report: LintReport, shown: int | None = _SHOWN) -> str:
    """Return the rules that found something, each with its tasks, and the numbers.

    :param shown: how many tasks of each rule and domain are named; None for all.
    """
    lines = [f"lint of {one_line(report.source)}: {_tasks(report)}", ""]
    for rule, numbers in report.counts():
        total, findings = sum(tasks for tasks, _ in numbers.values()), sum(found for _, found in numbers.values())
        more = f", {count(findings, 'finding')}" if findings != total else ""
        lines += [f"{rule.severity} {rule.id}: {count(total, 'task')}{more}", f"  {rule.text} {rule.why}"]
        for domain in numbers:
            own = [f for f in report.findings if f.rule == rule.id and f.domain == domain]
            lines += [f"  {_line(finding)}" for finding in own[:shown]]
            if shown is not None and len(own) > shown:
                lines.append(f"  ... and {len(own) - shown} more in {one_line(domain, 60)} (--verbose shows them)")
        lines.append("")
    lines += [f"not looked at: {one_line(note, 400)}" for domain in report.domains for note in domain.notes]
    return "\n".join([*lines, _summary(report)]) + "\n"


def _line(finding: LintFinding) -> str:
    where = f"{finding.domain}/{finding.task_id}" if finding.task_id else finding.domain
    return f"{one_line(where, 120)}: {one_line(finding.message, 400)}"


def _tasks(report: LintReport) -> str:
    parts = ", ".join(f"{one_line(domain.domain, 60)} {domain.tasks}" for domain in report.domains)
    return f"{count(report.tasks, 'task')} ({parts})"


def _summary(report: LintReport) -> str:
    numbers = {severity: sum(report.severity_of(f) == severity for f in report.findings) for severity in SEVERITIES}
    words = ", ".join(count(number, severity) for severity, number in numbers.items())
    found = len({(f.domain, f.task_id) for f in report.findings if f.task_id})
    return f"{words} in {found} of {count(report.tasks, 'task')}"


def to_json(report: LintReport) -> str:
    """Return a JSON object with every finding, the rules that were asked, and the numbers by rule and domain."""
    data = {
        "schema": "pytest-a2a-bench/lint",
        "schema_version": SCHEMA_VERSION,
        "suite": report.suite,
        "source": report.source,
        "domains": [{"domain": d.domain, "tasks": d.tasks, "notes": list(d.notes)} for d in report.domains],
        "rules": [{"id": r.id, "severity": r.severity, "text": r.text, "why": r.why} for r in report.rules],
        "counts": {
            rule.id: {domain: {"tasks": tasks, "findings": found} for domain, (tasks, found) in numbers.items()}
            for rule, numbers in report.counts()
        },
        "findings": [{**f.to_json(), "severity": report.severity_of(f)} for f in report.findings],
    }
    return dump_json(data, indent=2) + "\n"


def to_sarif(report: LintReport) -> str:
    """Return SARIF 2.1.0: each finding at its task's file."""
    findings = report.findings
    return sarif.document(
        sarif.driver(_TOOL, map(_rule, report.rules)),
        (_result(report, finding) for finding in findings[: sarif.MOST]),
        executionSuccessful=not any(domain.notes for domain in report.domains),
        **sarif.notice(max(0, len(findings) - sarif.MOST), "--format json has all of them"),
    )


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.text},
        "fullDescription": {"text": f"{rule.text} {rule.why}"},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(report: LintReport, finding: LintFinding) -> dict[str, object]:
    task = f"{report.suite}/{finding.domain}/{finding.task_id}"
    place = {"fullyQualifiedName": one_line(f"{task}{finding.place}", 400), "kind": "member"}
    return {
        "ruleId": finding.rule,
        "level": report.severity_of(finding),
        "message": {"text": _line(finding)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": PurePath(finding.file or report.source).as_posix()},
                    # Code scanning wants a line; a JSON pointer says where it is.
                    "region": {"startLine": 1},
                },
                "logicalLocations": [place],
            }
        ],
        "partialFingerprints": {"a2aLint/v1": sarif.fingerprint(f"{finding.rule} {task}{finding.place}")},
    }


def rule_lines(rules: tuple[Rule, ...]) -> Iterator[str]:
    """Yield the rules, for a terminal."""
    for rule in rules:
        yield f"{rule.id} ({rule.severity}): {rule.text} {rule.why}"


FORMATS: dict[str, Callable[[LintReport], str]] = {"text": to_text, "json": to_json, "sarif": to_sarif}
"""How a report may be written."""
