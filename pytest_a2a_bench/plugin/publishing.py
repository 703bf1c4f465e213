"""Publish a run: Markdown, GitHub's summary, the history of runs, the HTML page and the live page."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.config.settings import without_query
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import Cost, Party, TrialKey, TrialResult, percentile, sum_usage
from pytest_a2a_bench.plugin.explanation import is_excused_miss, say, sections_of, shown_path
from pytest_a2a_bench.plugin.state import BenchRun, nothing_will_run
from pytest_a2a_bench.redact import KNOWN
from pytest_a2a_bench.reports import markdown, reported, summary, trial_text
from pytest_a2a_bench.reports.contents import Contents, beside, nodeids_of, now
from pytest_a2a_bench.reports.html import write
from pytest_a2a_bench.reports.live import Server, Watched
from pytest_a2a_bench.reports.markdown import RunSummary, Trouble
from pytest_a2a_bench.results import compare, history, inference, live
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.gates.terms import groups_of, quarantine_of, thresholds_of
from pytest_a2a_bench.results.stats import count, task_name
from pytest_a2a_bench.text import reason_of, sanitise

if TYPE_CHECKING:
    from pytest_a2a_bench.plugin.terminal import Reporting
    from pytest_a2a_bench.results.gates.terms import Verdict

_VERDICTS = {0: "passed", 1: "failed", 2: "interrupted", 5: "nothing was run"}


class Publisher:
    """Listens to reports, and writes when the session is over and its exit status is known."""

    def __init__(self, config: pytest.Config, run: BenchRun, reporting: Reporting) -> None:
        self.config = config
        self.run = run
        self._reporting = reporting
        self._troubles: dict[str, Trouble] = {}
        self._unwritten = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the problem of an item of ours; a rerun replaces it."""
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
        if not self.run.on_github:
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
        gates = self.config.pluginmanager.get_plugin("a2a-bench-gates")
        verdict = getattr(gates, "verdict", None)
        levels = self._levels()
        # Where only the protocol was judged there is no user, judge or benchmark to tell of.
        produced = summary.provenance_lines(results) if results or not levels else ()
        agent = self.run.plan.agent
        named = f" ({agent['name']})" if agent.get("name") else ""
        stored = getattr(gates, "stored", None)
        errors = [summary.errors_line(stored.errors, stored.trials.not_run)] if stored and stored.errors else []
        return RunSummary(
            verdict=self._title(exitstatus, verdict),
            agent=f"{agent['endpoint']}{named}",
            gates=tuple((g.name, g.verdict, g.sentence) for g in verdict.gates) if verdict is not None else (),
            table=tuple(map(tuple, summary.rows(results))),
            notes=(*errors, *levels, *produced, *reported.lost_lines(self.run.plan.results, lost)),
            troubles=tuple(self._troubles.values()),
            reasons=tuple(map(trial_text.cluster_line, self._reporting.reasons())),
        )

    def _title(self, exitstatus: int, verdict: Verdict | None) -> str:
        """Return the gates' verdict; where the session ended otherwise, or failed for other reasons, that."""
        title = _VERDICTS.get(exitstatus, f"exit status {exitstatus}")
        if verdict is None or verdict.outcome == "pass" or exitstatus > pytest.ExitCode.TESTS_FAILED:
            return title
        is_worse = verdict.outcome == "inconclusive" and any(t.what == "failed" for t in self._troubles.values())
        return title if is_worse else verdict.outcome


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
    """Listen for all that is published, and serve the live page."""
    settings, manager = run.settings, config.pluginmanager
    if settings.html:
        manager.register(Page(config, run, reporting), "a2a-bench-html")
    if settings.live is not None:
        manager.register(LivePage(config, run), "a2a-bench-live")
    if settings.history_file:
        manager.register(Past(config, run, reporting, Path(settings.history_file)), HISTORY)
    if settings.markdown or run.on_github:
        manager.register(Publisher(config, run, reporting), "a2a-bench-publishing")


# -- the agents of a run, for files and pages --


def agents_of(run: BenchRun, results: Sequence[TrialResult]) -> list[dict[str, Any]]:
    """Return the members of :class:`.ComparedAgent` for each agent that has a name."""
    return [
        {
            "id": name,
            "endpoint": without_query(url, url),
            **(found.of_card if (found := run.plan.found(name)) is not None else {}),
            **_numbers(name, results, takes_over=name == run.settings.transfer),
        }
        for name, url in run.settings.agents.items()
    ]


def _numbers(name: str, results: Sequence[TrialResult], *, takes_over: bool) -> dict[str, Any]:
    """Return the numbers of one agent's own trials, or of its part in trials that it took over."""
    own: list[tuple[TrialResult, TrialResult | Party]] = [(r, r) for r in results if r.key.agent == name]
    if takes_over:
        own = [(r, party) for r in results for party in r.parties if party.name == name]
    latencies = sorted(s for _, part in own for s in part.turn_latencies)
    usage = sum_usage(part.usage if isinstance(part, Party) else part.agent_usage for _, part in own)
    broken = [r for r, _ in own if r.status not in ("evaluated", "skipped")]
    return {
        "role": "transfer" if takes_over else "under test",
        "trials": len(own),
        "succeeded": sum(r.success for r, _ in own),
        "errors": sum(r.blame == name or not takes_over for r in broken),
        "turns": sum(part.turns for _, part in own),
        "requests": sum(part.wire.requests for _, part in own),
        "request_errors": sum(part.wire.errors for _, part in own),
        "latency_p50": percentile(latencies, 50),
        "latency_p95": percentile(latencies, 95),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": usage.cost_usd if takes_over else sum((r.spent for r, _ in own), Cost()).agent,
    }


