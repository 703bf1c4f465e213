"""Where text leaves a pytest run: what an agent said goes through here before a terminal, a log or a report has it.

Most of it is harmless already, because who composed it called :func:`~pytest_a2a_bench.redact.sanitise`. This catches
what pytest adds (values in tracebacks, captured output, warnings of libraries), and what only becomes a command of a
CI's log where a line was broken.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import pytest

from pytest_a2a_bench.plugin import shim
from pytest_a2a_bench.redact import sanitise
from pytest_a2a_bench.secret import KNOWN


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
        """Change a warning before anybody shows it or sends it on."""
        message = warning_message.message
        text = str(message)
        clean = sanitise(KNOWN.hide(text))
        if clean == text:
            return
        if isinstance(message, Warning):
            with contextlib.suppress(Exception):  # a class of somebody's own may have its own ideas of arguments
                message.args = (clean,)
                if str(message) == clean:
                    return
        warning_message.message = UserWarning(clean)


def say(terminal: Any, line: str, **markup: bool) -> None:
    """Write one line of ours to pytest's terminal reporter.

    :param markup: as its ``write_line`` takes it.
    """
    terminal.write_line(sanitise(line), **markup)
