"""Reading a JSON object of which nobody knows whether it is one: what a peer sent, or what is left of a file."""

from __future__ import annotations

import json
from typing import Any


def json_object(text: str | bytes) -> dict[str, Any]:
    """Return the object that a text is in JSON; an empty one for anything else, however deep."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
