"""A conformance report as text, JSON, JUnit XML, SARIF or Markdown (pure).

Every rendering is bounded, free of control characters, and escaped as its format requires.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from xml.etree import ElementTree

from pytest_a2a_bench.conformance.finding import Finding, Requirement
from pytest_a2a_bench.conformance.known import known_lines, sdk_of
from pytest_a2a_bench.conformance.report import Judgement, Report, removable
from pytest_a2a_bench.redact import dump_json
from pytest_a2a_bench.reports import findings, markdown
from pytest_a2a_bench.text import one_line, sanitise

_TEXT = 8_000
"""Characters of one text in JSON and SARIF."""


def render(report: Report, format: str) -> str:
    """Return a report in one of :data:`FORMATS`, with a line break at its end."""
    return FORMATS[format](report)


# --- text -------------------------------------------------------------------------------------------------------------

_SHOWN = 100


def _render_text(report: Report) -> str:
    """Return the findings with their evidence, the matrix, and the skipped checks with their reasons."""
    lines = [_header(report), ""]
    shown = [j for j in report.judgements if j.is_finding]
    sdk = sdk_of(report.rows)
    for judgement in shown[:_SHOWN]:
        first, *rest = findings.explain(judgement)
        known = [f"  known of {sdk.name}, not yours"] if sdk and judgement.result.requirement.id in sdk.findings else []
        lines += [f"{judgement.status.upper()} {first}", *known, *rest, ""]
    if len(shown) > _SHOWN:
        lines += [f"... and {len(shown) - _SHOWN} more checks with findings", ""]
    lines += findings.matrix_lines(report.rows, report.levels)
    return "\n".join([*lines, *_tail(report)]) + "\n"


def summary_lines(report: Report) -> list[str]:
    """Return the agent, the matrix, a line for each finding, waivers, skipped checks and counts."""
    return [_header(report), *findings.matrix_lines(report.rows, report.levels), *_tail(report)]


def _header(report: Report) -> str:
    agent = f" ({one_line(report.agent, 80)})" if report.agent else ""
    spoken = f", {', '.join(one_line(i, 40) for i in report.interfaces[:8])}" if report.interfaces else ""
    elsewhere = report.card_url and not report.card_url.startswith(report.endpoint.rstrip("/"))
    found = f"; its card was found at {one_line(report.card_url)}" if elsewhere else ""
    changed = f"\n{one_line(report.gateway, 400)}" if report.gateway else ""
    return f"conformance of {one_line(report.endpoint)}{agent}{spoken}{found}{changed}"


def _tail(report: Report) -> list[str]:
    lines = [f"{j.status}: {findings.headline(j)}" for j in report.judgements if j.is_finding][:_SHOWN]
    lines += [
        f"waived: {j.result.requirement.id} [{j.result.binding}]: {one_line(j.waiver.reason, 160)}"
        for j in report.judgements
        if j.status == "waived" and j.waiver is not None
    ][:_SHOWN]
    lines += [f"removable waiver: {w} (its check passes)" for w in removable(report.waivers, report.rows)]
    lines += known_lines(report.rows)
    if skips := findings.skip_lines(report.rows):
        lines += ["skipped:", *skips]
    return [*lines, f"{findings.count_line(report.rows)} in {report.seconds:.1f} s"]


# --- JSON -------------------------------------------------------------------------------------------------------------

_ITEMS = 100
_MOST = {"results": None, "findings": 20, "exchanges": 5}


def _render_json(report: Report) -> str:
    return dump_json(_bounded(report.to_json()), indent=2) + "\n"


def _bounded(value: Any, whole: bool = False) -> Any:
    if isinstance(value, str):
        plain = sanitise(value[: _TEXT + 1])
        return plain if len(plain) <= _TEXT else f"{plain[:_TEXT]}... ({len(value)} characters in all)"
    if isinstance(value, dict):
        return {
            sanitise(str(k)): _bounded(inner[: _MOST[k]] if k in _MOST else inner, k == "results")
            for k, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_bounded(v) for v in (value if whole else value[:_ITEMS])]
    return value


# --- Markdown ---------------------------------------------------------------------------------------------------------

_FOLDED = 50


def _render_markdown(report: Report) -> str:
    """Return the verdict, the matrix and the findings, each of which can be unfolded."""
    lines = [f"# A2A conformance of {markdown.escape(report.endpoint)}", ""]
    if report.agent:
        lines += [f"Agent: {markdown.escape(report.agent)}", ""]
    lines += [f"- **{markdown.escape(report.gateway)}**"] if report.gateway else []
    lines += [f"- **A2A {level.version}**: {level.text}" for level in report.levels]
    lines += ["", findings.count_line(report.rows), "", *markdown.table(findings.matrix_cells(report.rows)), ""]
    shown = [j for j in report.judgements if j.is_finding]
    if shown:
        lines += ["## Findings", ""]
    for judgement in shown[:_FOLDED]:
        summary = f"{judgement.status}: {findings.headline(judgement)}"
        lines.append(markdown.folded(summary, "\n".join(findings.explain(judgement))))
    if len(shown) > _FOLDED:
        lines += [f"... and {len(shown) - _FOLDED} more.", ""]
    first, *known = known_lines(report.rows) or [""]
    lines += (
        [markdown.escape(first), "", *(f"- {markdown.escape(line.strip())}" for line in known), ""] if first else []
    )
    lines += [
        f"- waiver {markdown.escape(str(w))} can be removed: its check passes"
        for w in removable(report.waivers, report.rows)
    ]
    return "\n".join(lines).rstrip() + "\n"


# --- JUnit XML --------------------------------------------------------------------------------------------------------

# Characters that XML 1.0 cannot hold and that sanitise() lets through: surrogates are gone, non-characters are not.
_ILLEGAL = re.compile("[\ufffe\uffff]")


def _render_junit(report: Report) -> str:
    """Return one test suite for each version, one test case for each check."""
    root = ElementTree.Element("testsuites", name="a2a conformance")
    for version in sorted({j.result.requirement.version for j in report.judgements}, reverse=True):
        mine = [j for j in report.judgements if j.result.requirement.version == version]
        _suite(root, f"a2a-{version}", mine, report)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: ElementTree.Element, name: str, judgements: Sequence[Judgement], report: Report) -> None:
    def number(*statuses: str) -> str:
        return str(sum(j.status in statuses for j in judgements))

    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=name,
        tests=str(len(judgements)),
        failures=number("failed"),
        errors=number("error"),
        skipped=number("skipped", "waived", "inconclusive", "explained"),
        time=f"{sum(j.result.seconds for j in judgements):.3f}",
    )
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in (("endpoint", report.endpoint), ("agent", report.agent)):
        ElementTree.SubElement(properties, "property", name=key, value=_legal(one_line(value)))
    for judgement in judgements:
        _case(suite, judgement)


def _case(suite: ElementTree.Element, judgement: Judgement) -> None:
    result, status = judgement.result, judgement.status
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"a2a.{result.requirement.version}.{result.requirement.group}",
        name=f"{result.requirement.id}[{result.binding}]",
        time=f"{result.seconds:.3f}",
    )
    text, reason = _legal("\n".join(findings.explain(judgement))), _legal(one_line(result.reason))
    if status in ("failed", "error"):
        tag = "failure" if status == "failed" else "error"
        ElementTree.SubElement(case, tag, message=_legal(findings.headline(judgement))).text = text
    elif status == "warned":
        ElementTree.SubElement(case, "system-out").text = f"warning: {text}"
    elif status == "inconclusive":
        ElementTree.SubElement(case, "skipped", type="inconclusive", message=reason).text = text
    elif status in ("skipped", "explained"):
        ElementTree.SubElement(case, "skipped", message=reason)
    elif status == "waived" and judgement.waiver is not None:
        waived = _legal(f"waived: {one_line(judgement.waiver.reason)}")
        ElementTree.SubElement(case, "skipped", type="waived", message=waived).text = text


def _legal(text: str) -> str:
    return _ILLEGAL.sub("", sanitise(text))


# --- SARIF 2.1.0 ------------------------------------------------------------------------------------------------------

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_INFORMATION = "https://github.com/pytest-a2a-bench/pytest-a2a-bench"
_RESULTS = 1_000
_LEVELS = {"MUST": "error", "SHOULD": "warning", "MAY": "note"}


def _render_sarif(report: Report) -> str:
    """Return one run whose results are the findings; a waived one is a suppressed result."""
    shown = [j for j in report.judgements if j.status in ("failed", "warned", "waived", "error")]
    every = [result for j in shown for result in _sarif_results(j, report)]
    rules = [_rule(entry) for entry in {j.result.requirement.id: j.result.requirement for j in shown}.values()]
    places = {rule["id"]: place for place, rule in enumerate(rules)}
    invocation: dict[str, Any] = {"executionSuccessful": report.could_run}
    left_out = max(0, len(every) - _RESULTS)
    left_out += sum(max(0, len(_weighty(j)) - findings.FINDINGS_SHOWN) for j in shown)
    if left_out:
        text = f"{left_out} more findings were left out; --format json has all of them"
        invocation["toolExecutionNotifications"] = [{"level": "note", "message": {"text": text}}]
    driver = {
        "name": report.tool.get("name", "pytest-a2a-bench"),
        "version": report.tool.get("version", "0"),
        "informationUri": _INFORMATION,
        "rules": rules,
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "results": [{**result, "ruleIndex": places[result["ruleId"]]} for result in every[:_RESULTS]],
        "columnKind": "unicodeCodePoints",
    }
    return dump_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(entry: Requirement) -> dict[str, Any]:
    return {
        "id": entry.id,
        "shortDescription": {"text": one_line(entry.text)},
        "fullDescription": {"text": f"A2A {one_line(entry.spec)}, {entry.level}: {one_line(entry.text)}"},
        "defaultConfiguration": {"level": _LEVELS[entry.level]},
        "properties": {"tags": ["a2a", entry.group, entry.level], "group": entry.group, "version": entry.version},
    }


def _weighty(judgement: Judgement) -> list[Finding]:
    return [f for f in judgement.result.findings if f.severity != "note"]


def _sarif_results(judgement: Judgement, report: Report) -> Iterator[dict[str, Any]]:
    result = judgement.result
    shown: Iterable[Finding] = _weighty(judgement)[: findings.FINDINGS_SHOWN]
    fallback = Finding(result.requirement.id, "error", result.reason or "the agent could not be asked")
    for finding in shown or [fallback]:
        lines = [f"{one_line(finding.found)} (on {result.binding})"]
        lines += [line.strip() for line in findings.finding_lines(finding)[1:]]
        for exchange in finding.exchanges[: findings.EXCHANGES_SHOWN]:
            lines += findings.wire_lines(exchange)
        # Code scanning knows a finding by this, whichever line it is in.
        fingerprint = hashlib.sha256(f"{result.name} {finding.pointer}".encode("utf-8", "replace")).hexdigest()[:32]
        yield {
            "ruleId": result.requirement.id,
            "level": _sarif_level(judgement, finding),
            "message": {"text": sanitise("\n".join(lines))[:_TEXT]},
            "locations": [_location(judgement, finding, report)],
            "partialFingerprints": {"a2aCheck/v1": fingerprint},
            **_suppressions(judgement),
        }


def _sarif_level(judgement: Judgement, finding: Finding) -> str:
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


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": _render_text,
    "json": _render_json,
    "junit": _render_junit,
    "sarif": _render_sarif,
    "markdown": _render_markdown,
}
