"""What judging the protocol came to: read from a report in JSON, shown as a matrix and a list of findings (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from pytest_a2a_bench.conformance.catalogue import requirement
from pytest_a2a_bench.conformance.report import CheckRow, compliance
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.reports import findings
from pytest_a2a_bench.reports.contents import check_name
from pytest_a2a_bench.reports.html.markup import el
from pytest_a2a_bench.reports.html.overview import pill
from pytest_a2a_bench.results.stats import count

# In the order in which they are listed: the worst first.
_TONES = {
    "failed": "bad",
    "error": "bad",
    "warned": "unsure",
    "inconclusive": "unsure",
    "waived": "muted",
    "passed": "good",
    "explained": "muted",
    "skipped": "muted",
}
_FINDINGS = 200


def section(rows: Sequence[CheckRow], explanations: Mapping[str, str]) -> Markup:
    """Return the matrix of groups and bindings, and what was found."""
    head, *body = findings.matrix_cells(rows)
    table = el(
        "table",
        el("thead", el("tr", [el("th", title, scope="col") for title in head])),
        el("tbody", [el("tr", el("th", row[0], scope="row"), [_cell(c) for c in row[1:]]) for row in body]),
        class_="matrix",
    )
    levels = [el("li", el("strong", f"A2A {level.version} "), level.text) for level in compliance(rows)]
    return el(
        "section",
        el("h2", "Conformance"),
        el("ul", levels, class_="plain"),
        el("div", table, class_="scroller", tabindex="0", role="region", aria_label="Conformance matrix"),
        el("p", findings.count_line(rows), class_="note"),
        _findings(rows, explanations),
        id="conformance",
    )


def _cell(text: str) -> Markup:
    tone = "muted"
    if "failed" in text or "error" in text:
        tone = "bad"
    elif any(word in text for word in ("warned", "waived", "inconclusive")):
        tone = "unsure"
    elif "/" in text:
        tone = "good"
    return el("td", text, class_=f"cell {tone}" if text else None)


def _findings(rows: Sequence[CheckRow], explanations: Mapping[str, str]) -> Markup | None:
    told = [row for row in rows if row.status in ("failed", "error", "warned", "inconclusive", "waived")]
    if not told:
        return None
    order = list(_TONES)
    told.sort(key=lambda row: order.index(row.status))
    items = [_finding(row, explanations.get(check_name(row), "")) for row in told[:_FINDINGS]]
    more = len(told) - _FINDINGS
    return el(
        "div",
        el("h3", count(len(told), "finding")),
        items,
        el("p", f"… and {more:,} more", class_="note") if more > 0 else None,
        class_="findings",
    )


def _finding(row: CheckRow, text: str) -> Markup:
    name = el("span", f"{row.id} [{row.binding}] {row.level}", class_="mono")
    said = text or row.reason or "nothing more is known here; the conformance report has it"
    return el("details", el("summary", pill(_TONES[row.status], row.status), name, f" {_about(row)}"), el("pre", said))


def _about(row: CheckRow) -> str:
    try:
        return requirement(row.id).text
    # Checks that others' files describe are in no catalogue.
    except ConfigurationError:
        return ""
