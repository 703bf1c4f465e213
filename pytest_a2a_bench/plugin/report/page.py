"""The report page of a run (``--a2a-html``) and reports by others' reporters (``report``).

They are written on the controller when everything else is known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.conformance.report import CheckRow
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.plugin.report import past, terminal
from pytest_a2a_bench.plugin.report.agents import agent_of
from pytest_a2a_bench.plugin.run.explanation import sections_of, shown_path
from pytest_a2a_bench.plugin.run.outlet import say
from pytest_a2a_bench.plugin.run.state import BenchRun, nothing_will_run
from pytest_a2a_bench.reports.contents import Contents, beside, nodeids_of, now, write_with
from pytest_a2a_bench.reports.html import write

if TYPE_CHECKING:
    from pytest_a2a_bench.model import TrialResult

_CHECK = "a2a.check_"


class Page:
    """Listens to reports for what only they know, and writes the page."""

    def __init__(self, config: pytest.Config, run: BenchRun) -> None:
        self.config = config
        self.run = run
        self.problems: list[str] = []
        self.written: list[tuple[str, Path]] = []
        self._checks: dict[str, dict[str, str]] = {}
        self._explanations: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a check of the protocol, and what is to be said about it."""
        found = {str(n)[len(_CHECK) :]: str(v) for n, v in report.user_properties if str(n).startswith(_CHECK)}
        if not found:
            return
        name = f"{found['id']} {found['version']} [{found['binding']}]"
        self._checks[name] = found
        title = f"a2a {found['id']} [{found['binding']}]"
        text = next((text for where, text in sections_of(report) if where == title), None)
        # An item that ends in its setup with an error has its evidence as its message.
        if text is None and found["status"] == "error" and report.when == "setup":
            text = report.longreprtext
        if text:
            self._explanations[name] = text

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the reports; that one cannot be written makes a run fail that would pass."""
        contents = self._contents()
        if nothing_will_run(self.config) or not (contents.trials or contents.checks):
            return
        if self.run.settings.html:
            self._write("report page", Path(self.run.settings.html), partial(write, self.run.settings.html, contents))
        for name, path in self.run.settings.report.items():
            self._write(f"report {name!r}", Path(path), partial(write_with, name, Path(path), contents))
        if self.problems:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def _write(self, what: str, path: Path, write_it: Callable[[], Path]) -> None:
        try:
            self.written.append((what, write_it()))
        except OSError as error:
            self.problems.append(f"the {what} {path} cannot be written: {error.strerror or error}")
        except ConfigurationError as error:
            self.problems.append(str(error))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say where the reports are."""
        for problem in self.problems:
            say(terminalreporter, f"a2a: {problem}", red=True)
        for what, path in self.written if self.config.get_verbosity() >= 0 else ():
            say(terminalreporter, f"{what}: {shown_path(str(path), self.config)}")

    def _contents(self) -> Contents:
        agent, trials = agent_of(self.run), self._trials()
        gates = self.config.pluginmanager.get_plugin("a2a-bench-gates")
        verdict = getattr(gates, "verdict", None)
        return Contents(
            trials=trials,
            endpoint=agent["endpoint"],
            agent=agent.get("name", ""),
            interface=agent.get("interface", ""),
            checks=[CheckRow(**values) for values in self._checks.values()],  # type: ignore[arg-type]
            explanations=self._explanations,
            verdict=getattr(gates, "stored", None),
            comparison=getattr(verdict, "comparison", None),
            baseline_name=self.run.settings.baseline or "",
            beside=beside(Path(self.run.settings.baseline), trials) if self.run.settings.baseline else {},
            nodeids=nodeids_of(self.run.plan.results),
            compared=getattr(verdict, "agents", ()),
            made_at=now(),
            history=getattr(self.config.pluginmanager.get_plugin(past.NAME), "entries", ()),
        )

    def _trials(self) -> list[TrialResult]:
        reporting = self.config.pluginmanager.get_plugin("a2a-bench-reporting")
        return reporting.results() if isinstance(reporting, terminal.Reporting) else []
