"""The page of a run that goes on (``--a2a-live``), served by the controller until pytest ends."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.plugin.run.outlet import say
from pytest_a2a_bench.plugin.run.state import BenchRun, nothing_will_run
from pytest_a2a_bench.reports.live import Server, Watched
from pytest_a2a_bench.results import live

# Whoever looks has the last report by then, unless their browser sleeps.
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
        """Wait a little for those who look, unless somebody else waits for us."""
        if self._server is None:
            return
        services = self.run.services
        # Whoever ends the wait still wants the summary, which comes after this.
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
    """Serve the page of this run."""
    config.pluginmanager.register(LivePage(config, run), "a2a-bench-live")
