"""The oracle that looks and never touches: which of the benchmark's rewards depend on a write at all."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from functools import lru_cache

from pytest_a2a_bench.agents.gold import Gold
from pytest_a2a_bench.errors import MissingExtraError

_WRITE = "write"


def without_writes(gold: Gold) -> Gold:
    """Return the gold without the calls that change the database, and without what must hold after them."""
    writes = write_tools(gold.domain)
    kept = tuple(call for call in gold.calls if call.name not in writes)
    return dataclasses.replace(gold, calls=kept, assertions=())


@lru_cache(maxsize=32)
def write_tools(domain: str) -> frozenset[str]:
    """Return the names of the agent's tools in a tau2 domain that tau2 itself marks as writing.

    Imports the domain's tools only (half a second; no LLM library).

    :raises MissingExtraError: if tau2 is not installed.
    """
    try:
        module = importlib.import_module(f"tau2.domains.{domain.replace('-', '_')}.tools")
        toolkit = importlib.import_module("tau2.environment.toolkit")
    except ImportError as error:
        raise MissingExtraError("tau2-bench", "tau2", detail=str(error)) from error
    base, attribute = toolkit.ToolKitBase, toolkit.TOOL_TYPE_ATTR
    kits = [cls for _, cls in inspect.getmembers(module, inspect.isclass) if issubclass(cls, base)]
    members = [member for kit in kits for member in inspect.getmembers(kit, inspect.isfunction)]
    return frozenset(name for name, function in members if _kind(getattr(function, attribute, None)) == _WRITE)


def _kind(tool_type: object) -> str:
    return str(getattr(tool_type, "value", tool_type)).lower()
