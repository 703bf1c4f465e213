from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_a2a_bench.model import dollars
from pytest_a2a_bench.reports.html import charts, markup
from pytest_a2a_bench.results.stats import count

values = st.lists(st.floats(min_value=0, max_value=1e6, allow_nan=False), min_size=1, max_size=60)


@given(values, st.integers(1, 40))
def test_every_value_is_in_one_bin(numbers: list[float], count: int) -> None:
    found = charts.bins(numbers, charts.axis_of(numbers), count)
    assert len(found) == count
    assert sum(found) == len(numbers)


@given(values)
@example([5e-324])
def test_an_axis_keeps_order_and_its_ticks_are_on_it(numbers: list[float]) -> None:
    axis = charts.axis_of(numbers)
    places = [axis.at(n) for n in sorted(numbers)]
    assert places == sorted(places)
    assert all(0 <= p <= 1 for p in places)
    assert all(axis.low * 0.99 - 1e-9 <= t <= axis.high * 1.01 + 1e-9 for t in charts.ticks(axis))


def test_values_of_different_size_get_a_logarithmic_axis() -> None:
    assert charts.axis_of([0.01, 0.02, 5.0]).log
    assert not charts.axis_of([1.0, 2.0, 5.0]).log
    assert not charts.axis_of([0.0, 0.0]).log


@pytest.mark.parametrize(("value", "wanted"), [(1.0, 1.0), (1.1, 2.0), (2.2, 2.5), (3.0, 5.0), (0.07, 0.1), (70, 100)])
def test_nice_numbers(value: float, wanted: float) -> None:
    assert charts.nice(value) == pytest.approx(wanted)


def test_there_is_no_nice_number_above_nothing() -> None:
    with pytest.raises(ValueError, match="no round number"):
        charts.nice(0)


@given(values)
def test_a_histogram_is_well_formed_and_within_its_frame(numbers: list[float]) -> None:
    root = ElementTree.fromstring(charts.histogram(numbers, markup.seconds, "Times"))
    bars = [e for e in root.iter("rect") if e.get("class") == "column"]
    assert bars
    for bar in bars:
        assert 0 <= float(bar.get("x", "")) <= charts.WIDTH - float(bar.get("width", ""))
        assert 0 <= float(bar.get("y", "")) <= charts.HEIGHT
    assert "NaN" not in ElementTree.tostring(root, encoding="unicode")


def test_a_histogram_says_its_numbers_to_who_cannot_see_it() -> None:
    label = ElementTree.fromstring(charts.histogram([1.0, 2.0, 3.0], markup.seconds, "Times")).get("aria-label")
    assert label == "Times: 3 values, median 2 s, 95th percentile 2.9 s, largest 3 s"


def test_a_curve_has_a_point_for_each_k_and_a_lower_point_for_a_lower_rate() -> None:
    root = ElementTree.fromstring(charts.curve({"airline": {1: 0.8, 2: 0.4}, "retail": {1: 0.5, 2: 0.5}}, "pass^k"))
    dots = [(float(e.get("cx", "")), float(e.get("cy", ""))) for e in root.iter("circle")]
    assert len(dots) == 4
    assert dots[0][0] < dots[1][0]
    assert dots[0][1] < dots[1][1]
    assert "airline: 80% at k=1, 40% at k=2" in (root.get("aria-label") or "")


def test_a_bar_is_as_long_as_its_rate() -> None:
    root = ElementTree.fromstring(charts.bar(0.25, 0.1, 0.5, "a quarter"))
    widths = [e.get("width") for e in root.iter("rect")]
    assert widths == ["100", "25"]
    assert root.get("aria-label") == "a quarter"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "\u2013"), (0.0061, "6.1 ms"), (0.25, "250 ms"), (0.9996, "1000 ms"), (3.14159, "3.14 s"), (300, "5 min")],
)
def test_seconds(seconds: float | None, text: str) -> None:
    assert markup.seconds(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "$0.00"), (12.345, "$12.35"), (0.0123, "$0.012"), (0.000012, "$1.2e-05")],
)
def test_dollars(value: float | None, text: str) -> None:
    assert dollars(value) == text


def test_other_words() -> None:
    assert count(1, "trial") == "1 trial"
    assert count(1234, "trial") == "1,234 trials"
    assert [markup.points(p) for p in (0.061, -0.05, 0.001)] == ["+6", "\u22125", "0"]
    assert re.fullmatch(r"64 %", markup.rate(0.64))
