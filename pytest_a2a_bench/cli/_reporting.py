"""What the ways of ``a2a-bench check`` share: bounds of their numbers, and the report that they print or write."""

from __future__ import annotations

import math
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_a2a_bench.config.doors import of_command
from pytest_a2a_bench.conformance.report import Report
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import KNOWN
from pytest_a2a_bench.reports.findings import render

_BOUNDS: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "timeout": (lambda n: 0 < n < math.inf, "give a number of seconds above 0"),
    "concurrency": (lambda n: n >= 1, "give a whole number of 1 or more"),
    "count": (lambda n: n >= 0, "give a whole number, 0 for no end"),
    "status": (lambda n: 200 <= n <= 599, "give a status of HTTP from 200 to 599"),
    "delay": (lambda n: 0 <= n < math.inf, "give a number of seconds"),
}


def check_numbers(namespace: Namespace, *names: str) -> None:
    """Check the numbers of some options.

    :raises ConfigurationError: naming each that is out of bounds.
    """
    wrong = []
    for name in names:
        value = getattr(namespace, name)
        is_good, advice = _BOUNDS[name]
        if not is_good(value):
            wrong.append(f"--{name} is {value}; {advice}")
    if wrong:
        raise ConfigurationError(*wrong)


def check_output(path: Path, option: str = "-o") -> None:
    """Check before a run that its report can be written.

    :raises ConfigurationError: if it cannot.
    """
    # The nearest directory that exists, since the missing ones below it are made.
    above = next((folder for folder in path.absolute().parents if folder.exists()), path)
    if path.is_dir() or not above.is_dir() or not os.access(path if path.exists() else above, os.W_OK):
        raise ConfigurationError(f"{option} {path}: cannot be written; name a file in a directory that is yours")


def write_report(path: Path, text: str, option: str = "-o") -> None:
    """Write a report without secrets, with the directories that it needs.

    :param option: that named the file.
    :raises ConfigurationError: if it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(KNOWN.hide(text), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{option} {path}: cannot be written: {error.strerror or error}") from error


def deliver(namespace: Namespace, report: Report) -> None:
    """Print a report, or write it to the file of ``-o``."""
    text = of_command(namespace.options).words(render(report, namespace.format))
    if namespace.output:
        write_report(Path(namespace.output), text)
    else:
        sys.stdout.write(text)
