"""HTML elements, numbers as texts, the numbers by domain, and reliability, time and cost as SVG charts (pure).

A chart takes its colours from the page, has a title and a description, and its numbers in a table beside it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup, escape

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.model import TrialResult, dollars, percentile
from pytest_a2a_bench.reports.html import records
from pytest_a2a_bench.reports.summary import label_of
from pytest_a2a_bench.results.compare import agent_names
from pytest_a2a_bench.results.inference import wilson
from pytest_a2a_bench.results.stats import mean_reward, summarise
from pytest_a2a_bench.text import sanitise

Child: TypeAlias = "str | int | float | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | float | bool | None"

_VOID = frozenset({"meta", "input", "br", "hr", "link"})
_CASED = {"viewBox": "viewBox", "preserveAspectRatio": "preserveAspectRatio"}
"""Names of SVG attributes, which have capitals; those of HTML have none."""


def el(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """Return an element.

    :param children: markup stays as it is; all other text is sanitised and escaped; None is left out.
    :param attributes: ``class_`` is ``class``, ``aria_label`` is ``aria-label``; None and False are left out.
    """
    start = Markup(f"<{name}{''.join(_attribute(k, v) for k, v in attributes.items())}>")
    return start if name in _VOID else Markup(f"{start}{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Markup:
    """Return children one after the other, as markup."""
    return Markup("").join(map(_child, children))


def _child(child: Child) -> Markup:
    if child is None or isinstance(child, Markup):
        return child or Markup("")
    if isinstance(child, str | int | float):
        # Escaping keeps control characters, and sanitise removes them.
        return escape(sanitise(str(child)))
    return join(child)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    # Names end in an underscore where Python has the word.
    written = _CASED.get(name) or name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {written}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {written}="{escape(sanitise(text))}"'


def table(titles: Iterable[Child], rows: Iterable[Child], class_: str | None = None) -> Markup:
    """Return a table.

    :param titles: texts, or elements where a title needs attributes.
    :param rows: ``tr`` elements.
    """
    head = [title if isinstance(title, Markup) else el("th", title, scope="col") for title in titles]
    return el("table", el("thead", el("tr", head)), el("tbody", rows), class_=class_)


def scroller(label: str, content: Markup) -> Markup:
    """Return content that scrolls sideways by itself, also by keyboard."""
    return el("div", content, class_="scroller", tabindex="0", role="region", aria_label=label)


def rate(value: float | None) -> str:
    """Return a rate as per cent: ``64 %``."""
    return "\u2013" if value is None else f"{value * 100:.0f} %"


def seconds(value: float | None) -> str:
    """Return seconds in milliseconds, seconds or minutes."""
    if value is None:
        return "\u2013"
    # Three digits below a tenth, so that fast turns differ.
    if value < 0.0995:
        return f"{value * 1000:.3g} ms"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.3g} min"


def number(value: float | None, digits: int = 1) -> str:
    """Return a number with a fixed number of digits."""
    return "\u2013" if value is None else f"{value:.{digits}f}"


def points(change: float) -> str:
    """Return the change of a rate in percentage points, with its sign."""
    # A change of -0.2 points is no change, and has no sign.
    rounded = round(change * 100)
    return "0" if rounded == 0 else f"{rounded:+d}".replace("-", "\u2212")


WIDTH, HEIGHT = 400, 216
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 12, 22, 28
COLOURS = 6
"""Colours of lines; more lines share them, and the table beside the chart names them."""


def bar(rate: float, low: float, high: float, label: str) -> Markup:
    """Return a bar from 0 to 1 with its interval, as wide as the place that it is put into.

    :param rate: 0 to 1, as are both limits.
    """
    ends = [_line(x * 100, 4, x * 100, 14, "whisker") for x in (low, high)]
    # Drawn in per cent of its place and stretched to it.
    return el(
        "svg",
        el("rect", x=0, y=5, width=100, height=8, rx=0.6, class_="track"),
        el("rect", x=0, y=5, width=rate * 100, height=8, rx=0.6, class_="bar"),
        _line(low * 100, 9, high * 100, 9, "whisker"),
        ends,
        viewBox="0 0 100 18",
        preserveAspectRatio="none",
        class_="bar-chart",
        role="img",
        aria_label=label,
    )


def curve(series: Mapping[str, Mapping[int, float]], title: str) -> Markup:
    """Return one line for each name: a rate of 0 to 1 for each k.

    :param series: name -> k -> rate; at least one name, and at least one k of 2 or more.
    """
    most = max(k for points in series.values() for k in points)
    # All of a few, and some of many.
    marks = [k for k in range(1, most + 1) if most <= 8 or k in (1, most) or k % (most // 4 or 1) == 0]
    parts: list[Markup] = [*_rate_grid(), *(_tick(k, most) for k in marks)]
    for i, points in enumerate(series.values()):
        places = [(_x(k, most), _y(v)) for k, v in sorted(points.items())]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(el("path", d=path, class_=f"line s{i % COLOURS}"))
        parts += [el("circle", cx=round(x, 1), cy=round(y, 1), r=3, class_=f"dot s{i % COLOURS}") for x, y in places]
    text = "; ".join(f"{name}: " + ", ".join(f"{v:.0%} at k={k}" for k, v in p.items()) for name, p in series.items())
    return _figure(title, text, parts)


def legend(names: Iterable[str]) -> Markup:
    """Return the colours of a chart's lines with their names, in the same order."""
    lines = ((el("span", class_=f"swatch s{i % COLOURS}", aria_hidden="true"), name) for i, name in enumerate(names))
    return el("ul", [el("li", *line) for line in lines], class_="legend")


