"""Reliability, time and money as charts, each with its numbers (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pytest_a2a_bench.model import TrialResult, percentile
from pytest_a2a_bench.reports.html import charts
from pytest_a2a_bench.reports.html.element import Html, el
from pytest_a2a_bench.reports.html.wording import dollars, number, rate, seconds
from pytest_a2a_bench.reports.summary import label_of
from pytest_a2a_bench.results.stats import summarise


def section(trials: Sequence[TrialResult]) -> Html:
    """Return pass^k, turn times, trial times and costs."""
    turns = [s for r in trials for s in r.turn_latencies]
    costs = [r.cost for r in trials if r.cost is not None]
    lengths = [r.duration for r in trials if r.duration > 0]
    cards = [
        _reliability(_curves(trials)),
        _distribution("Time of a turn", turns, seconds, "No turn was measured."),
        _distribution("Time of a trial", lengths, seconds, "No trial was measured."),
        _distribution("Cost of a trial", costs, dollars, "Neither the agent nor a model reported what it cost."),
    ]
    return el("section", el("h2", "Reliability, time and cost"), el("div", cards, class_="cards"), id="figures")


def _curves(trials: Sequence[TrialResult]) -> dict[str, dict[int, float]]:
    return {label_of(s): s.pass_hat_k for s in summarise(trials) if s.pass_hat_k}


def _reliability(curves: Mapping[str, Mapping[int, float]]) -> Html:
    title = "pass^k: all of k trials succeed"
    most = max((k for points in curves.values() for k in points), default=0)
    if most < 2:
        note = "One trial of each task says nothing about reliability: --a2a-trials 4 or more does."
        return _card(title, el("p", note, class_="empty"))
    keys = [
        el("li", el("span", class_=f"swatch s{i % charts.COLOURS}", aria_hidden="true"), name)
        for i, name in enumerate(curves)
    ]
    table = [[name, *(rate(points.get(k)) for k in range(1, most + 1))] for name, points in curves.items()]
    return _card(
        title,
        charts.curve(curves, title),
        el("ul", keys, class_="legend"),
        _numbers(title, ["domain", *(f"k={k}" for k in range(1, most + 1))], table),
    )


def _distribution(title: str, values: Sequence[float], form: Callable[[float | None], str], empty: str) -> Html:
    if not values:
        return _card(title, el("p", empty, class_="empty"))
    ordered = sorted(values)
    rows = [[f"p{q}", form(percentile(ordered, q))] for q in (5, 25, 50, 75, 95, 99)]
    rows += [["mean", form(sum(ordered) / len(ordered))], ["largest", form(ordered[-1])]]
    rows.append(["count", number(len(ordered), 0)])
    return _card(title, charts.histogram(ordered, form, title), _numbers(title, ["", title.lower()], rows))


def _card(title: str, *children: Html) -> Html:
    return el("article", el("h3", title), children, class_="card")


def _numbers(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    titles = [el("th", t, scope="col") if t else el("td") for t in head]
    body = [el("tr", el("th", row[0], scope="row"), [el("td", c, class_="num") for c in row[1:]]) for row in rows]
    table = el("table", el("thead", el("tr", titles)), el("tbody", body), class_="small")
    return el(
        "details",
        el("summary", "Numbers"),
        el("div", table, class_="scroller", tabindex="0", role="region", aria_label=f"Numbers: {title}"),
        class_="numbers",
    )
