"""The report page: one file to open in a browser, made from trials, checks, a verdict and a baseline."""

from __future__ import annotations

import importlib.metadata
from datetime import UTC, datetime
from pathlib import Path

from pytest_a2a_bench.reports.html.contents import Contents, Gate, Verdict
from pytest_a2a_bench.reports.html.page import render

__all__ = ["Contents", "Gate", "Verdict", "now", "own_version", "render", "write"]


def write(path: Path, page: str) -> None:
    """Write a page whole or not at all, readable by its owner only: it holds what was said.

    :raises OSError: if it cannot be written.
    """
    from pytest_a2a_bench.results.store import write_atomically

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page)


def now() -> str:
    """Return the time as a page shows it."""
    return datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


def own_version() -> str:
    """Return this package's version, or nothing where it is not installed."""
    try:
        return importlib.metadata.version("pytest-a2a-bench")
    except importlib.metadata.PackageNotFoundError:
        return ""
