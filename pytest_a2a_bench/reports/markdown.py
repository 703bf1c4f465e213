"""A report as Markdown, for a merge request or a job summary (pure)."""

from __future__ import annotations

import re

from pytest_a2a_bench.conformance.report import Judgement, Report, removable
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.reports import evidence, matrix

_SHOWN = 50
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~@])")


def render(report: Report) -> str:
    """Return the verdict, the matrix and the findings, each of which can be folded out."""
    lines = [f"# A2A conformance of {escape(report.endpoint)}", ""]
    if report.agent:
        lines += [f"Agent: {escape(report.agent)}", ""]
    lines += [f"- **A2A {level.version}**: {level.text}" for level in report.levels]
    lines += ["", matrix.count_line(report.rows), "", *_table(matrix.cells(report.rows)), ""]
    told = [j for j in report.judgements if j.is_finding]
    if told:
        lines += ["## Findings", ""]
    for judgement in told[:_SHOWN]:
        lines += _folded(judgement)
    if len(told) > _SHOWN:
        lines += [f"... and {len(told) - _SHOWN} more.", ""]
    lines += [
        f"- waiver {escape(str(w))} can be removed: its check passes" for w in removable(report.waivers, report.rows)
    ]
    return "\n".join(lines).rstrip() + "\n"


def escape(text: str) -> str:
    """Return text that Markdown and HTML show as it is, on one line."""
    plain = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", plain)


def _table(cells: list[list[str]]) -> list[str]:
    rows = ["| " + " | ".join(escape(c) for c in row) + " |" for row in cells]
    return [rows[0], "|" + " --- |" * len(cells[0]), *rows[1:]]


def _folded(judgement: Judgement) -> list[str]:
    text = "\n".join(evidence.explain(judgement))
    # The fence must be longer than any run of backticks in what the agent said.
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    summary = one_line(evidence.headline(judgement)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return [
        "<details>",
        f"<summary>{judgement.status}: {summary}</summary>",
        "",
        fence + "text",
        text,
        fence,
        "",
        "</details>",
        "",
    ]
