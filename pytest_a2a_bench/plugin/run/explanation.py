"""What our items say in pytest's reports: an explanation beside the traceback, and scalars that every reporter gets."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_a2a_bench.plugin.run import allure_report
from pytest_a2a_bench.results import remote

PREFIX = "a2a."
"""How the names of our properties begin."""

STOPPED = "stopped"
"""Property of a trial that was not run, and of the one that opened the breaker: what happened and what to do."""

MISSED = "a2a_missed"
"""Set on the report of a trial whose miss is excused: what tells it from an expected failure of the user's own."""


def add_explanation(report: pytest.TestReport, title: str, text: str, headline: str | None) -> None:
    """Give a failure a section of its own.

    :param headline: becomes the first line of the message, which the short summary and junit's attribute show; None
        where the message that is there says more.
    """
    longrepr: Any = report.longrepr
    # A skip or a crash has a tuple or a text in place of a representation.
    if not hasattr(longrepr, "addsection"):
        report.sections.append((title, text))
        return
    longrepr.addsection(title, text)
    crash = getattr(longrepr, "reprcrash", None)
    # The message is what summaries and CI systems show first.
    if crash is not None and headline is not None:
        crash.message = f"{headline}\n{crash.message}"


def sections_of(report: pytest.TestReport) -> list[tuple[str, str]]:
    """Return what a report has to say beside its traceback, by title: captured output, and our explanations."""
    return [*report.sections, *((name, text) for name, text, *_ in getattr(report.longrepr, "sections", ()))]


def set_properties(
    item: pytest.Item, values: Mapping[str, str | int | float | bool], transcript: str | None = None
) -> None:
    """Put scalars into an item's properties, in place of what an earlier run of it (a rerun) left.

    :param transcript: file that reporters may take a copy of.
    """
    # A rerun must not report the properties of the try before it.
    kept = [(name, value) for name, value in item.user_properties if not name.startswith(PREFIX)]
    item.user_properties[:] = [*kept, *((sys.intern(PREFIX + name), value) for name, value in values.items())]
    if allure_report.is_written(item.config):
        allure_report.tell({PREFIX + name: value for name, value in values.items()}, transcript)


def is_excused_miss(report: Any) -> bool:
    """Return whether a report is one of a miss that a gate counts or that is quarantined."""
    return bool(report.skipped and getattr(report, MISSED, False))


def was_not_run(report: Any) -> bool:
    """Return whether a report is one of a trial that was not run, because the breaker was open or the time was up."""
    return dict(report.user_properties).get(PREFIX + "status") == "not_run"


def shown_path(path: str | None, config: pytest.Config) -> str | None:
    """Return a path as seen from where pytest was started, if that is shorter; where a file really is, if elsewhere."""
    if path is None:
        return None
    path = remote.shown(path) or path
    if "://" in path:
        return path
    try:
        relative = os.path.relpath(path, config.invocation_params.dir)
    except ValueError:  # another drive
        return path
    return path if relative.startswith("..") else relative
