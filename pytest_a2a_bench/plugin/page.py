"""The HTML page of a run (``--a2a-html``, ``--a2a-live``)."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.conformance.report import CheckRow
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.plugin import publishing, terminal
from pytest_a2a_bench.plugin.explanation import say, sections_of, shown_path
from pytest_a2a_bench.plugin.state import BenchRun, nothing_will_run
from pytest_a2a_bench.reports.contents import Contents, beside, nodeids_of, now
from pytest_a2a_bench.reports.html import write
from pytest_a2a_bench.reports.live import Server, Watched
from pytest_a2a_bench.results import live

if TYPE_CHECKING:
    from pytest_a2a_bench.model import TrialResult

_CHECK = "a2a.check_"


class Page:
    """Listens to reports for what only they know, and writes the page."""

    def __init__(self, config: pytest.Config, run: BenchRun) -> None:
        self.config = config
        self.run = run
        self._problem = ""
        self._written: Path | None = None
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
        """Write the page; that it cannot be written makes a run fail that would pass."""
        contents, place = self._contents(), self.run.settings.html
        if nothing_will_run(self.config) or not place or not (contents.trials or contents.checks):
            return
        try:
            self._written = write(place, contents)
        except OSError as error:
            self._problem = f"the report page {Path(place)} cannot be written: {error.strerror or error}"
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the path of the page."""
        if self._problem:
            say(terminalreporter, f"a2a: {self._problem}", red=True)
        if self._written is not None and self.config.get_verbosity() >= 0:
            say(terminalreporter, f"report page: {shown_path(str(self._written), self.config)}")

    def _contents(self) -> Contents:
        agent, trials = self.run.plan.agent, self._trials()
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
            history=getattr(self.config.pluginmanager.get_plugin(publishing.HISTORY), "entries", ()),
        )

    def _trials(self) -> list[TrialResult]:
        reporting = self.config.pluginmanager.get_plugin("a2a-bench-reporting")
        return reporting.results() if isinstance(reporting, terminal.Reporting) else []


# -- the live page (``--a2a-live``), served by the controller until pytest ends --

# A browser has loaded the last report by then, unless it sleeps.
_LAST_LOOK = 5.0


class LivePage:
    """Serves the page, and lets those who look see the end."""

    def __init__(self, config: pytest.Config, run: BenchRun) -> None:
        self.config = config
        self.run = run
        self._server: Server | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Begin, and say where, with ``-q`` too: nobody can guess it.

        :raises pytest.UsageError: if the port is taken.
        """
        plan = self.run.plan
        # What judges the protocol writes no results.
        if nothing_will_run(self.config) or not plan.settings.endpoint or plan.selection.only_conformance:
            return
        try:
            server = Server(self._watched(), plan.settings.live or 0, "--a2a-live")
        except ConfigurationError as error:
            raise pytest.UsageError(str(error)) from error
        self._server = server.__enter__()
        self.config.add_cleanup(lambda: server.__exit__(None, None, None))
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            say(terminal, f"a2a: {server.url} shows this run")

    def _watched(self) -> Watched:
        settings = self.run.settings
        baseline = Path(settings.baseline) if settings.baseline else None
        past = Path(settings.history_file) if settings.history_file else None
        return Watched(self.run.plan.results, baseline, self.run.plan.run_id, past)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Wait a little for browsers, unless another process waits for this one."""
        if self._server is None:
            return
        services = self.run.services
        # After Ctrl-C the summary is still printed, which comes after this.
        with contextlib.suppress(KeyboardInterrupt):
            try:
                # Here SIGTERM is raised once more: only noted, it would end nothing.
                services.is_ending = False
                self._server.let_them_see(0.0 if services.is_terminated else _LAST_LOOK)
            finally:
                services.is_ending = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """Remove what conversations left behind, while the directory is this run's and not another's."""
        if self.run.services.lock is not None:
            live.clear(self.run.plan.results)


def register(config: pytest.Config, run: BenchRun) -> None:
    """Write the page of this run, serve it, or both, as the settings ask for."""
    if run.settings.html:
        config.pluginmanager.register(Page(config, run), "a2a-bench-html")
    if run.settings.live is not None:
        config.pluginmanager.register(LivePage(config, run), "a2a-bench-live")
