"""Text and properties that leave a pytest run: explanations and terminal lines, without secrets."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from pytest_a2a_bench.plugin import shim
from pytest_a2a_bench.plugin.state import BenchRun
from pytest_a2a_bench.redact import KNOWN, in_environment
from pytest_a2a_bench.results.store import shown
from pytest_a2a_bench.text import sanitise

PREFIX = "a2a."
"""How the names of our properties begin."""

STOPPED = "stopped"
"""Property of a trial that was not run, and of the one that opened the breaker: the event and the remedy."""

MISSED = "a2a_missed"
"""Set on the report of a trial whose miss is excused; an expected failure of the user's own has no such mark."""

PLAIN = "a2a_plain_miss"
"""Set on the report of a failure that says no more than that a trial was missed."""


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
    """Return the sections of a report beside its traceback, by title: captured output, and our explanations."""
    return [*report.sections, *((name, text) for name, text, *_ in getattr(report.longrepr, "sections", ()))]


def set_properties(item: pytest.Item, values: Mapping[str, str | int | float | bool]) -> None:
    """Put scalars into an item's properties, in place of those of an earlier run of it (a rerun)."""
    # 0.1 + 0.2 is no number that a person wants to read.
    values = {name: round(value, 9) if isinstance(value, float) else value for name, value in values.items()}
    # A rerun must not report the properties of the try before it.
    kept = [(name, value) for name, value in item.user_properties if not name.startswith(PREFIX)]
    item.user_properties[:] = [*kept, *((sys.intern(PREFIX + name), value) for name, value in values.items())]


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
    path = shown(path) or path
    if "://" in path:
        return path
    try:
        relative = os.path.relpath(path, config.invocation_params.dir)
    except ValueError:  # another drive
        return path
    return path if relative.startswith("..") else relative


# -- text that leaves a pytest run, for a terminal, a log or a report --
# Most of it is harmless already, because its author called :func:`~pytest_a2a_bench.text.sanitise`. This catches
# what pytest adds (values in tracebacks, captured output, warnings of libraries), and what only becomes a command of a
# CI's log where a line was broken.


def clean_report(report: pytest.TestReport) -> None:
    """Make a report harmless: its traceback or message, captured output, and the reason of an expected failure.

    Captured output loses its colours, too.
    """
    report.longrepr = shim.conceal(report.longrepr, sanitise)
    report.sections = [(sanitise(name), sanitise(text)) for name, text in report.sections]
    if hasattr(report, "wasxfail"):
        report.wasxfail = sanitise(report.wasxfail)


class Warnings:
    """Makes warnings harmless and hides secrets in them; registered where a run takes part."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage) -> None:
        """Change a warning before it is shown or sent to the controller."""
        message = warning_message.message
        text = str(message)
        clean = sanitise(KNOWN.hide(text))
        if clean == text:
            return
        if isinstance(message, Warning):
            with contextlib.suppress(Exception):  # a user's class may take other arguments
                message.args = (clean,)
                if str(message) == clean:
                    return
        warning_message.message = UserWarning(clean)


def say(terminal: Any, line: str, **markup: bool) -> None:
    """Write one line of ours to pytest's terminal reporter.

    :param markup: as its ``write_line`` takes it.
    """
    terminal.write_line(sanitise(line), **markup)


# -- secrets in what pytest shows and hands to other plugins --
# Reports are changed where they are made, which under xdist is in the worker: it knows what its fixtures use. So JUnit
# XML, report logs, other reporters and the terminal all get a report without secrets; the terminal's own stream is
# filtered as well, for what reaches it in other ways.


def conceal(config: pytest.Config, run: BenchRun) -> None:
    """Hide this process's secrets in reports and logs, until pytest's configuration ends."""
    settings = run.settings
    config.add_cleanup(KNOWN.remember([*in_environment(os.environ, *settings.secret_variables), *settings.secrets]))
    config.pluginmanager.register(Concealment(), "a2a-bench-concealment")


class Concealment:
    """Changes reports after every other plugin's hook has had them."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Watch the terminal, which is there by now."""
        shim.watch_terminal(session.config)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Hide secrets in an item's report: traceback with its locals, output, log, properties."""
        report = yield
        shim.conceal_report(report, KNOWN.hide)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Hide secrets in a collector's report."""
        report = yield
        shim.conceal_report(report, KNOWN.hide)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self, excrepr: Any) -> None:
        """Hide secrets in the traceback of a crash."""
        shim.conceal(excrepr, KNOWN.hide)
