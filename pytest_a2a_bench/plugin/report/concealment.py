"""Keeps secrets out of what pytest shows and hands to other plugins: reports, the terminal.

Reports are changed where they are made, which under xdist is in the worker: it knows what its fixtures use. So JUnit
XML, report logs, other people's reporters and the terminal all get what is hidden already; the terminal is watched
besides, for what reaches it in other ways. Warnings are changed by :mod:`~pytest_a2a_bench.plugin.run.outlet`.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from pytest_a2a_bench.plugin import shim
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.secret import KNOWN, in_environment


def begin(config: pytest.Config, run: BenchRun) -> None:
    """Hide what this process knows, until pytest's configuration ends."""
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
