"""Lines on pytest's terminal: header, collection, progress and the summary."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.settings import without_query
from pytest_a2a_bench.plugin import selection, state
from pytest_a2a_bench.plugin.explanation import PLAIN, PREFIX, say, shown_path
from pytest_a2a_bench.plugin.shim import (
    SuiteModuleSpec,
    all_modules,
    drop_earlier_attempts,
    is_below,
    leave_out_of_failures,
)
from pytest_a2a_bench.plugin.state import TRIAL, BenchRun, ends_at_collection, nothing_will_run
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.reports import reported, summary, trial_text
from pytest_a2a_bench.results.stats import Progress, count
from pytest_a2a_bench.text import did_you_mean, listed, one_line, sanitise

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.registry import Suite
    from pytest_a2a_bench.model import TrialResult

# The user's own parameters come after the trial's, or before it: "[12-t0-fast]".
_TRIAL_ID = re.compile(r"\[.*-t\d+(?:-.*)?\](?:@[^\]]*)?$", re.DOTALL)
_GATES = ("min_pass", "min_pass_k", "baseline", "max_drop", "max_cost", "max_latency", "max_infra_errors")
_TICK = 0.5
_MANY = 10
"""Most misses that the terminal shows in full."""


def looks_like_trial(nodeid: str) -> bool:
    """Return whether a node id is one of a trial: a controller knows no more of its workers' items."""
    return _TRIAL_ID.search(nodeid) is not None


def header_lines(config: pytest.Config, run: BenchRun) -> list[str]:
    """Return the agent and user under test, and in a second line the card and the interface in use."""
    first = _header_line(run)
    lines = [] if first is None else [first]
    for name in run.settings.agents or (None,):
        found = run.plan.found(name)
        if first is not None and found is not None and found.card_url:
            used = f"; interface {found.interface} at {_shown_url(found.interface_url)}" if found.interface_url else ""
            which = f"{name}: {one_line(found.agent, 60)}, " if name is not None else ""
            lines.append(f"a2a: {which}card {_shown_url(found.card_url)}{used}")
    suites = one_line(",".join(run.settings.suite), 100)
    if suites and not run.plan.selection.modules:
        lines.append(f"a2a: node ids are given, so that only they run; --a2a-suite {suites} adds nothing")
    elif suites and config.args_source != pytest.Config.ArgsSource.ARGS and not config.getoption("a2a_suite"):
        lines.append(f"a2a: suite {suites} runs in place of your own tests; name their path to run these, too")
    for suite, domains in _named_domains(run).items():
        found_suite = registry.find(suite)
        announced = found_suite.announce(domains, run.settings) if found_suite is not None else ()
        lines += [sanitise(f"a2a: {text}") for text in announced]
    return lines


def _shown_url(url: str) -> str:
    return one_line(redact_url(url, query=False), 300)


def _header_line(run: BenchRun) -> str | None:
    settings = run.settings
    if not settings.endpoint:
        return None
    where = run.plan.shown_endpoint
    if run.plan.endpoint is not None and not settings.agents:
        agent = f" ({one_line(run.plan.endpoint.agent, 60)})" if run.plan.endpoint.agent else ""
        where = f"{where}{agent}, {run.plan.endpoint.interface}"
    if run.plan.selection.only_conformance or not run.plan.selection.trials:
        return sanitise(f"a2a: {where}")
    asked_by = _asked_by(run)
    if asked_by:
        user = asked_by
    elif settings.user_kind == "llm":
        user = f"user {settings.user_llm}"
    elif settings.user_endpoint:
        agent = without_query(settings.user_endpoint, settings.user_endpoint)
        user = f"user played by the agent at {agent}: not leaderboard numbers"
    else:
        user = "scripted user: not leaderboard numbers"
    concerned = (suite for suite in registry.known() if _concerns(suite, run))
    changes = "".join(f"; {text}" for suite in concerned if (text := suite.changes(settings)))
    return sanitise(f"a2a: {where}; {user}; judge {settings.judge_llm or 'none'}{changes}")


