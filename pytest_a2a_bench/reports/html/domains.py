"""A table of domains and categories, each with its bar (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.reports.html import charts, records
from pytest_a2a_bench.reports.html.element import Html, el
from pytest_a2a_bench.reports.html.wording import number, rate
from pytest_a2a_bench.results.inference import wilson


@dataclass(frozen=True, slots=True)
class Group:
    """The trials of a domain or of one of its categories."""

    name: str
    trials: Sequence[TrialResult]
    inner: bool = False


def section(trials: Sequence[TrialResult]) -> Html:
    """Return the table."""
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
            "The interval is Wilson's. A trial that ended in an error counts as not passed; "
            "one that was skipped does not count.",
            class_="note",
        ),
        id="domains",
    )


def groups(trials: Iterable[TrialResult]) -> list[Group]:
    """Return the domains in order, each followed by its categories, where it has several."""
    by_domain: dict[str, list[TrialResult]] = defaultdict(list)
    for result in trials:
        by_domain[records.domain(result)].append(result)
    found: list[Group] = []
    for name in sorted(by_domain):
        found.append(Group(name, by_domain[name]))
        by_category: dict[str, list[TrialResult]] = defaultdict(list)
        for result in by_domain[name]:
            by_category[records.category(result)].append(result)
        if len(by_category) > 1:
            found += [Group(c or "without a category", by_category[c], inner=True) for c in sorted(by_category)]
    return found


def _row(group: Group) -> Html:
    judged = [r for r in group.trials if r.status == "evaluated"]
    counted = sum(r.status != "skipped" for r in group.trials)
    passed = sum(r.success for r in judged)
    mean = sum(r.reward for r in judged) / len(judged) if judged else None
    errors = sum(records.state(r).endswith("_error") for r in group.trials)
    skipped = sum(r.status == "skipped" for r in group.trials)
    chart: Html | str = "all were skipped"
    if counted:
        limits = wilson(passed, counted)
        said = f"{rate(passed / counted)} passed, 95 % interval {rate(limits.low)} to {rate(limits.high)}"
        chart = charts.bar(passed / counted, limits.low, limits.high, said)
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
