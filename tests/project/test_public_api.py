"""What users build on changes on purpose only."""

import importlib
import json
from typing import Any

import pytest
from public_api import COMMAND, STORED, gather


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """The public API as it is now."""
    now: dict[str, Any] = json.loads(json.dumps(gather(), default=str))
    return now


def test_the_public_api_is_what_it_was(found: dict[str, Any]) -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    changed = [part for part in found | stored if found.get(part) != stored.get(part)]
    for part in changed:
        assert found.get(part) == stored.get(part), f"{part} of the public API changed. If that is meant: {COMMAND}"


def test_everything_is_looked_at(found: dict[str, Any]) -> None:
    assert all(found.values()), [part for part, value in found.items() if not value]


def test_every_documented_name_can_be_imported(found: dict[str, Any]) -> None:
    for path in found["documented"]:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path
