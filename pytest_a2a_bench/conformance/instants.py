"""Times as the protocol writes them (pure)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

_FORM = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)?")


def parse_instant(text: Any) -> float | None:
    """Return seconds since 1970 of an RFC 3339 time, with fractions as long as they may be; None if it is none.

    A time without an offset, which some servers write, is read as UTC.
    """
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    whole, fraction, offset = match.groups()
    try:
        moment = datetime.fromisoformat(whole.upper() + ("" if offset in (None, "Z", "z") else offset))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)
