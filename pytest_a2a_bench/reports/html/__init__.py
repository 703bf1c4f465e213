"""The report page: one file to open in a browser, made from trials, checks, a verdict and a baseline."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pytest_a2a_bench.reports.html.contents import Contents
from pytest_a2a_bench.reports.html.page import render
from pytest_a2a_bench.results.store import write_atomically

__all__ = ["Contents", "now", "render", "write"]


def write(path: Path, page: str) -> None:
    """Write a page whole or not at all, readable by its owner only: it holds what was said.

    :raises OSError: if it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page)


def now() -> str:
    """Return the time as a page shows it."""
    return datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
