"""The data of this room: catalogues, tables of members, vectors."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def load(name: str) -> Any:
    """Return the value of a JSON file, or the values of the lines of a ``.jsonl`` file."""
    text = (files(__name__) / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else json.loads(text)
