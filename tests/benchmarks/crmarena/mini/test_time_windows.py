"""Periods: counted from a day, and read from a question."""

from __future__ import annotations

from datetime import date, datetime

from hypothesis import given
from hypothesis import strategies as st
from mini_org.time_windows import (
    NUMBERS,
    TimeWindow,
    add_months,
    month_of,
    parse_threshold,
    parse_window,
    quarter_of,
    rolling,
    season_of,
)
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.crmarena.tasks import MONTHS

TODAY = date(2022, 5, 31)


def _window(start: str, end: str) -> TimeWindow:
    return TimeWindow(date.fromisoformat(start), date.fromisoformat(end))


@in_one_test(
    ("question", "start", "end"),
    [
        ("counting the past three weeks", "2022-05-10", "2022-05-31"),
        ("taking the last 3 months", "2022-02-28", "2022-05-31"),
        ("Through the previous two quarters", "2021-11-30", "2022-05-31"),
        ("in the past month", "2022-04-30", "2022-05-31"),
        ("within the past half-year", "2021-11-30", "2022-05-31"),
        ("over the preceding 14 days", "2022-05-17", "2022-05-31"),
        ("in the last year", "2021-05-31", "2022-05-31"),
        ("some month within the last 10 as a calm one", "2021-07-31", "2022-05-31"),
        ("in Q3 2020", "2020-07-01", "2020-10-01"),
        ("in Q4 of 2021", "2021-10-01", "2022-01-01"),
        ("for the second quarter of 2023", "2023-04-01", "2023-07-01"),
        ("for the Winter of 2020", "2020-12-01", "2021-03-01"),
        ("all through the 2020 Winter", "2020-12-01", "2021-03-01"),
        ("Fall 2022", "2022-09-01", "2022-12-01"),
        ("in autumn 2022", "2022-09-01", "2022-12-01"),
        ("by December 2021", "2021-12-01", "2022-01-01"),
        ("in february, 2024", "2024-02-01", "2024-03-01"),
    ],
)
def test_periods_are_read(question: str, start: str, end: str) -> None:
    assert parse_window(f"Which agent was first {question}?", TODAY) == _window(start, end)


def test_a_question_without_a_period_has_none() -> None:
    assert parse_window("Which agent looked after more than three cases?", TODAY) is None


@in_one_test(
    ("question", "threshold"),
    [
        ("looked after more than 3 tickets", 3),
        ("closed over two tickets over the past four weeks", 2),
        ("in the past four weeks, over the last 3 quarters", 0),
        ("looked after at least one case", 0),
        ("looked after at least three cases", 2),
        ("handled multiple cases", 1),
        ("more than zero cases", 0),
        ("worked on tickets over the last 2 months", 0),
    ],
)
def test_thresholds_are_read(question: str, threshold: int) -> None:
    assert parse_threshold(question) == threshold


def test_the_first_day_is_in_and_the_last_is_not() -> None:
    window = month_of(2022, 2)
    assert window.holds(date(2022, 2, 1))
    assert window.holds(datetime(2022, 2, 28, 23, 59))
    assert not window.holds(date(2022, 3, 1))
    assert not window.holds(date(2022, 1, 31))


@given(st.dates(date(1990, 1, 1), date(2090, 1, 1)), st.integers(-60, 60))
def test_months_are_added_to_the_same_day_or_the_months_last(day: date, count: int) -> None:
    moved = add_months(day, count)
    assert (moved.year * 12 + moved.month) - (day.year * 12 + day.month) == count
    assert moved.day == day.day or (moved.day < day.day and add_months(moved, 0).month == moved.month)


@given(
    st.dates(date(2019, 1, 1), date(2030, 1, 1)),
    st.integers(2, 12),
    st.sampled_from(["week", "month", "quarter"]),
    st.booleans(),
)
def test_what_is_said_is_what_is_read(today: date, count: int, unit: str, digits: bool) -> None:
    said = str(count) if digits else NUMBERS[count]
    expected = rolling(today, count, "week" if unit == "week" else "month" if unit == "month" else "quarter")
    assert parse_window(f"Who was first over the past {said} {unit}s?", today) == expected


@given(st.integers(2000, 2040), st.integers(1, 12))
def test_named_periods_tile_the_year(year: int, month: int) -> None:
    assert parse_window(f"in {MONTHS[month - 1]} {year}", TODAY) == month_of(year, month)
    quarter = (month + 2) // 3
    assert parse_window(f"in Q{quarter} {year}", TODAY) == quarter_of(year, quarter)
    assert quarter_of(year, quarter).holds(date(year, month, 15))
    assert season_of(year, "winter").start == season_of(year, "autumn").end
