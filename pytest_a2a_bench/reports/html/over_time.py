"""How runs went until this one (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.reports.html import charts
from pytest_a2a_bench.reports.html.markup import el, rate
from pytest_a2a_bench.results.history import Entry, Trend, trend
from pytest_a2a_bench.results.stats import count

RUNS = 60
"""Runs that the chart shows."""
_ROWS = 12
_TASKS = 40


def section(entries: Sequence[Entry]) -> Markup | None:
    """Return the chart, the last runs, the tasks that went bad and the flaky ones; None where there is no past."""
    found = trend(entries)
    if found is None or len(found.runs) < 2:
        return None
    other = f" {count(found.left_out, 'run')} measured otherwise and left out." if found.left_out else ""
    return el(
        "section",
        el("h2", "Over time"),
        el("p", f"The last {min(RUNS, len(found.runs))} of {count(len(found.runs), 'run')}, this one last.{other}"),
        _chart(found.runs[-RUNS:]),
        _runs(found.runs[-_ROWS:]),
        _turned(found),
        _flaky(found),
        id="past",
    )


def _chart(runs: Sequence[Entry]) -> Markup:
    series: dict[str, dict[int, float]] = {}
    for number, entry in enumerate(runs, 1):
        for name, value in entry.rates().items():
            series.setdefault(one_line(name, 60), {})[number] = value
    return charts.curve(series, "Success rate by run")


def _runs(runs: Sequence[Entry]) -> Markup:
    rows = [
        (e.at[:16].replace("T", " "), e.revision, one_line(e.agent, 60), e.verdict, rate(e.rate or 0.0), _trials(e))
        for e in reversed(runs)
    ]
    return _table(("When", "Revision", "Agent", "Verdict", "Rate", "Trials"), rows, "Runs")


def _trials(entry: Entry) -> str:
    succeeded, every = entry.trials
    return f"{succeeded:,} of {every:,}"


def _turned(found: Trend) -> Markup | None:
    rows = [(one_line(t.task, 120), t.since.name, str(t.runs), t.last_good.name) for t in found.turned[:_TASKS]]
    if not rows:
        return None
    titles = ("Went bad", "First bad run", "Runs since", "Last good run")
    return _table(titles, rows, "Tasks that went bad")


def _flaky(found: Trend) -> Markup | None:
    worst = sorted(found.flaky.items(), key=lambda item: item[1][0] / item[1][1])
    rows = [(one_line(task, 120), f"{won}/{every}") for task, (won, every) in worst[:_TASKS]]
    return _table(("Flaky", "Trials that succeeded"), rows, "Flaky tasks") if rows else None


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> Markup:
    head = el("tr", [el("th", title, scope="col") for title in titles])
    body = [el("tr", [el("td", cell) for cell in row]) for row in rows]
    table = el("table", el("thead", head), el("tbody", body))
    return el("div", table, class_="scroller", tabindex="0", role="region", aria_label=name)
