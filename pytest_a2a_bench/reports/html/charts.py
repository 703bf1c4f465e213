"""The numbers by domain, and reliability, time and cost as SVG charts (pure).

A chart takes its colours from the page, has a title and a description, and its numbers in a table beside it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.model import TrialResult, dollars, percentile
from pytest_a2a_bench.reports.html import records
from pytest_a2a_bench.reports.html.markup import el, number, rate, scroller, seconds, table
from pytest_a2a_bench.reports.summary import label_of
from pytest_a2a_bench.results.compare import agent_names
from pytest_a2a_bench.results.inference import wilson
from pytest_a2a_bench.results.stats import mean_reward, summarise

WIDTH, HEIGHT = 400, 216
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 12, 22, 28
_BINS = 24
COLOURS = 6
"""Colours of lines; more lines share them, and the table beside the chart names them."""

_WIDE = 40.0
"""From this ratio of the largest value to the smallest that matters an axis is logarithmic."""

_FLOOR = 1e-6
"""The smallest value of a logarithmic axis, as a share of the largest."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values, linear or logarithmic."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return where a value is: 0 at the low end, 1 at the high end."""
        # A single value has no range, and is in the middle.
        if self.high <= self.low:
            return 0.5
        if self.log:
            clipped = min(max(value, self.low), self.high)
            return math.log(clipped / self.low) / math.log(self.high / self.low)
        return (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)

    def value(self, position: float) -> float:
        """Return the value at a position of 0 to 1."""
        if self.log:
            return self.low * math.exp(math.log(self.high / self.low) * position)
        return self.low + (self.high - self.low) * position


def axis_of(values: Sequence[float]) -> Axis:
    """Return the axis that shows values best.

    :param values: none of them negative, at least one.
    """
    ordered = sorted(values)
    # Not the smallest value: one outlier near 0 would stretch a logarithmic axis over nothing.
    low, high = percentile(ordered, 2) or 0.0, ordered[-1]
    if low > 0 and high / low > _WIDE:
        return Axis(max(ordered[0], low / 2, high * _FLOOR), high, log=True)
    return Axis(0.0, nice(high) if high > 0 else 1.0)


def bins(values: Sequence[float], axis: Axis, count: int) -> list[int]:
    """Return how many values are in each of a number of equally wide parts of the axis."""
    found = [0] * count
    for value in values:
        # The largest value belongs to the last bin.
        found[min(count - 1, int(axis.at(value) * count))] += 1
    return found


def ticks(axis: Axis) -> list[float]:
    """Return a few round values on an axis."""
    if axis.log:
        return _log_ticks(axis)
    step = nice((axis.high - axis.low) / 4 or 1)
    # A little slack: 0.3 / 0.1 is not quite 3.
    first = math.ceil(axis.low / step - 1e-9)
    return [i * step for i in range(first, math.floor(axis.high / step + 1e-9) + 1)]


def nice(value: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5 times a power of ten that is not less.

    :raises ValueError: if the value is not positive.
    """
    if value <= 0:
        raise ValueError(f"{value} has no round number above it")
    power = 10.0 ** math.floor(math.log10(value))
    steps = (step * power for step in (1, 2, 2.5, 5, 10, 20))
    # Below about 1e-307 a power of ten is not exact any more, or is 0.
    return next((step for step in steps if step >= value * (1 - 1e-9)), value)


