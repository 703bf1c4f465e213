"""A report for a terminal (pure)."""

from __future__ import annotations

from pytest_a2a_bench.conformance.report import Report, removable
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.reports import evidence, matrix

_SHOWN = 100


def render(report: Report) -> str:
    """Return the findings with their evidence, the matrix, and what was skipped and why."""
    lines = [header(report), ""]
    told = [j for j in report.judgements if j.is_finding]
    for judgement in told[:_SHOWN]:
        first, *rest = evidence.explain(judgement)
        lines += [f"{judgement.status.upper()} {first}", *rest, ""]
    if len(told) > _SHOWN:
        lines += [f"... and {len(told) - _SHOWN} more checks with findings", ""]
    lines += matrix.lines(report.rows, report.levels)
    lines += tail(report)
    return "\n".join(lines) + "\n"


def header(report: Report) -> str:
    """Return the line that says which agent was judged."""
    agent = f" ({one_line(report.agent, 80)})" if report.agent else ""
    spoken = f", {', '.join(one_line(i, 40) for i in report.interfaces[:8])}" if report.interfaces else ""
    elsewhere = report.card_url and not report.card_url.startswith(report.endpoint.rstrip("/"))
    found = f"; its card was found at {one_line(report.card_url)}" if elsewhere else ""
    return f"conformance of {one_line(report.endpoint)}{agent}{spoken}{found}"


def tail(report: Report) -> list[str]:
    """Return what follows the matrix: what was found, in a line each, waivers, skips, counts."""
    told = [j for j in report.judgements if j.is_finding]
    lines = [f"{j.status}: {evidence.headline(j)}" for j in told[:_SHOWN]]
    lines += [
        f"waived: {j.result.requirement.id} [{j.result.binding}]: {one_line(j.waiver.reason, 160)}"
        for j in report.judgements
        if j.status == "waived" and j.waiver is not None
    ][:_SHOWN]
    lines += [f"removable waiver: {w} (its check passes)" for w in removable(report.waivers, report.rows)]
    if skips := matrix.skip_lines(report.rows):
        lines += ["skipped:", *skips]
    return [*lines, f"{matrix.count_line(report.rows)} in {report.seconds:.1f} s"]
