"""The history of runs (``--a2a-history-file PATH``): this one is added to it, and what it shows is told."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.plugin.run.outlet import say
from pytest_a2a_bench.plugin.run.state import BenchRun, nothing_will_run
from pytest_a2a_bench.redact import sanitise
from pytest_a2a_bench.results import history
from pytest_a2a_bench.results.baseline import Baseline

if TYPE_CHECKING:
    from pytest_a2a_bench.plugin.report.terminal import Reporting

NAME = "a2a-bench-history"


class Past:
    """Adds the run when all gates have spoken.

    :ivar entries: all runs, this one last; without it where it is not to be added.
    """

    def __init__(self, config: pytest.Config, run: BenchRun, reporting: Reporting, path: Path) -> None:
        self.config = config
        self.run = run
        self.path = path
        self.entries: list[history.Entry] = []
        self._reporting = reporting
        self._notes: list[str] = []
        self._problem = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Add it before the page is made; that it cannot be written makes a run fail that would pass."""
        if self._reporting.reported and not nothing_will_run(self.config):
            try:
                self._add()
            except (OSError, ConfigurationError) as error:
                self._problem = f"this run is not in the history: {error}"
                session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        return (yield)

    def _add(self) -> None:
        entry = self._entry()
        self.entries = history.read(self.path)
        if self.run.plan.named:
            self._notes.append("this run is not added to the history: its trials were named one by one")
        elif self.run.settings.shard:
            self._notes.append(
                "a shard is not added to the history: merge them, and a2a-bench compare --history FILE --add DIR"
            )
        elif entry.trials[1]:
            history.append(self.path, entry)
            self.entries.append(entry)

    def _entry(self) -> history.Entry:
        verdict = getattr(self.config.pluginmanager.get_plugin("a2a-bench-gates"), "verdict", None)
        agent = self.run.plan.endpoint.agent if self.run.plan.endpoint else ""
        measured = Baseline.of(self._reporting.results())
        outcome = verdict.outcome if verdict is not None else ""
        return history.Entry.of(measured, os.environ, run_id=self.run.plan.run_id, agent=agent, verdict=outcome)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say how this run stands among the others."""
        if self._problem:
            say(terminalreporter, sanitise(f"a2a: {self._problem}"), red=True)
        if self.config.get_verbosity() < 0:
            return
        found = history.trend(self.entries) if len(self.entries) > 1 else None
        for line in (*self._notes, *(history.trend_lines(found) if found else ())):
            say(terminalreporter, sanitise(f"a2a: {line}"))


def register(config: pytest.Config, run: BenchRun, reporting: Reporting) -> None:
    """Listen, where a history is kept."""
    if run.settings.history_file:
        config.pluginmanager.register(Past(config, run, reporting, Path(run.settings.history_file)), NAME)
