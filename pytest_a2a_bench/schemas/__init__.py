"""JSON Schemas (draft 2020-12) of the files that this project writes, for whoever reads them with other tools.

Each file says ``schema_version``; a schema's file is named after that version. A version changes where a reader of the
old form would misread the new one. Unknown members are allowed: they may be added without a new version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

VERSIONS: Mapping[str, int] = {
    "trial": 1,
    "run": 1,
    "verdict": 1,
    "breaker": 1,
    "decided": 1,
    "baseline": 1,
    "history": 1,
    "cassette": 1,
    "card": 1,
    "conformance": 1,
    "assessment": 1,
}
"""Name of a schema -> the ``schema_version`` that it describes."""


def file_name(name: str) -> str:
    """Return the name of a schema's file."""
    return f"{name}.v{VERSIONS[name]}.schema.json"


def load(name: str) -> dict[str, Any]:
    """Return a schema.

    :raises KeyError: if there is none of that name.
    """
    text = (files(__name__) / "data" / file_name(name)).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