def _concerns(suite: Suite, run: BenchRun) -> bool:
    """Return whether a suite has a word to say in the header: where it may join the run, or its options were given."""
    values = run.settings.benchmark_options
    if run.plan.selection.candidates or any(values.get(o.name, o.default) != o.default for o in suite.options):
        return True
    named = (*run.plan.selection.ids, *run.plan.selection.modules)
    return any(spec.suite == suite.name and is_below(each, spec.nodeid) for each in named for spec in all_modules())


def _asked_by(run: BenchRun) -> str:
    """Return what is shown in place of a user, where only tasks of one suite were named that are questions."""
    named = _named_domains(run)
    if len(named) != 1 or not all(_modules_of(run)):
        return ""
    [(name, domains)] = named.items()
    suite = registry.find(name)
    return suite.asked_by(domains, run.settings) if suite else ""


def _modules_of(run: BenchRun) -> list[list[SuiteModuleSpec]]:
    """Return, for everything that was named, the built-in modules that it is in."""
    named = (*run.plan.selection.ids, *run.plan.selection.modules)
    return [[spec for spec in all_modules() if is_below(nodeid, spec.nodeid)] for nodeid in named]


def _named_domains(run: BenchRun) -> dict[str, list[str]]:
    """Return the domains that were named, by suite; the choice of an expression is not known yet."""
    # Each once, although every item that is named names its domain.
    found: dict[str, dict[str, None]] = {}
    for specs in _modules_of(run):
        for spec in specs:
            found.setdefault(spec.suite, {})[spec.domain] = None
    return {suite: list(domains) for suite, domains in found.items()}


