"""SOQL's date words: the days that each means, counted from the org's today.

Weeks begin on Sunday, the fiscal year with the calendar year, and days at midnight UTC, as on an org with the defaults.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

_FIXED = {"TODAY": 0, "YESTERDAY": -1, "TOMORROW": 1}
_WORD = re.compile(r"(LAST|THIS|NEXT)_(?:FISCAL_)?(WEEK|MONTH|QUARTER|YEAR)")
_COUNTED = re.compile(r"(LAST|NEXT)_N_(?:FISCAL_)?(DAYS|WEEKS|MONTHS|QUARTERS|YEARS)")
_AGO = re.compile(r"N_(?:FISCAL_)?(DAYS|WEEKS|MONTHS|QUARTERS|YEARS)_AGO")
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def read_day(text: str) -> date:
    """Return the day of a date literal.

    :raises ValueError: if there is no such day.
    """
    return date.fromisoformat(text)


def read_moment(text: str) -> datetime:
    """Return the moment of a datetime literal, in UTC.

    :raises ValueError: if there is no such moment.
    :raises OverflowError: if it is outside of the calendar in UTC.
    """
    # Python keeps microseconds; what is beyond them is cut.
    return datetime.fromisoformat(re.sub(r"(\.\d{1,6})\d*", r"\1", text)).astimezone(UTC)


def is_date_word(name: str) -> bool:
    """Tell whether a name in capitals is a date word without a number."""
    return name in _FIXED or name in ("LAST_90_DAYS", "NEXT_90_DAYS") or _known(_WORD, name)


def is_counted_date_word(name: str) -> bool:
    """Tell whether a name in capitals is a date word that takes a number."""
    return _known(_COUNTED, name) or _known(_AGO, name)


def _known(pattern: re.Pattern[str], name: str) -> bool:
    # A fiscal year has quarters of its own, but no months, weeks or days.
    fiscal = "_FISCAL_" in name
    return bool(pattern.fullmatch(name)) and not (fiscal and not re.search("QUARTER|YEAR", name))


def date_range(name: str, number: int | None, today: date) -> tuple[date, date]:
    """Return the first day that a date word means, and the first day after it.

    LAST_N_DAYS includes today; LAST_N_WEEKS, _MONTHS, _QUARTERS and _YEARS end before the current one.

    :raises OverflowError: if the range leaves the calendar.
    """
    try:
        return _range(name, number or 0, today)
    except ValueError as error:
        raise OverflowError(str(error)) from error


def _range(name: str, number: int, today: date) -> tuple[date, date]:
    if name in _FIXED:
        return _units("DAY", today, _FIXED[name], _FIXED[name] + 1)
    if name == "LAST_90_DAYS":
        return _units("DAY", today, -90, 1)
    if name == "NEXT_90_DAYS":
        return _units("DAY", today, 1, 91)
    if match := _WORD.fullmatch(name):
        first = {"LAST": -1, "THIS": 0, "NEXT": 1}[match[1]]
        return _units(match[2], today, first, first + 1)
    if match := _AGO.fullmatch(name):
        return _units(match[1][:-1], today, -number, -number + 1)
    match = _COUNTED.fullmatch(name)
    # Both patterns were tried by the parser, so that one of them fits here.
    assert match is not None, name
    unit = match[2][:-1]
    if match[1] == "NEXT":
        return _units(unit, today, 1, number + 1)
    # Days run up to and including today, other units end before the current one.
    return _units(unit, today, -number, 1 if unit == "DAY" else 0)


def _units(unit: str, today: date, first: int, end: int) -> tuple[date, date]:
    """Return the range from the unit ``first`` after the current one up to the one before ``end``."""
    return _shift(unit, today, first), _shift(unit, today, end)


def _shift(unit: str, today: date, by: int) -> date:
    if unit == "DAY":
        return today + timedelta(days=by)
    if unit == "WEEK":
        # isoweekday has Sunday as 7.
        sunday = today - timedelta(days=today.isoweekday() % 7)
        return sunday + timedelta(weeks=by)
    months = _MONTHS[unit]
    # Months counted from year 0, so that a quarter or a year is a step of 3 or 12.
    index = today.year * 12 + (today.month - 1) // months * months + by * months
    return date(index // 12, index % 12 + 1, 1)
