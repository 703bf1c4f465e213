"""A report as SARIF 2.1.0, as code scanning reads it (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_a2a_bench.conformance.finding import Finding, Requirement
from pytest_a2a_bench.conformance.report import Judgement, Report
from pytest_a2a_bench.redact import one_line, sanitise
from pytest_a2a_bench.reports import evidence
from pytest_a2a_bench.secret import dump_json

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
INFORMATION = "https://github.com/pytest-a2a-bench/pytest-a2a-bench"

MOST = 1_000
"""Results of one file."""

_TEXT = 8_000
_LEVELS = {"MUST": "error", "SHOULD": "warning", "MAY": "note"}


def render(report: Report) -> str:
    """Return one run whose results are the findings; a waived one is a suppressed result."""
    told = [j for j in report.judgements if j.status in ("failed", "warned", "waived", "error")]
    every = [result for j in told for result in _results(j, report)]
    results = every[:MOST]
    left_out = len(every) - len(results) + sum(max(0, len(_weighty(j)) - evidence.FINDINGS_SHOWN) for j in told)
    entries = {j.result.requirement.id: j.result.requirement for j in told}
    return document(
        driver(report.tool, map(_rule, entries.values())),
        results,
        executionSuccessful=report.could_run,
        **notice(left_out, "--format json has all of them"),
    )


def document(tool: Mapping[str, Any], results: Iterable[Mapping[str, Any]], **invocation: Any) -> str:
    """Return a SARIF file of one run.

    :param tool: as :func:`driver` makes it; results are given the places of their rules in it.
    """
    places = {rule["id"]: place for place, rule in enumerate(tool["rules"])}
    run = {
        "tool": {"driver": tool},
        "invocations": [invocation],
        "results": [{**result, "ruleIndex": places[result["ruleId"]]} for result in results],
        "columnKind": "unicodeCodePoints",
    }
    return dump_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def driver(tool: Mapping[str, str], rules: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what made a file, with the rules that it judges by."""
    return {
        "name": tool.get("name", "pytest-a2a-bench"),
        "version": tool.get("version", "0"),
        "informationUri": INFORMATION,
        "rules": list(rules),
    }


def fingerprint(text: str) -> str:
    """Return what code scanning knows a finding by, whichever line it is in."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _rule(entry: Requirement) -> dict[str, Any]:
    return {
        "id": entry.id,
        "shortDescription": {"text": one_line(entry.text)},
        "fullDescription": {"text": f"A2A {one_line(entry.spec)}, {entry.level}: {one_line(entry.text)}"},
        "defaultConfiguration": {"level": _LEVELS[entry.level]},
        "properties": {"tags": ["a2a", entry.group, entry.level], "group": entry.group, "version": entry.version},
    }


def notice(left_out: int, where: str) -> dict[str, Any]:
    """Say that results were left out.

    :param where: they are to be found.
    """
    text = f"{left_out} more findings were left out; {where}"
    return {"toolExecutionNotifications": [{"level": "note", "message": {"text": text}}]} if left_out else {}


def _weighty(judgement: Judgement) -> list[Finding]:
    return [f for f in judgement.result.findings if f.severity != "note"]


def _results(judgement: Judgement, report: Report) -> Iterator[dict[str, Any]]:
    result = judgement.result
    findings: Iterable[Finding] = _weighty(judgement)[: evidence.FINDINGS_SHOWN]
    fallback = Finding(result.requirement.id, "error", result.reason or "the agent could not be asked")
    for finding in findings or [fallback]:
        lines = [f"{one_line(finding.found)} (on {result.binding})"]
        lines += [line.strip() for line in evidence.finding_lines(finding)[1:]]
        for exchange in finding.exchanges[: evidence.EXCHANGES_SHOWN]:
            lines += evidence.wire_lines(exchange)
        yield {
            "ruleId": result.requirement.id,
            "level": _level(judgement, finding),
            "message": {"text": sanitise("\n".join(lines))[:_TEXT]},
            "locations": [_location(judgement, finding, report)],
            "partialFingerprints": {"a2aCheck/v1": fingerprint(f"{judgement.result.name} {finding.pointer}")},
            **_suppressions(judgement),
        }


def _level(judgement: Judgement, finding: Finding) -> str:
    if judgement.status in ("failed", "error"):
        return "error"
    return {"error": "error", "warning": "warning"}.get(finding.severity, "note")


def _location(judgement: Judgement, finding: Finding, report: Report) -> dict[str, Any]:
    result = judgement.result
    # A missing member is shown where its object begins.
    at = finding.pointer
    while at and at not in report.lines:
        at = at.rpartition("/")[0]
    pointer = one_line(finding.pointer, 200)
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": one_line(report.endpoint)},
            # Code scanning wants a line; an agent has none, and a card's file has one for each member.
            "region": {"startLine": report.lines.get(at, 1)},
        },
        "logicalLocations": [
            {"fullyQualifiedName": f"{result.requirement.version}/{result.binding}{pointer}", "kind": "member"}
        ],
    }


def _suppressions(judgement: Judgement) -> dict[str, Any]:
    if judgement.status != "waived" or judgement.waiver is None:
        return {}
    return {
        "suppressions": [{"kind": "external", "status": "accepted", "justification": one_line(judgement.waiver.reason)}]
    }