def _figure(title: str, text: str, parts: Sequence[Markup]) -> Markup:
    return el(
        "svg",
        el("title", title),
        el("desc", text),
        parts,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="chart",
        role="img",
        aria_label=f"{title}: {text}",
    )


def _rate_grid() -> list[Markup]:
    found = []
    for value in (0.0, 0.5, 1.0):
        y = _y(value)
        found += [_line(_LEFT, y, WIDTH - _RIGHT, y, "grid"), _text(_LEFT - 6, y + 4, f"{value * 100:.0f} %", "end")]
    return found


def _tick(k: int, most: int) -> Markup:
    x = _x(k, most)
    # Labels at the ends must not be cut off.
    anchor = "end" if x > WIDTH - _RIGHT - 12 else "start" if x < _LEFT + 6 else "middle"
    return _text(x, HEIGHT - 8, f"{k}", anchor)


def _x(k: int, most: int) -> float:
    return _LEFT + (k - 1) / (most - 1) * (WIDTH - _LEFT - _RIGHT)


def _y(rate: float) -> float:
    return HEIGHT - _BOTTOM - rate * (HEIGHT - _TOP - _BOTTOM)


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return el("line", x1=round(x1, 2), y1=round(y1, 2), x2=round(x2, 2), y2=round(y2, 2), class_=class_)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return el("text", text, x=round(x, 1), y=round(y, 1), text_anchor=anchor)


# --- sections ---------------------------------------------------------------------------------------------------------


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
    return el(
        "section",
        el("h2", "Domains"),
        table(titles, map(_row, groups(trials)), "domains"),
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
        chart = bar(passed / counted, low, high, said)
    return el(
        "tr",
        el("th", Markup("<wbr>").join(re.split("(?<=[_/])", sanitise(group.name))), scope="row"),
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


_PERCENTILES = (5, 25, 50, 75, 95, 99)


def reliability_and_cost(trials: Sequence[TrialResult]) -> Markup:
    """Return pass^k, and how turn times, trial times and costs are distributed."""
    columns = [
        column
        for name in agent_names(trials) or (None,)
        for column in _distributions(
            [r for r in trials if r.key.agent == name], f" ({name})" if name is not None else ""
        )
    ]
    head, *rows = zip(["", *(f"p{q}" for q in _PERCENTILES), "mean", "largest", "count"], *columns, strict=True)
    numbers = _card("Time and cost", scroller("Time and cost", _numbers(head, rows)))
    cards = [_reliability(_curves(trials)), numbers]
    return el("section", el("h2", "Reliability, time and cost"), el("div", cards, class_="cards"), id="figures")


def _distributions(trials: Sequence[TrialResult], whose: str) -> Iterator[list[str]]:
    every: tuple[tuple[str, list[float], Callable[[float | None], str]], ...] = (
        ("Time of a turn", [s for r in trials for s in r.turn_latencies], seconds),
        ("Time of a trial", [r.duration for r in trials if r.duration > 0], seconds),
        ("Cost of a trial", [r.cost for r in trials if r.cost is not None], dollars),
    )
    for title, values, form in every:
        ordered = sorted(values)
        quantiles = [form(percentile(ordered, q)) for q in _PERCENTILES]
        rest = [form(sum(ordered) / len(ordered)), form(ordered[-1])] if ordered else [form(None)] * 2
        yield [f"{title}{whose}", *quantiles, *rest, f"{len(ordered):,}"]


def _curves(trials: Sequence[TrialResult]) -> dict[str, dict[int, float]]:
    return {label_of(s): s.pass_hat_k for s in summarise(trials, registry.variant_of) if s.pass_hat_k}


def _reliability(curves: Mapping[str, Mapping[int, float]]) -> Markup:
    title = "pass^k: all of k trials succeed"
    most = max((k for points in curves.values() for k in points), default=0)
    # pass^1 is the rate, which has its bar already.
    if most < 2:
        note = "One trial of each task says nothing about reliability: --a2a-trials 4 or more does."
        return _card(title, el("p", note, class_="empty"))
    cells = [[name, *(rate(points.get(k)) for k in range(1, most + 1))] for name, points in curves.items()]
    return _card(
        title,
        curve(curves, title),
        legend(curves),
        el(
            "details",
            el("summary", "Numbers"),
            scroller(f"Numbers: {title}", _numbers(["domain", *(f"k={k}" for k in range(1, most + 1))], cells)),
            class_="numbers",
        ),
    )


def _card(title: str, *children: Markup) -> Markup:
    return el("article", el("h3", title), children, class_="card")


def _numbers(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    titles = [el("th", t, scope="col") if t else el("td") for t in head]
    body = [el("tr", el("th", row[0], scope="row"), [el("td", c, class_="num") for c in row[1:]]) for row in rows]
    return table(titles, body, "small")
