"""The periods that questions are about: how they are counted from a day, and how they are read from a sentence."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from pytest_a2a_bench.benchmarks.crmarena.tasks import MONTHS

Unit = Literal["week", "month", "quarter"]

SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""A season's first month. Winter of a year begins in its December."""

_ORDINALS = ("first", "second", "third", "fourth")
# As far as questions count in words.
NUMBERS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
)


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A period of whole days: ``start`` is in it, ``end`` is not."""

    start: date
    end: date

    def holds(self, moment: date | datetime) -> bool:
        """Tell whether a day, or a moment by its day, is in it."""
        day = moment.date() if isinstance(moment, datetime) else moment
        return self.start <= day < self.end


def add_months(day: date, count: int) -> date:
    """Return the day ``count`` months later (earlier if negative), or the last one of that month if it is shorter."""
    index = day.year * 12 + day.month - 1 + count
    year, month = divmod(index, 12)
    # 31 January and a month later is the last day of February.
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def rolling(today: date, count: int, unit: Unit) -> TimeWindow:
    """Return the ``count`` weeks, months or quarters (of three months) before today; today itself is not in it."""
    if unit == "week":
        return TimeWindow(today - timedelta(weeks=count), today)
    return TimeWindow(add_months(today, -count * (3 if unit == "quarter" else 1)), today)


def month_of(year: int, month: int) -> TimeWindow:
    """Return one calendar month."""
    return _months(year, month, 1)


def quarter_of(year: int, quarter: int) -> TimeWindow:
    """Return one calendar quarter, 1 to 4."""
    return _months(year, quarter * 3 - 2, 3)


def season_of(year: int, season: str) -> TimeWindow:
    """Return a season; winter reaches into the next year."""
    return _months(year, SEASONS[season.lower()], 3)


def _months(year: int, month: int, count: int) -> TimeWindow:
    start = date(year, month, 1)
    return TimeWindow(start, add_months(start, count))


_NUMBER = r"(\d+|" + "|".join(NUMBERS) + r")"
_ROLLING = re.compile(
    rf"\b(?:past|last|previous|preceding|recent)\s+(?:{_NUMBER}\s+)?(day|week|month|quarter|year)s?\b", re.I
)
_HALF_YEAR = re.compile(r"\b(?:past|last|previous)\s+half[- ]year\b", re.I)
# A bare number behind months counts months: "the month in the past 4 with the most cases".
_MONTHS_WITHIN = re.compile(
    r"\bmonths?\s+(?:with)?in the (?:past|last|previous)\s+(\d+)\b(?!\s+(?:day|week|month|quarter|year))", re.I
)
_QUARTER = re.compile(
    r"\b(?:Q([1-4])|(first|second|third|fourth) quarter)\b[,\s]*(?:of\s+)?(?:the year\s+)?(\d{4})", re.I
)
_SEASON = re.compile(r"\b(spring|summer|autumn|fall|winter)\b[,\s]*(?:of\s+)?(\d{4})", re.I)
_YEAR_FIRST = re.compile(r"\b(\d{4})\s+(spring|summer|autumn|fall|winter)\b", re.I)
_MONTH = re.compile(r"\b(" + "|".join(MONTHS) + r")\b[,\s]*(?:of\s+)?(\d{4})", re.I)


def read_number(text: str) -> int:
    """Return the number that digits or an English word up to fourteen stand for."""
    return int(text) if text.isdigit() else NUMBERS.index(text.lower())


def parse_window(question: str, today: date) -> TimeWindow | None:
    """Find the period that a question names, relative to ``today``; None if it names none."""
    # The named periods first: "in Q3 of 2021, over the last ..." asks for the quarter.
    if found := _QUARTER.search(question):
        quarter = int(found[1]) if found[1] else _ORDINALS.index(found[2].lower()) + 1
        return quarter_of(int(found[3]), quarter)
    if found := _SEASON.search(question):
        return season_of(int(found[2]), found[1])
    if found := _YEAR_FIRST.search(question):
        return season_of(int(found[1]), found[2])
    if found := _MONTH.search(question):
        return month_of(int(found[2]), [m.lower() for m in MONTHS].index(found[1].lower()) + 1)
    if found := _MONTHS_WITHIN.search(question):
        return rolling(today, int(found[1]), "month")
    if _HALF_YEAR.search(question):
        return rolling(today, 6, "month")
    if found := _ROLLING.search(question):
        return _counted(today, read_number(found[1]) if found[1] else 1, found[2].lower())
    return None


def _counted(today: date, count: int, unit: str) -> TimeWindow:
    if unit == "day":
        return TimeWindow(today - timedelta(days=count), today)
    if unit == "year":
        return rolling(today, count * 12, "month")
    return rolling(today, count, "week" if unit == "week" else "quarter" if unit == "quarter" else "month")


_MORE = re.compile(rf"\b(?:more than|over|exceeding|above)\s+{_NUMBER}\b(?!\s+(?:week|month|quarter|year|day))", re.I)
_LEAST = re.compile(rf"\b(?:at least|a minimum of|no fewer than)\s+{_NUMBER}\b", re.I)


def parse_threshold(question: str) -> int:
    # Thresholds are exclusive, so that one form is enough.
    """Return n where only those with more than n cases count; "at least n" is more than n - 1, none said is 0."""
    if found := _LEAST.search(question):
        return read_number(found[1]) - 1
    if found := _MORE.search(question):
        return read_number(found[1])
    return 1 if re.search(r"\bmultiple\b", question, re.I) else 0
