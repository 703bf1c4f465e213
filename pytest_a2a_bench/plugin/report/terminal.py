"""What the terminal shows: one header line, progress while trials run, one summary section."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.benchmarks.registry import INTERACTIVE
from pytest_a2a_bench.plugin.run import options, state
from pytest_a2a_bench.plugin.run.state import TRIAL, BenchRun

if TYPE_CHECKING:
    from pytest_a2a_bench.model import TrialResult

# The user's own parameters come after the trial's, or before it: "[12-t0-fast]".
_TRIAL_ID = re.compile(r"\[.*-t\d+(?:-.*)?\](?:@[^\]]*)?$", re.DOTALL)


def looks_like_trial(nodeid: str) -> bool:
    """Tell from its id alone whether an item reports a trial (all that a controller knows of its workers' items)."""
    return _TRIAL_ID.search(nodeid) is not None


def header_line(run: BenchRun) -> str | None:
    """Return the one line that says what is tested and with whom."""
    from pytest_a2a_bench.reports import failures

    settings = run.settings
    if not settings.endpoint:
        return None
    where = options.without_query(settings.endpoint, settings.endpoint)
    if run.endpoint is not None:
        agent = f" ({failures.one_line(run.endpoint.agent, 60)})" if run.endpoint.agent else ""
        where = f"{where}{agent}, {run.endpoint.interface}"
    if run.selection.only_conformance:
        return f"a2a: {where}"
    if _asks_by_itself(run):
        user = f"CRMArena scoring {settings.crm_scoring}"
    elif settings.user_kind == "llm":
        user = f"user {settings.user_llm}"
    else:
        user = "scripted user: not leaderboard numbers"
    changed = [f"drift {settings.crm_drift}"] * bool(settings.crm_drift) + [f"rot {settings.crm_rot}"] * bool(
        settings.crm_rot
    )
    org = f"; CRMArena's org changed: {', '.join(changed)}" if changed else ""
    return f"a2a: {where}; {user}; judge {settings.judge_llm or 'none'}{org}"


def _asks_by_itself(run: BenchRun) -> bool:
    """Tell whether only tasks were named that are questions themselves, so that no user is played."""
    named = (*run.selection.ids, *run.selection.modules)
    return bool(named) and all(n.startswith("a2a/crmarena_") and INTERACTIVE not in n for n in named)


def agent_of(run: BenchRun) -> dict[str, str]:
    """Return what is known of the agent, for files: ``endpoint``, ``name`` and ``interface``."""
    endpoint = run.settings.endpoint or ""
    found = {"endpoint": options.without_query(endpoint, endpoint)}
    if run.endpoint is not None:
        found |= {"name": run.endpoint.agent, "interface": run.endpoint.interface}
    return found


def collection_lines(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """Return what is to be said when collection is over."""
    run = state.of(config)
    trials = sum(TRIAL in item.stash for item in items)
    lines = []
    if run.used and not run.resolution.asked and (header := header_line(run)):
        lines.append(header)
    if run.left_out:
        lines.append(f"a2a: {left_out_line(run)}")
    if not trials:
        lines += [f"a2a: {note}" for note in run.notes]
    return lines


def left_out_line(run: BenchRun) -> str:
    """Say that built-in items gave way to the user's own."""
    return f"{run.left_out} built-in items left out: your own tests run the same trials"


class Reporting:
    """Listens to reports on the controller, and writes.

    :ivar total: how many trials are expected; 0 while that is not known.
    :ivar workers: processes that run trials.
    """

    interval = 10.0
    interval_in_logs = 30.0

    def __init__(self, config: pytest.Config, run: BenchRun) -> None:
        self.config = config
        self.run = run
        self.total = 0
        self.workers = 1
        self.reported: dict[str, dict[str, Any]] = {}
        self.began = time.monotonic()
        self.began_wall = time.time()
        self._last = self.began
        self._loaded: tuple[int, list[TrialResult], Mapping[str | None, int]] | None = None

    def pytest_report_header(self) -> str | None:
        """Show the header line, unless nobody asked for us."""
        return header_line(self.run) if self.run.resolution.asked else None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the trials to come."""
        self.total = sum(TRIAL in item.stash for item in session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what a report says about its trial."""
        values = {str(name)[4:]: value for name, value in report.user_properties if str(name).startswith("a2a.")}
        if "key" in values:
            self.reported[str(values["key"])] = values
            self.run.used = True
            self.tick()

    def results(self) -> list[TrialResult]:
        """Return what was reported, with what only the files know."""
        return self._load()[0]

    def _load(self) -> tuple[list[TrialResult], Mapping[str | None, int]]:
        from pytest_a2a_bench.reports import summary

        if self._loaded is None or self._loaded[0] != len(self.reported):
            self._loaded = (len(self.reported), *summary.load_reported(self.run, self.reported))
        return self._loaded[1:]

    def tick(self, in_flight: int | None = None) -> None:
        """Write a progress line, if it is time for one."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None or self.config.get_verbosity() < 0 or self.total < 2 or len(self.reported) >= self.total:
            return
        now = time.monotonic()
        if now - self._last < (self.interval if terminal.isatty else self.interval_in_logs):
            return
        self._last = now
        from pytest_a2a_bench.results.progress import Progress

        parallel = self.workers * self.run.settings.concurrency
        done = tuple(self.reported.values())
        self._write(terminal, Progress(done, self.total, now - self.began, parallel, in_flight).line)

    def _write(self, terminal: Any, line: str) -> None:
        capture = self.config.pluginmanager.get_plugin("capturemanager")
        if capture is None:
            _write_on_own_line(terminal, line)
            return
        with capture.global_and_fixture_disabled():
            _write_on_own_line(terminal, line)

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        """Write the summary section."""
        silent = self.config.get_verbosity() < -1 or self.config.getoption("no_summary")
        if silent or preflight_only(self.config) or exitstatus == pytest.ExitCode.USAGE_ERROR:
            return
        if self.reported:
            self._write_summary(terminalreporter)
        elif self._agent_was_forgotten() and exitstatus != pytest.ExitCode.INTERRUPTED:
            terminalreporter.write_line(
                "a2a: no test used the agent; name a suite (--a2a-suite airline) or choose from all (-k airline)"
            )

    def _agent_was_forgotten(self) -> bool:
        """Tell whether an agent was given on the command line, and neither a suite nor a test that uses it."""
        named = self.run.selection.ids or self.run.selection.modules
        return self.run.settings.endpoint_source == "cli" and not named and not self.run.used

    def _write_summary(self, terminal: Any) -> None:
        from pytest_a2a_bench.reports import summary

        results, lost = self._load()
        terminal.write_sep("=", "a2a benchmark summary")
        for line in summary.lines(results, width=terminal._tw.fullwidth):
            terminal.write_line(line)
        for line in summary.category_lines(results, width=terminal._tw.fullwidth):
            terminal.write_line(line)
        if self.config.get_verbosity() >= 0:
            for line in self._notes(results, lost):
                terminal.write_line(line)
        if not any(r.status == "evaluated" for r in results):
            terminal.write_line("no trial was evaluated: these results say nothing about the agent", red=True)

    def _notes(self, results: Sequence[TrialResult], lost: Mapping[str | None, int]) -> Iterator[str]:
        from pytest_a2a_bench.reports import summary

        yield from summary.provenance_lines(results)
        yield from summary.lost_lines(self.run, lost)
        unreported = summary.unreported(self.run, self.reported, since=self.began_wall)
        if unreported:
            yield f"finished, but not reported by an item: {_some(str(r.key) for r in unreported)}"
        if self.run.left_out and self.config.pluginmanager.hasplugin("dsession"):  # workers collected, not this process
            yield left_out_line(self.run)
        yield f"results: {_shown(self.run, self.config)}"


def preflight_only(config: pytest.Config) -> bool:
    """Tell whether pytest was only asked to show something, which needs no summary."""
    from pytest_a2a_bench.plugin import preflight

    return preflight.nothing_will_run(config)


def _shown(run: BenchRun, config: pytest.Config) -> str:
    from pytest_a2a_bench.plugin.trials import outcome

    return outcome.shown_path(str(run.results), config) or ""


def _some(words: Iterable[str], limit: int = 20) -> str:
    every = sorted(words)
    more = f" and {len(every) - limit} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + more


def _write_on_own_line(terminal: Any, line: str) -> None:
    terminal.ensure_newline()
    # Under xdist dots are written without the prefix that ensure_newline() knows about.
    if terminal._tw.width_of_current_line:
        terminal._tw.line()
    terminal.write_line(line)