# -- what a run may prove and its expected cost, shown once the trials are known --


def outlook_lines(run: BenchRun, keys: Sequence[TrialKey], workers: int = 1) -> Iterator[str]:
    """Yield the outlook of the gates on these trials."""
    # Trials that the command line names are judged one by one.
    if run.plan.named or not keys:
        return
    counted = [key for key in keys if quarantine_of(key, run.plan.quarantine) is None]
    thresholds = thresholds_of(run.settings)
    for group, rate in thresholds.min_pass.items():
        found = [k for k in counted if not group or group in groups_of(k.suite, k.domain)]
        if found and not inference.can_prove(rate, len(found)):
            shown = f"{group}={rate:g}" if group else f"{rate:g}"
            could = f" ({inference.trials_to_prove(rate)} could)" if rate < 1 else ""
            few = f"{count(len(found), 'trial')} could not prove it, even if all succeed{could}"
            yield f"a2a: the floor {shown} is judged as measured; {few}"
    baseline = run.services.baseline
    names = sorted({task_name(key) for key in counted})
    if baseline is not None and names:
        each = max(1, len(counted) // len(names))
        at_once = max(run.settings.concurrency, workers)
        yield f"a2a: {compare.outlook(baseline, names, each, thresholds.max_drop, at_once)}"
    if run.plan.order:
        yield "a2a: trials run in a drawn order, as long as a gate that counts them is not decided; these are the most"


# -- the history of runs (``--a2a-history-file PATH``) --

HISTORY = "a2a-bench-history"


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
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, object, object]:
        """Add it before the page is made; that it cannot be written makes a run fail that would pass."""
        if self._reporting.reported and not nothing_will_run(self.config):
            is_ended = exitstatus == pytest.ExitCode.INTERRUPTED or bool(session.shouldfail)
            is_cut_short = is_ended or any(r.status == "not_run" for r in self._reporting.results())
            try:
                self._add(is_cut_short)
            except (OSError, ConfigurationError) as error:
                self._problem = f"this run is not in the history: {error}"
                session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        return (yield)

    def _add(self, is_cut_short: bool) -> None:
        entry = self._entry()
        self.entries = history.read(self.path)
        if is_cut_short:  # its trials would count twice, as the run that goes on reuses them
            self._notes.append("this run is not added to the history: it was cut short (--a2a-resume goes on)")
        elif self.run.plan.named:
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
        """Describe how this run stands among the others."""
        if self._problem:
            say(terminalreporter, sanitise(f"a2a: {self._problem}"), red=True)
        if self.config.get_verbosity() < 0:
            return
        found = history.trend(self.entries) if len(self.entries) > 1 else None
        for line in (*self._notes, *(summary.trend_lines(found) if found else ())):
            say(terminalreporter, sanitise(f"a2a: {line}"))


# -- the HTML page (``--a2a-html``) --


class Page:
    """Writes the page when the session is over."""

    def __init__(self, config: pytest.Config, run: BenchRun, reporting: Reporting) -> None:
        self.config = config
        self.run = run
        self._reporting = reporting
        self._problem = ""
        self._written: Path | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the page; that it cannot be written makes a run fail that would pass."""
        contents, place = self._contents(), self.run.settings.html
        if nothing_will_run(self.config) or not place or not (contents.trials or contents.checks):
            return
        try:
            self._written = write(Path(place), contents)
        except OSError as error:
            self._problem = f"the report page {place} cannot be written: {reason_of(error)}"
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the path of the page."""
        if self._problem:
            say(terminalreporter, f"a2a: {self._problem}", red=True)
        if self._written is not None and self.config.get_verbosity() >= 0:
            say(terminalreporter, f"report page: {shown_path(str(self._written), self.config)}")

    def _contents(self) -> Contents:
        agent, trials = self.run.plan.agent, self._reporting.results()
        gates, judged = map(self.config.pluginmanager.get_plugin, ("a2a-bench-gates", "a2a-bench-conformance"))
        verdict = getattr(gates, "verdict", None)
        return Contents(
            trials=trials,
            endpoint=agent["endpoint"],
            agent=agent.get("name", ""),
            interface=agent.get("interface", ""),
            checks=judged.rows if judged is not None else (),
            explanations=judged.explanations if judged is not None else {},
            verdict=getattr(gates, "stored", None),
            comparison=getattr(verdict, "comparison", None),
            baseline_name=self.run.settings.baseline or "",
            beside=beside(Path(self.run.settings.baseline), trials) if self.run.settings.baseline else {},
            nodeids=nodeids_of(self.run.plan.results),
            compared=getattr(verdict, "agents", ()),
            made_at=now(),
            history=getattr(self.config.pluginmanager.get_plugin(HISTORY), "entries", ()),
        )


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
        """Start the page, and print its address, also with ``-q``.

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
        """Remove temporary files of conversations, as long as the directory belongs to this run."""
        if self.run.services.lock is not None:
            live.clear(self.run.plan.results)
