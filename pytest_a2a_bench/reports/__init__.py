"""Reports of conformance: one verdict, in one of several formats (pure)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.report import Report

FORMATS = ("text", "json", "junit", "sarif", "markdown")


def render(report: Report, format: str) -> str:
    """Return a report as text in one of :data:`FORMATS`, with a line break at its end.

    Every rendering is bounded, free of control characters, and escaped as its format wants it.
    """
    if format not in FORMATS:
        raise ValueError(f"{format!r} is not one of {', '.join(FORMATS)}")
    module = import_module(f"{__name__}.{format}")
    return cast("Callable[[Report], str]", module.render)(report)
