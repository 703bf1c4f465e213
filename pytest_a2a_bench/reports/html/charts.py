"""Charts as SVG that takes its colours from the page (pure).

Every chart has a title and a description; the numbers themselves are in a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_a2a_bench.model import percentile
from pytest_a2a_bench.reports.html.markup import el

WIDTH, HEIGHT = 400, 216
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 12, 22, 28
_BINS = 24
COLOURS = 6
"""How many lines can be told apart; more share colours, and are told apart by their table."""

_WIDE = 40.0
"""Where the largest value is so many times the smallest that matters, equal bins would all be the first one."""

_FLOOR = 1e-6
"""What is less than this part of the largest value is shown as this part."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values, linear or logarithmic."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        # A single value has no range; it stands in the middle.
        """Return where a value is: 0 at the low end, 1 at the high end."""
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
    told = "; ".join(f"{name}: " + ", ".join(f"{v:.0%} at k={k}" for k, v in p.items()) for name, p in series.items())
    return _figure(title, told, parts)


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
    told = f"{len(ordered)} values, median {form(p50)}, 95th percentile {form(p95)}, largest {form(ordered[-1])}"
    told += "; logarithmic" if axis.log else ""
    return _figure(title, told, parts)


def _figure(title: str, told: str, parts: Sequence[Markup]) -> Markup:
    return el(
        "svg",
        el("title", title),
        el("desc", told),
        parts,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="chart",
        role="img",
        aria_label=f"{title}: {told}",
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
