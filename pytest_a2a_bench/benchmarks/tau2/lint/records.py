"""A database of tau2's, looked at record by record: the large ones are not copied to read one booking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel


class Records:
    """The records of a live database, as plain values.

    :param database: tau2's, or None where a domain has none.
    """

    def __init__(self, database: Any) -> None:
        self._database = database

    def get(self, table: str, key: Any) -> Mapping[str, Any] | None:
        """Return one record; None where there is no such table or record."""
        rows = getattr(self._database, table, None)
        row = rows.get(key) if isinstance(rows, Mapping) and isinstance(key, str) else None
        found: Any = row.model_dump() if isinstance(row, BaseModel) else row
        return found if isinstance(found, Mapping) else None

    def owner(self, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the user that a call is about: the owner of the order or booking that it names, or who it names."""
        named = arguments.get("user_id")
        for table, argument in (("orders", "order_id"), ("reservations", "reservation_id")):
            record = self.get(table, arguments.get(argument))
            named = record.get("user_id") if record is not None else named
        return self.get("users", named)

    def contains(self, text: str) -> bool:
        """Tell whether any record has a text as a key or as a value."""
        return self._database is not None and text in strings_of(self._database.model_dump())


def strings_of(value: Any) -> Iterator[str]:
    """Yield every text in a plain value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(key, str):
                yield key
            yield from strings_of(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from strings_of(inner)