def collection_lines(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """Return the remarks at the end of collection."""
    run = state.of(config)
    trials = sum(TRIAL in item.stash for item in items)
    lines = []
    if run.collected.used and not run.plan.asked:
        lines += header_lines(config, run)
    if run.collected.left_out:
        lines.append(f"a2a: {left_out_line(run)}")
    if trials and (run.settings.min_pass or run.services.baseline is not None):
        from pytest_a2a_bench.plugin.publishing import outlook_lines  # few runs have gates

        lines += outlook_lines(run, [item.stash[TRIAL].key for item in items if TRIAL in item.stash])
    return [*lines, *(f"a2a: {note}" for note in remarks(config, run, items))]


def remarks(config: pytest.Config, run: BenchRun, items: Sequence[pytest.Item]) -> list[str]:
    """Return the notes on what this process collected that its choice of items calls for."""
    notes = [] if any(TRIAL in item.stash for item in items) else run.collected.notes
    return [*notes, *selection.lost_domains(config, run, items)]


def left_out_line(run: BenchRun) -> str:
    """Report that built-in items gave way to the user's own."""
    return f"{run.collected.left_out} built-in items left out: your own tests run the same trials"


class Reporting:
    """Listens to reports on the controller, and writes.

    :ivar expected: the node ids of the trials to come; none while that is not known.
    :ivar workers: processes that run trials.
    :ivar reported: the last report of each trial, by key.
    :ivar repeated: whether another plugin let a trial run again (``--reruns``).
    """

    interval = 10.0
    interval_in_logs = 30.0
    interval_if_quiet = 60.0

    def __init__(self, config: pytest.Config, run: BenchRun) -> None:
        self.config = config
        self.run = run
        self.expected: tuple[str, ...] = ()
        self.workers = 1
        self.reported: dict[str, dict[str, Any]] = {}
        self.repeated = False
        self._misses = 0
        self.began = time.monotonic()
        self.began_wall = time.time()
        self._last = self.began
        self._over = threading.Event()
        self._showing = threading.Lock()
        self._reasons: tuple[int, list[trial_text.Cluster]] | None = None
        self._loaded: tuple[int, list[TrialResult], Mapping[str | None, int]] | None = None

    @property
    def total(self) -> int:
        """How many trials are expected; 0 while that is not known."""
        return len(self.expected)

    def pytest_report_header(self) -> list[str]:
        """Show the header, unless the run does not use this plugin."""
        return header_lines(self.config, self.run) if self.run.plan.asked else []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the trials to come."""
        if not ends_at_collection(session):
            self.expected = tuple(item.nodeid for item in session.items if TRIAL in item.stash)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a trial from its report."""
        # There is one such dictionary for each trial of a run: the names in it are shared.
        found = ((str(name), value) for name, value in report.user_properties)
        values = {sys.intern(name.removeprefix(PREFIX)): value for name, value in found if name.startswith(PREFIX)}
        if str(report.outcome) == "rerun" and ("key" in values or looks_like_trial(report.nodeid)):
            self.repeated = True
        if getattr(report, PLAIN, False):
            self._misses += 1
            if self._misses > _MANY and self.config.get_verbosity() <= 0:
                leave_out_of_failures(report)
        if "key" in values:
            self.reported[str(values["key"])] = values
            self.run.collected.used = True
            self.tick()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Show no progress any more, and let junit, which writes its file after this, have one test case per trial."""
        with self._showing:
            self._over.set()
        if self.repeated:
            drop_earlier_attempts(self.config)

    def results(self) -> list[TrialResult]:
        """Return the reported trials, completed from their files."""
        return self.loaded()[0]

    def loaded(self) -> tuple[list[TrialResult], Mapping[str | None, int]]:
        """Return the results and whose files are in the place of theirs; see :func:`.reported.load_reported`."""
        if self._loaded is None or self._loaded[0] != len(self.reported):
            self._loaded = (
                len(self.reported),
                *reported.load_reported(self.run.plan.results, self.run.plan.run_id, self.reported),
            )
        return self._loaded[1:]

    def reasons(self) -> list[trial_text.Cluster]:
        """Return why trials did not pass, those of one cause together."""
        if self._reasons is None or self._reasons[0] != len(self.reported):
            missed = [result for result in self.results() if not result.success]
            self._reasons = (len(self.reported), trial_text.clusters(missed) if missed else [])
        return self._reasons[1]

    def keep_time(self) -> None:
        """Show progress also while nothing is reported: for a process that only waits for its workers."""

        def tick() -> None:
            while not self._over.wait(_TICK):
                self.tick()

        threading.Thread(target=tick, name="a2a-progress", daemon=True).start()

    def tick(self, in_flight: int | None = None) -> None:
        """Show a line of progress, if it is time to."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None or self._over.is_set() or not self.total or len(self.reported) >= self.total:
            return
        now = time.monotonic()
        interval = self._interval(terminal)
        if interval is None or now - self._last < interval:
            return
        self._last = now

        parallel = max(self.workers, self.run.settings.concurrency)
        done = tuple(self.reported.values())
        self._show(terminal, Progress(done, self.total, now - self.began, parallel, in_flight).line)

    def _interval(self, terminal: Any) -> float | None:
        """Return the seconds from one progress to the next; None where none is wanted."""
        if self.config.get_verbosity() < 0:
            return self.interval_if_quiet if self.config.get_verbosity() == -1 else None
        return self.interval if terminal.isatty else self.interval_in_logs

    def announce(self, line: str) -> None:
        """Write a line at once, also while output is captured."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and self.config.get_verbosity() > -2:
            self._show(terminal, f"a2a: {line}")

    def pytest_keyboard_interrupt(self) -> None:
        """Print the number of conversations that are being ended: they may take a while."""
        schedule = self.run.services.schedule
        if not self.total or (schedule is None and self.workers < 2):
            return
        running = f"{count(schedule.in_flight, 'conversation')} in flight" if schedule else "the workers' conversations"
        self.announce(f"interrupted; ending {running}, finished trials are kept")

    def _show(self, terminal: Any, line: str) -> None:
        capture = self.config.pluginmanager.get_plugin("capturemanager")
        aside = contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled()
        with self._showing, aside:
            if self._over.is_set():
                return
            _write_on_own_line(terminal, line)

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        """Write the summary section."""
        silent = self.config.get_verbosity() < -1 or self.config.getoption("no_summary")
        if silent or nothing_will_run(self.config) or exitstatus == pytest.ExitCode.USAGE_ERROR:
            return
        if self.config.pluginmanager.hasplugin("dsession"):  # workers collected, not this process
            for note in self.run.collected.notes:
                say(terminalreporter, f"a2a: {note}")
        if self.reported:
            self._write_summary(terminalreporter)
        elif exitstatus != pytest.ExitCode.INTERRUPTED and (text := self._why_nothing(exitstatus)):
            say(terminalreporter, f"a2a: {text}")
        if exitstatus == pytest.ExitCode.INTERRUPTED and self.total > len(self.reported):
            where = "" if self.reported else f" (results: {shown_path(str(self.run.plan.results), self.config)})"
            ended = f"{len(self.reported) + len(self._unreported())} of {count(self.total, 'trial')} ended{where}"
            say(terminalreporter, f"a2a: {ended}; to go on, run the same command with --a2a-resume")
        # Another plugin skipped the items before their trials: pytest reports success.
        elif not self.reported and self.run.collected.used and self.total and exitstatus == pytest.ExitCode.OK:
            say(terminalreporter, f"a2a: {summary.NOTHING_MEASURED}", red=True)

    def _why_nothing(self, exitstatus: int) -> str:
        """Return why no test used an agent, where the command line looks as if one should have; empty elsewhere."""
        run, settings = self.run, self.run.settings
        if run.collected.used or run.plan.selection.ids or run.plan.selection.modules:
            return ""
        if settings.endpoint_source == "cli":
            # What was left out because something is not installed may be what was meant, and has a note.
            advice = "; name a suite (--a2a-suite airline) or choose from all (-k airline)"
            return f"no test used the agent{advice if not run.collected.notes else ''}"
        if settings.endpoint:
            words = selection.words_of(self.config)
            known = {*registry.group_names(), *registry.PROTOCOL_NAMES}
            if words and (exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED or not known.isdisjoint(words)):
                where = "A2A_ENDPOINT" if settings.endpoint_source == "env" else "[tool.a2a-bench]"
                near = did_you_mean([word for word in words if word not in known], known)
                return (
                    f"the agent of {where} is for your own tests; to choose from the built-in suites, too, add "
                    f"--a2a-endpoint {run.plan.shown_endpoint} or --a2a-suite NAMES{near}"
                )
        elif gates := [name for name in _GATES if self.config.getoption(f"a2a_{name}") is not None]:
            options = ", ".join(f"--a2a-{name.replace('_', '-')}" for name in gates)
            return f"{options}: no trial ran, so nothing was judged; add --a2a-endpoint URL and --a2a-suite NAMES"
        return ""

    def _write_summary(self, terminal: Any) -> None:
        results = self.results()
        terminal.write_sep("=", "a2a benchmark summary")
        if silent := summary.silence(results):
            say(terminal, silent, red=True)
        for line in summary.lines(results, width=terminal._tw.fullwidth):
            say(terminal, line)
        for line in summary.category_lines(results):
            say(terminal, line)
        if self.config.get_verbosity() >= 0:
            directory = shlex.quote(shown_path(str(self.run.plan.results), self.config) or ".")
            for line in trial_text.summary_lines(self.reasons(), f"a2a-bench show --results {directory}"):
                say(terminal, line)
            if self._misses > _MANY:
                shown = f"{_MANY} of {self._misses:,} misses are shown in full (-v: all; a2a-bench show TASK: one)"
                say(terminal, f"{shown}; each is a failure, which --a2a-min-pass 0 only counts")
        # Caveats about the numbers are shown with -q, too.
        quiet = self.config.get_verbosity() < 0
        for line in summary.caveats(results) if quiet else self._notes(results):
            if line != silent:
                say(terminal, line, red=line.startswith(summary.NOTHING_MEASURED))

    def _unreported(self) -> Sequence[TrialResult]:
        """Return the trials of this run that have ended and whose items had not come when the run did."""
        return reported.unreported(self.run.plan.results, self.run.plan.run_id, self.reported, since=self.began_wall)

    def _notes(self, results: Sequence[TrialResult]) -> Iterator[str]:
        yield from summary.provenance_lines(results)
        if unreported := self._unreported():
            names = sorted(registry.shown_name(str(r.key)) for r in unreported)
            yield f"finished, but not reported by an item: {listed(names, 20)}"
        if self.run.collected.left_out and self.config.pluginmanager.hasplugin(
            "dsession"
        ):  # workers collected, not this process
            yield left_out_line(self.run)
        yield f"results: {shown_path(str(self.run.plan.results), self.config)}"


def _write_on_own_line(terminal: Any, line: str) -> None:
    terminal.ensure_newline()
    # Under xdist dots are written without the prefix that ensure_newline() knows about.
    if terminal._tw.width_of_current_line:
        terminal._tw.line()
    say(terminal, line)
