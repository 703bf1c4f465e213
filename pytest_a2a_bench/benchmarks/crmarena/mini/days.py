"""Working days: nothing that is counted happens at a weekend, so that periods can have quiet borders in any org."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TypeVar

Day = TypeVar("Day", date, datetime)


def on_workday(day: Day) -> Day:
    """Return the same day, or the Monday after it if it is at a weekend."""
    return day + timedelta(days=max(0, 7 - day.weekday()) if day.weekday() > 4 else 0)
