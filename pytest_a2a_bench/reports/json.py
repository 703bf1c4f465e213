"""A report as JSON (pure)."""

from __future__ import annotations

from typing import Any

from pytest_a2a_bench.conformance.report import Report
from pytest_a2a_bench.redact import sanitise
from pytest_a2a_bench.secret import dump_json

_TEXT = 8_000
_ITEMS = 100
_MOST = {"results": None, "findings": 20, "exchanges": 5}


def render(report: Report) -> str:
    """Return the report as a JSON object, its texts bounded and without control characters."""
    return dump_json(_bounded(report.to_json()), indent=2) + "\n"


def _bounded(value: Any, whole: bool = False) -> Any:
    if isinstance(value, str):
        plain = sanitise(value[: _TEXT + 1])
        return plain if len(plain) <= _TEXT else f"{plain[:_TEXT]}... ({len(value)} characters in all)"
    if isinstance(value, dict):
        return {
            sanitise(str(k)): _bounded(inner[: _MOST[k]] if k in _MOST else inner, k == "results")
            for k, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_bounded(v) for v in (value if whole else value[:_ITEMS])]
    return value
