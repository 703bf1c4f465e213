"""What a run leaves for people who review a change: Markdown, GitHub's job summary and annotations.

Only the process that has the whole run does this: the controller, or pytest without workers.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.plugin.report.agents import agent_of
from pytest_a2a_bench.plugin.run.explanation import is_excused_miss, sections_of
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.redact import sanitise
from pytest_a2a_bench.reports import diagnosis, markdown, reported, summary
from pytest_a2a_bench.reports.markdown import RunSummary, Trouble
from pytest_a2a_bench.secret import KNOWN

if TYPE_CHECKING:
    from pytest_a2a_bench.plugin.report.terminal import Reporting

_VERDICTS = {0: "passed", 1: "failed", 2: "interrupted", 5: "nothing was run"}


def wanted(run: BenchRun, environ: Mapping[str, str]) -> bool:
    """Return whether there is anything to publish to."""
    return bool(run.settings.markdown) or on_github(run, environ)


def on_github(run: BenchRun, environ: Mapping[str, str]) -> bool:
    """Return whether to speak to GitHub: as the option says, or where GitHub Actions runs us."""
    choice = run.settings.github
    return choice == "on" or (choice == "auto" and environ.get("GITHUB_ACTIONS") == "true")


class Publisher:
    """Listens to reports, and writes when the session is over and its exit status is known."""

    def __init__(self, config: pytest.Config, run: BenchRun, reporting: Reporting) -> None:
        self.config = config
        self.run = run
        self._reporting = reporting
        self._troubles: dict[str, Trouble] = {}
        self._unwritten = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what is wrong with an item of ours; a rerun replaces what was noted."""
        values = dict(report.user_properties)
        if "a2a.key" not in values and not report.nodeid.startswith("a2a/"):
            return
        if report.when == "setup":
            self._troubles.pop(report.nodeid, None)
        found = _trouble(report, values)
        if found is not None:
            self._troubles[report.nodeid] = found

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Write, after everybody else: a gate may still have changed the exit status."""
        outcome = yield
        if self._reporting.reported or self._troubles or self._levels():
            self._publish(int(session.exitstatus))
        if self._unwritten:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        return outcome

    def _publish(self, exitstatus: int) -> None:
        text = markdown.render(self._summary(exitstatus))
        if self.run.settings.markdown:
            self._write(Path(self.run.settings.markdown), text, append=False)
        if not on_github(self.run, os.environ):
            return
        if path := os.environ.get("GITHUB_STEP_SUMMARY"):
            self._write(Path(path), text, append=True)
        for line in markdown.annotate(list(self._troubles.values())):
            self._write_line(line)

    def _write(self, path: Path, text: str, *, append: bool) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a" if append else "w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(KNOWN.hide(text))
        except OSError as error:
            self._unwritten = self._unwritten or not append
            self._write_line(sanitise(f"a2a: {path} cannot be written: {error}"))

    def _write_line(self, line: str) -> None:
        """Write a line as it is: an annotation is meant to be obeyed."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(line)

    def _levels(self) -> list[str]:
        judged = self.config.pluginmanager.get_plugin("a2a-bench-conformance")
        return judged.verdicts() if judged is not None else []

    def _summary(self, exitstatus: int) -> RunSummary:
        results, lost = self._reporting.loaded()
        verdict = getattr(self.config.pluginmanager.get_plugin("a2a-bench-gates"), "verdict", None)
        levels = self._levels()
        # Where only the protocol was judged there is no user, judge or benchmark to tell of.
        produced = summary.provenance_lines(results) if results or not levels else ()
        told = agent_of(self.run)
        named = f" ({told['name']})" if told.get("name") else ""
        return RunSummary(
            verdict=_VERDICTS.get(exitstatus, f"exit status {exitstatus}"),
            agent=f"{told['endpoint']}{named}",
            gates=tuple((g.name, g.verdict, g.sentence) for g in verdict.gates) if verdict is not None else (),
            table=tuple(map(tuple, summary.rows(results))),
            notes=(*levels, *produced, *reported.lost_lines(self.run.plan.results, lost)),
            troubles=tuple(self._troubles.values()),
            reasons=tuple(map(diagnosis.headline, self._reporting.reasons())),
        )


def _trouble(report: pytest.TestReport, values: Mapping[str, Any]) -> Trouble | None:
    missed = is_excused_miss(report)
    if not (report.failed or missed):
        return None
    gate = values.get("a2a.gate")
    what = markdown.GATE if gate else "missed" if missed else "failed" if report.when == "call" else "error"
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message) if crash is not None else _text(report)
    own = [t for name, t in sections_of(report) if name.startswith("a2a ")]
    title = str(gate or values.get("a2a.key", report.nodeid))
    first = next((line for line in text.splitlines() if line.strip()), what)
    return Trouble(
        level="warning" if missed else "error",
        what=what,
        title=title,
        headline=first.removeprefix("Failed: ").removeprefix(f"{title}: "),
        explanation="\n\n".join(own) or text,
    )


def _text(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):  # path, line, reason of a skip
        return str(getattr(report, "wasxfail", "") or report.longrepr[2])
    return report.longreprtext


def register(config: pytest.Config, run: BenchRun, reporting: Reporting) -> None:
    """Listen, if there is anybody to publish to."""
    if wanted(run, os.environ):
        config.pluginmanager.register(Publisher(config, run, reporting), "a2a-bench-publishing")
