"""Why trials did not pass, those of one cause together (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.reports.diagnosis import Cluster
from pytest_a2a_bench.reports.html.markup import el
from pytest_a2a_bench.results.stats import count

# All of it is in verdict.json and in what a2a-bench diagnose prints.
_SHOWN = 50
_OPEN = 8
"""So many reasons are shown at once; more are folded."""
_TASKS = 12


def section(reasons: Sequence[Cluster]) -> Markup:
    """Return the table of reasons, the most frequent first."""
    missed = sum(len(cluster.trials) for cluster in reasons)
    folded = reasons[_OPEN:_SHOWN]
    more = len(reasons) - _SHOWN
    return el(
        "section",
        el("h2", "Why trials did not pass"),
        el(
            "p",
            f"{count(missed, 'trial')} did not pass, for {count(len(reasons), 'reason')}: the first thing in each "
            "conversation that left what its task needs. No model was asked.",
        ),
        _table(reasons[:_OPEN]),
        el("details", el("summary", f"{len(folded)} more"), _table(folded)) if folded else None,
        el("p", f"... and {more:,} other reasons.", class_="note") if more > 0 else None,
        id="why",
    )


def _table(reasons: Sequence[Cluster]) -> Markup:
    titles = ("Trials", "Whose", "What happened", "Example", "Likely fix")
    head = el("tr", [el("th", title, scope="col") for title in titles])
    return el(
        "div",
        el("table", el("thead", head), el("tbody", [_row(cluster) for cluster in reasons])),
        class_="scroller",
        tabindex="0",
        role="region",
        aria_label="Reasons",
    )


def _row(cluster: Cluster) -> Markup:
    result, told = cluster.example
    tasks = list(cluster.tasks)
    more = f" and {len(tasks) - _TASKS} more" if len(tasks) > _TASKS else ""
    doubt = f" ({cluster.doubted} in tasks with known defects)" if cluster.doubted else ""
    where = "" if told.turn is None else f", message {told.turn + 1}"
    return el(
        "tr",
        el("td", f"{len(cluster.trials):,}", class_="num"),
        el("td", cluster.cause.blame),
        el("td", el("b", cluster.words), el("br"), el("small", one_line(", ".join(tasks[:_TASKS]), 300), more, doubt)),
        el("td", el("code", one_line(str(result.key), 120)), where, el("br"), el("small", one_line(told.detail, 300))),
        el("td", cluster.fix),
    )
