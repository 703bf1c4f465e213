"""The numbers by domain and category, and reliability, time and cost as charts, each with its numbers (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.model import TrialResult, dollars, percentile
from pytest_a2a_bench.reports.html import charts, records
from pytest_a2a_bench.reports.html.markup import el, number, rate, seconds
from pytest_a2a_bench.reports.summary import label_of
from pytest_a2a_bench.results.agents import agent_names
from pytest_a2a_bench.results.inference import wilson
from pytest_a2a_bench.results.stats import mean_reward, summarise


@dataclass(frozen=True, slots=True)
class Group:
    """The trials of a domain or of one of its categories."""

    name: str
    trials: Sequence[TrialResult]
    inner: bool = False


def by_domain(trials: Sequence[TrialResult]) -> Markup:
    """Return the table of domains."""
    head = ("Domain", "Passed, with 95 % interval", "Rate", "Passed", "Mean reward", "Errors", "Skipped")
    wide = (False, False, False, False, True, False, True)
    titles = [
        el("th", t, scope="col", class_=_classes(i, is_wide))
        for i, (t, is_wide) in enumerate(zip(head, wide, strict=True))
    ]
    body = [_row(g) for g in groups(trials)]
    return el(
        "section",
        el("h2", "Domains"),
        el("table", el("thead", el("tr", titles)), el("tbody", body), class_="domains"),
        el(
            "p",
            "The interval is Wilson's. A trial that ended in an error counts as not passed; one that was skipped "
            "does not count.",
            class_="note",
        ),
        id="domains",
    )


def groups(trials: Iterable[TrialResult]) -> list[Group]:
    """Return the domains in order, each followed by its categories, where it has several."""
    of_domain: dict[str, list[TrialResult]] = defaultdict(list)
    for result in trials:
        of_domain[records.domain(result)].append(result)
    found: list[Group] = []
    for name in sorted(of_domain):
        found.append(Group(name, of_domain[name]))
        of_category: dict[str, list[TrialResult]] = defaultdict(list)
        for result in of_domain[name]:
            of_category[records.category(result)].append(result)
        # One category would repeat its domain.
        if len(of_category) > 1:
            found += [Group(c or "without a category", of_category[c], inner=True) for c in sorted(of_category)]
    return found


def _row(group: Group) -> Markup:
    judged = [r for r in group.trials if r.status == "evaluated"]
    # Errors stay in the denominator.
    counted = sum(r.status != "skipped" for r in group.trials)
    passed = sum(r.success for r in judged)
    mean = mean_reward(group.trials)
    errors = sum(r.status not in ("evaluated", "skipped") for r in group.trials)
    skipped = sum(r.status == "skipped" for r in group.trials)
    chart: Markup | str = "all were skipped"
    if counted:
        low, high = wilson(passed, counted)
        said = f"{rate(passed / counted)} passed, 95 % interval {rate(low)} to {rate(high)}"
        chart = charts.bar(passed / counted, low, high, said)
    return el(
        "tr",
        el("th", group.name, scope="row"),
        el("td", chart, class_="bar-cell"),
        el("td", rate(passed / counted) if counted else "\u2013", class_="num strong"),
        el("td", f"{passed:,} / {counted:,}", class_="num"),
        el("td", number(mean, 3), class_="num wide"),
        el("td", f"{errors:,}", class_="num warn" if errors else "num"),
        el("td", f"{skipped:,}", class_="num wide"),
        class_="inner" if group.inner else None,
    )


def _classes(index: int, is_wide: bool) -> str | None:
    return " ".join(name for name, wanted in (("num", index > 1), ("wide", is_wide)) if wanted) or None


def reliability_and_cost(trials: Sequence[TrialResult]) -> Markup:
    """Return pass^k, turn times, trial times and costs."""
    cards = [_reliability(_curves(trials))]
    for name in agent_names(trials) or (None,):
        cards += _distributions([r for r in trials if r.key.agent == name], f" ({name})" if name is not None else "")
    return el("section", el("h2", "Reliability, time and cost"), el("div", cards, class_="cards"), id="figures")


def _distributions(trials: Sequence[TrialResult], whose: str) -> list[Markup]:
    turns = [s for r in trials for s in r.turn_latencies]
    costs = [r.cost for r in trials if r.cost is not None]
    lengths = [r.duration for r in trials if r.duration > 0]
    unknown = "Neither the agent nor a model reported what it cost."
    return [
        _distribution(f"Time of a turn{whose}", turns, seconds, "No turn was measured."),
        _distribution(f"Time of a trial{whose}", lengths, seconds, "No trial was measured."),
        _distribution(f"Cost of a trial{whose}", costs, dollars, unknown),
    ]


def _curves(trials: Sequence[TrialResult]) -> dict[str, dict[int, float]]:
    return {label_of(s): s.pass_hat_k for s in summarise(trials, registry.variant_of) if s.pass_hat_k}


def _reliability(curves: Mapping[str, Mapping[int, float]]) -> Markup:
    title = "pass^k: all of k trials succeed"
    most = max((k for points in curves.values() for k in points), default=0)
    # pass^1 is the rate, which has its bar already.
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


def _distribution(title: str, values: Sequence[float], form: Callable[[float | None], str], empty: str) -> Markup:
    if not values:
        return _card(title, el("p", empty, class_="empty"))
    ordered = sorted(values)
    rows = [[f"p{q}", form(percentile(ordered, q))] for q in (5, 25, 50, 75, 95, 99)]
    rows += [["mean", form(sum(ordered) / len(ordered))], ["largest", form(ordered[-1])]]
    rows.append(["count", number(len(ordered), 0)])
    return _card(title, charts.histogram(ordered, form, title), _numbers(title, ["", title.lower()], rows))


def _card(title: str, *children: Markup) -> Markup:
    return el("article", el("h3", title), children, class_="card")


def _numbers(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    titles = [el("th", t, scope="col") if t else el("td") for t in head]
    body = [el("tr", el("th", row[0], scope="row"), [el("td", c, class_="num") for c in row[1:]]) for row in rows]
    table = el("table", el("thead", el("tr", titles)), el("tbody", body), class_="small")
    return el(
        "details",
        el("summary", "Numbers"),
        el("div", table, class_="scroller", tabindex="0", role="region", aria_label=f"Numbers: {title}"),
        class_="numbers",
    )
