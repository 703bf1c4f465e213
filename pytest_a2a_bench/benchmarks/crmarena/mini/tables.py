"""Rows in the making, in the shape of the official tables."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.mini.ids import KEY_PREFIXES, record_id

Row = dict[str, Any]


class Tables:
    """Rows by object; ids are given out in the order of adding."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {name: [] for name in KEY_PREFIXES}

    def add(self, name: str, **fields: Any) -> str:
        """Add a row and return its id. Dates and datetimes are written as the tables have them."""
        rows = self.rows[name]
        key = record_id(KEY_PREFIXES[name], len(rows))
        rows.append({"Id": key} | {field: written(value) for field, value in fields.items()})
        return key

    def count(self, name: str) -> int:
        """Return how many rows an object has so far."""
        return len(self.rows[name])


def written(value: Any) -> Any:
    """Return a value as a table has it: ``2021-06-07T10:50:00.000+0000``, ``2021-06-07``, 0 or 1."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.000+0000")
    if isinstance(value, date):
        return value.isoformat()
    return int(value) if isinstance(value, bool) else value
