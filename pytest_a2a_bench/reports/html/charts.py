"""Charts as SVG that takes its colours from the page (pure).

Every chart has a title and a description; the numbers themselves are in a table beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pytest_a2a_bench.model import percentile
from pytest_a2a_bench.reports.html import scale
from pytest_a2a_bench.reports.html.element import Html, el
from pytest_a2a_bench.reports.html.scale import Axis

WIDTH, HEIGHT = 400, 216
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 12, 22, 28
_BINS = 24
COLOURS = 6
"""How many lines can be told apart; more share colours, and are told apart by their table."""


def bar(rate: float, low: float, high: float, label: str) -> Html:
    """Return a bar from 0 to 1 with its interval, as wide as the place that it is put into.

    :param rate: 0 to 1, as are both limits.
    """
    ends = [_line(x * 100, 4, x * 100, 14, "whisker") for x in (low, high)]
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


def curve(series: Mapping[str, Mapping[int, float]], title: str) -> Html:
    """Return one line for each name: a rate of 0 to 1 for each k.

    :param series: name -> k -> rate; at least one name, and at least one k of 2 or more.
    """
    most = max(k for points in series.values() for k in points)
    axis = Axis(1, most)
    marks = [k for k in range(1, most + 1) if most <= 8 or k in (1, most) or k % (most // 4 or 1) == 0]
    parts: list[Html] = [*_rate_grid(), *(_tick(axis, k, f"{k}") for k in marks)]
    for i, points in enumerate(series.values()):
        places = [(_x(axis, k), _y(v)) for k, v in sorted(points.items())]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(el("path", d=path, class_=f"line s{i % COLOURS}"))
        parts += [el("circle", cx=round(x, 1), cy=round(y, 1), r=3, class_=f"dot s{i % COLOURS}") for x, y in places]
    told = "; ".join(f"{name}: " + ", ".join(f"{v:.0%} at k={k}" for k, v in p.items()) for name, p in series.items())
    return _figure(title, told, parts)


def histogram(values: Sequence[float], form: Callable[[float], str], title: str) -> Html:
    """Return how values are distributed, with their median and their 95th percentile.

    :param values: none of them negative, at least one.
    :param form: writes a value with its unit.
    """
    ordered = sorted(values)
    axis = scale.axis_of(ordered)
    found = scale.bins(ordered, axis, _BINS)
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
    parts += [_tick(axis, value, form(value)) for value in scale.ticks(axis)]
    p50, p95 = (percentile(ordered, q) or 0.0 for q in (50, 95))
    # Two words in one place cannot be read: the median gives way.
    apart = abs(_x(axis, p95) - _x(axis, p50)) > 34
    parts += _marker(axis, p50, "p50" if apart else "")
    parts += _marker(axis, p95, "p95")
    told = f"{len(ordered)} values, median {form(p50)}, 95th percentile {form(p95)}, largest {form(ordered[-1])}"
    told += "; logarithmic" if axis.log else ""
    return _figure(title, told, parts)


def _figure(title: str, told: str, parts: Sequence[Html]) -> Html:
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


def _rate_grid() -> list[Html]:
    found = []
    for value in (0.0, 0.5, 1.0):
        y = _y(value)
        found += [_line(_LEFT, y, WIDTH - _RIGHT, y, "grid"), _text(_LEFT - 6, y + 4, f"{value * 100:.0f} %", "end")]
    return found


def _tick(axis: Axis, value: float, label: str) -> Html:
    x = _x(axis, value)
    anchor = "end" if x > WIDTH - _RIGHT - 12 else "start" if x < _LEFT + 6 else "middle"
    return _text(x, HEIGHT - 8, label, anchor)


def _marker(axis: Axis, value: float, label: str) -> list[Html]:
    x = _x(axis, value)
    anchor = "end" if x > WIDTH - _RIGHT - 14 else "middle"
    return [_line(x, _TOP - 4, x, _y(0), "marker"), *([_text(x, _TOP - 9, label, anchor)] if label else [])]


def _x(axis: Axis, value: float) -> float:
    return _LEFT + axis.at(value) * (WIDTH - _LEFT - _RIGHT)


def _y(rate: float) -> float:
    return HEIGHT - _BOTTOM - rate * (HEIGHT - _TOP - _BOTTOM)


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    return el("line", x1=round(x1, 2), y1=round(y1, 2), x2=round(x2, 2), y2=round(y2, 2), class_=class_)


def _text(x: float, y: float, text: str, anchor: str) -> Html:
    return el("text", text, x=round(x, 1), y=round(y, 1), text_anchor=anchor)