def _log_ticks(axis: Axis) -> list[float]:
    low, high = math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high))
    # 1 and 3: half-way on a logarithmic axis.
    every = [step * 10.0**power for power in range(low, high + 1) for step in (1, 3)]
    inside = [value for value in every if axis.low * 0.999 <= value <= axis.high * 1.001]
    return inside if len(inside) <= 5 else [value for value in inside if f"{value:e}".startswith("1.0")]


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
    axis = Axis(1, most)
    # All of a few, and some of many.
    marks = [k for k in range(1, most + 1) if most <= 8 or k in (1, most) or k % (most // 4 or 1) == 0]
    parts: list[Markup] = [*_rate_grid(), *(_tick(axis, k, f"{k}") for k in marks)]
    for i, points in enumerate(series.values()):
        places = [(_x(axis, k), _y(v)) for k, v in sorted(points.items())]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(el("path", d=path, class_=f"line s{i % COLOURS}"))
        parts += [el("circle", cx=round(x, 1), cy=round(y, 1), r=3, class_=f"dot s{i % COLOURS}") for x, y in places]
    text = "; ".join(f"{name}: " + ", ".join(f"{v:.0%} at k={k}" for k, v in p.items()) for name, p in series.items())
    return _figure(title, text, parts)


def histogram(values: Sequence[float], form: Callable[[float], str], title: str) -> Markup:
    """Return how values are distributed, with their median and their 95th percentile.

    :param values: none of them negative, at least one.
    :param form: writes a value with its unit.
    """
    ordered = sorted(values)
    axis = axis_of(ordered)
    found = bins(ordered, axis, _BINS)
    width = (WIDTH - _LEFT - _RIGHT) / _BINS
    most = max(found)
    parts = [_line(_LEFT, _y(0), WIDTH - _RIGHT, _y(0), "grid")]
    for i, n in enumerate(found):
        if n:
            # Never thinner than a line: one slow turn among thousands is what one looks for.
            height = max(1.5, (_y(0) - _y(1)) * n / most)
            x, y = round(_LEFT + i * width + 1, 2), round(_y(0) - height, 2)
            parts.append(
                el("rect", x=x, y=y, width=round(width - 2, 2), height=round(height, 2), rx=1.5, class_="column")
            )
    parts += [_tick(axis, value, form(value)) for value in ticks(axis)]
    p50, p95 = (percentile(ordered, q) or 0.0 for q in (50, 95))
    # Two words in one place cannot be read: the median gives way.
    apart = abs(_x(axis, p95) - _x(axis, p50)) > 34
    parts += _marker(axis, p50, "p50" if apart else "")
    parts += _marker(axis, p95, "p95")
    text = f"{len(ordered)} values, median {form(p50)}, 95th percentile {form(p95)}, largest {form(ordered[-1])}"
    text += "; logarithmic" if axis.log else ""
    return _figure(title, text, parts)


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


def _tick(axis: Axis, value: float, label: str) -> Markup:
    x = _x(axis, value)
    # Labels at the ends must not be cut off.
    anchor = "end" if x > WIDTH - _RIGHT - 12 else "start" if x < _LEFT + 6 else "middle"
    return _text(x, HEIGHT - 8, label, anchor)


def _marker(axis: Axis, value: float, label: str) -> list[Markup]:
    x = _x(axis, value)
    anchor = "end" if x > WIDTH - _RIGHT - 14 else "middle"
    return [_line(x, _TOP - 4, x, _y(0), "marker"), *([_text(x, _TOP - 9, label, anchor)] if label else [])]


def _x(axis: Axis, value: float) -> float:
    return _LEFT + axis.at(value) * (WIDTH - _LEFT - _RIGHT)


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
        el("li", el("span", class_=f"swatch s{i % COLOURS}", aria_hidden="true"), name) for i, name in enumerate(curves)
    ]
    cells = [[name, *(rate(points.get(k)) for k in range(1, most + 1))] for name, points in curves.items()]
    return _card(
        title,
        curve(curves, title),
        el("ul", keys, class_="legend"),
        _numbers(title, ["domain", *(f"k={k}" for k in range(1, most + 1))], cells),
    )


def _distribution(title: str, values: Sequence[float], form: Callable[[float | None], str], empty: str) -> Markup:
    if not values:
        return _card(title, el("p", empty, class_="empty"))
    ordered = sorted(values)
    rows = [[f"p{q}", form(percentile(ordered, q))] for q in (5, 25, 50, 75, 95, 99)]
    rows += [["mean", form(sum(ordered) / len(ordered))], ["largest", form(ordered[-1])]]
    rows.append(["count", number(len(ordered), 0)])
    return _card(title, histogram(ordered, form, title), _numbers(title, ["", title.lower()], rows))


def _card(title: str, *children: Markup) -> Markup:
    return el("article", el("h3", title), children, class_="card")


def _numbers(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    titles = [el("th", t, scope="col") if t else el("td") for t in head]
    body = [el("tr", el("th", row[0], scope="row"), [el("td", c, class_="num") for c in row[1:]]) for row in rows]
    numbers = scroller(f"Numbers: {title}", table(titles, body, "small"))
    return el("details", el("summary", "Numbers"), numbers, class_="numbers")
