"""The verdict on the controller: gates judged once all items ran, shown as test cases, in a table and in a file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.plugin import early
from pytest_a2a_bench.plugin.collect import shards
from pytest_a2a_bench.plugin.report.agents import agent_of, agents_of
from pytest_a2a_bench.plugin.report.terminal import Reporting, looks_like_trial
from pytest_a2a_bench.plugin.run.explanation import PREFIX, STOPPED, is_excused_miss, was_not_run
from pytest_a2a_bench.plugin.run.outlet import say
from pytest_a2a_bench.plugin.run.state import BenchRun, nothing_will_run
from pytest_a2a_bench.redact import sanitise
from pytest_a2a_bench.reports import diagnosis, verdict
from pytest_a2a_bench.results.baseline import task_name
from pytest_a2a_bench.results.gates import files
from pytest_a2a_bench.results.gates.judge import judge_run
from pytest_a2a_bench.results.gates.quarantine import describe_quarantine, quarantine_of
from pytest_a2a_bench.results.gates.terms import (
    EVERY_TRIAL,
    ITEMS,
    NOTHING_MISSED,
    Trials,
    find_missed,
    is_counted,
    thresholds_of,
)
from pytest_a2a_bench.results.inference import LEVEL
from pytest_a2a_bench.results.stats import count

if TYPE_CHECKING:
    from pytest_a2a_bench.plugin.early import EarlyStop
    from pytest_a2a_bench.results.gates.terms import GateResult, Thresholds, Verdict

FILE = "a2a/gate"
_NOT_FOR = ("session", "lfplugin", "stepwiseplugin", "a2a-bench-gates")
"""Plugins that must not take a gate for an item: nobody can run it again."""


class Gatekeeper:
    """Listens to reports, judges, and tells.

    :ivar verdict: None until the items ran, and where there was nothing to judge.
    :ivar stored: the same as it is in ``verdict.json``.
    :ivar elsewhere: how many trials other shards have, where this one has none.
    """

    def __init__(self, config: pytest.Config, run: BenchRun, reporting: Reporting) -> None:
        self.config = config
        self.run = run
        self.reporting = reporting
        self.verdict: Verdict | None = None
        self.stored: files.StoredVerdict | None = None
        self.problem = ""
        self.elsewhere = 0
        self._nodeids: dict[str, str] = {}
        self._without_trial: set[str] = set()
        self._seen: set[str] = set()
        self._failed: set[str] = set()
        self._excused: set[str] = set()
        self._erred: set[str] = set()
        self._accepted: set[str] = set()
        self._stopped = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which item reported which trial, and which trials got lost."""
        # A miss is known by its key, which user_properties carry through xdist and every reporter.
        values = dict(report.user_properties)
        key = values.get("a2a.key")
        self._seen.add(report.nodeid)
        self._stopped = self._stopped or str(values.get(PREFIX + STOPPED, ""))
        if key is not None:
            self._nodeids[str(key)] = report.nodeid
            self._without_trial.discard(report.nodeid)
            if is_excused_miss(report):
                self._excused.add(str(key))
            if report.failed:
                self._failed.add(str(key))
            if report.failed and report.when != "call":
                self._erred.add(str(key))
            elif report.when == "call" and report.outcome in ("passed", "skipped") and not is_excused_miss(report):
                self._accepted.add(str(key))
        # A worker that crashed, or a fixture that failed: there is no result, and there should be one.
        elif report.failed and report.when == "setup" and looks_like_trial(report.nodeid):
            self._without_trial.add(report.nodeid)

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """Show a miss, and a trial that was not run, as such."""
        if getattr(report, "when", None) == "setup" and report.skipped and was_not_run(report):
            return "not run", "n", ("NOT RUN", {"yellow": True})
        if getattr(report, "when", None) == "call" and is_excused_miss(report):
            return "missed", "m", ("MISSED", {"yellow": True})
        return None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Judge when all items ran, and before the exit status is decided and reports are written."""
        try:
            result = yield
        # A usage error is no end of a run: nothing was judged.
        except pytest.UsageError:
            raise
        except BaseException:
            # Ctrl-C and -x leave a verdict about what there is.
            self._conclude(session, cut_short=True)
            raise
        self._conclude(session, cut_short=False)
        return result

    def _conclude(self, session: pytest.Session, *, cut_short: bool) -> None:
        thresholds = thresholds_of(self.run.settings)
        if nothing_will_run(self.config) or not self._has_something_to_judge(thresholds, cut_short=cut_short):
            return
        trials = self._trials(cut_short)
        self.verdict = judge_run(trials, thresholds, self.run.settings, self.run.services.baseline)
        if self._early is not None:
            notes = (*self.verdict.notes, *self._early.notes)
            self.verdict = dataclasses.replace(self.verdict, notes=notes)
        # Trials that no gate counts fail as items; the gate would tell it twice.
        hidden = (ITEMS,) if self._excused & self._failed else (EVERY_TRIAL, ITEMS)
        self._log(session, [g for g in self.verdict.gates if g.name not in hidden])
        self._store(trials)

    def _has_something_to_judge(self, thresholds: Thresholds, *, cut_short: bool) -> bool:
        """Return whether there were trials, or, where none was reported, whether gates were to judge some."""
        if self.reporting.reported or self._without_trial or self._unreported(cut_short):
            return True
        selected = self.run.collected.used and self.reporting.total
        return bool(selected and not cut_short and (thresholds.ask or self.run.services.baseline is not None))

    def _unreported(self, cut_short: bool) -> list[str]:
        """Return the trials of a run to its end of which no report came: a plugin ran none of their phases."""
        return [] if cut_short else sorted(set(self.reporting.expected) - self._seen)

    @property
    def _is_gated(self) -> bool:
        verdict = self.verdict
        return verdict is not None and any(g.name not in (EVERY_TRIAL, ITEMS) for g in verdict.gates)

    def _trials(self, cut_short: bool) -> Trials:
        every = self.reporting.results()
        results = [r for r in every if r.status != "not_run"]
        quarantined = frozenset(
            task_name(r.key) for r in results if quarantine_of(r.key, self.run.plan.quarantine) is not None
        )
        # What a worker excused for a gate, and what no gate counts here (its file is gone), must not get lost.
        self._failed |= {
            str(r.key)
            for r in results
            if str(r.key) in self._excused
            and task_name(r.key) not in quarantined
            and not is_counted(r, self.run.settings)
        }
        unreported = self._unreported(cut_short)
        decided, is_open = self._early.standing if self._early else ({}, False)
        return Trials(
            results=results,
            failed=frozenset(self._failed),
            lost=len(self._without_trial) + len(unreported),
            not_run=len(every) - len(results),
            stopped=self._stopped,
            cut_short=cut_short or is_open,
            selected=self.reporting.total,
            hidden=tuple(
                str(r.key)
                for r in results
                if r.status not in ("evaluated", "skipped") and str(r.key) not in self._failed
            ),
            unreported=tuple(unreported),
            named=self.run.plan.named,
            erred=frozenset(str(r.key) for r in results if r.status == "evaluated" and str(r.key) in self._erred),
            quarantined=quarantined,
            decided=decided,
            level=self._early.level if self._early else LEVEL,
        )

    @property
    def _early(self) -> EarlyStop | None:
        found: EarlyStop | None = self.config.pluginmanager.get_plugin(early.NAME)
        return found

    # -- test cases --

    def _log(self, session: pytest.Session, gates: list[GateResult]) -> None:
        """Report each gate as one test case, to every reporter."""
        manager = self.config.pluginmanager
        without = [plugin for name in _NOT_FOR if (plugin := manager.get_plugin(name)) is not None]
        call = manager.subset_hook_caller("pytest_runtest_logreport", without)
        # Before the reports: percentages are of this number.
        session.testscollected += len(gates)
        self._begin_line()
        for result in gates:
            nodeid, location = f"{FILE}::{result.name}", (FILE, None, result.name)
            self.config.hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
            for report in self._reports(result, nodeid, location):
                session.testsfailed += report.failed
                call(report=report)
            self.config.hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)

    def _begin_line(self) -> None:
        """Begin a line under xdist, which names no files: after the last item's percentage nothing belongs there."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and terminal._tw.width_of_current_line:
            terminal.ensure_newline()
            if terminal._tw.width_of_current_line:
                terminal._tw.line()

    def _reports(
        self, result: GateResult, nodeid: str, location: tuple[str, int | None, str]
    ) -> Iterator[pytest.TestReport]:
        assert self.verdict is not None
        # All three phases, as reporters open a test case at setup and close it at teardown.
        for when in ("setup", "call", "teardown"):
            values: dict[str, Any] = {"outcome": "passed", "longrepr": None}
            if when == "call" and self.verdict.fails(result):
                values = {"outcome": "failed", "longrepr": sanitise(_explained(result))}
            elif when == "call" and result.verdict == "inconclusive":
                # pytest wants the place and the reason of a skip.
                values = {
                    "outcome": "skipped",
                    "longrepr": (FILE, 0, sanitise(f"Skipped: inconclusive: {result.sentence}")),
                }
            # Reporters take the properties of an item from the report of its end.
            told = [("a2a.gate", result.name), ("a2a.verdict", result.verdict)]
            yield pytest.TestReport(
                nodeid=nodeid,
                location=location,
                keywords={},
                when=when,
                user_properties=told,
                **values,
            )

    # -- the file --

    def _store(self, trials: Trials) -> None:
        assert self.verdict is not None
        missed = find_missed(trials.results, self._accepted)
        stored = files.StoredVerdict.of(self.verdict, self.run.plan.run_id, trials, missed, self._nodeids)
        agents = agents_of(self.run, trials.results) if self.run.settings.agents else ()
        self.stored = dataclasses.replace(
            stored,
            agent=files.JudgedAgent(**agent_of(self.run)),
            agents=tuple(files.ComparedAgent(**agent) for agent in agents),
            reasons=diagnosis.stored_reasons(self.reporting.reasons()),
        )
        try:
            files.write_verdict(self.run.plan.results, self.stored)
        # A disk that is full must not hide the verdict itself.
        except OSError as error:
            self.problem = f"the verdict cannot be written to {self.run.plan.results}: {error}"

    # -- a part without trials --

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Let a shard pass that has nothing to run because there are more shards than trials."""
        if session.exitstatus != pytest.ExitCode.NO_TESTS_COLLECTED or not self.run.settings.shard:
            # Only where pytest found nothing to run, which is right for a part.
            return

        if not nothing_will_run(self.config):
            self.elsewhere = shards.trials_elsewhere(self.run)
        if self.elsewhere:
            session.exitstatus = pytest.ExitCode.OK

    # -- the table --

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the verdict, where a gate was asked for, an item was excused or a quarantine has news."""
        silent = self.config.get_verbosity() < -1 or self.config.getoption("no_summary")
        excused = terminalreporter.stats.get("missed", [])
        if not silent:
            for line in self._empty_lines():
                say(terminalreporter, f"a2a: {line}")
        if silent or self.verdict is None:
            return
        news = list(self._quarantine_lines()) if self.config.get_verbosity() >= 0 else []
        if not (self._is_gated or excused or self.verdict.notes or news):
            return
        failed = self.verdict.failed or bool(self.verdict.errors)
        terminalreporter.write_sep("=", f"a2a verdict: {self.verdict.outcome}", red=failed, green=not failed)
        for line in (*self._lines(terminalreporter._tw.fullwidth, excused), *news, *filter(None, [self.problem])):
            say(terminalreporter, line)

    def _empty_lines(self) -> Iterator[str]:
        """Say why nothing ran, where only the workers or nobody said so."""
        if self.elsewhere:
            are = "is" if self.elsewhere == 1 else "are"
            trials = count(self.elsewhere, "trial")
            yield f"shard {self.run.settings.shard} has nothing to do: there {are} {trials}"
        if self.run.plan.missed == () and self.config.pluginmanager.hasplugin("dsession"):
            yield NOTHING_MISSED

    def _lines(self, width: int, excused: list[Any]) -> Iterator[str]:
        assert self.verdict is not None
        yield from verdict.gate_lines(self.verdict, width)
        if self.verdict.errors:
            were = "was" if self.verdict.errors == 1 else "were"
            ran = "could not be evaluated" + (f" or {were} not run" if self._stopped else "")
            yield f"{count(self.verdict.errors, 'trial')} {ran}, so this run does not pass"
        if self.config.get_verbosity() >= 0:
            if self.verdict.comparison is not None:
                yield from verdict.comparison_lines(self.verdict.comparison, width)
            for found in self.verdict.agents:
                yield from verdict.agent_lines(found, width)
            if excused:
                yield f"missed ({len(excused)}; --a2a-missed runs these again):"
                yield from verdict.missed_lines(self.reporting.results(), _marks(excused), width)

    def _quarantine_lines(self) -> Iterator[str]:
        entries, results = self.run.plan.quarantine, self.reporting.results()
        if entries:
            yield from describe_quarantine(entries, results, registry.group_names(), self._list_tasks)

    def _list_tasks(self, name: str, domain: str) -> Iterator[str]:
        suite = registry.load(name, self.run.settings)
        for split in suite.splits(domain):
            yield from (task.key().task_key for task in suite.load_tasks(domain, split))


def _marks(excused: list[Any]) -> dict[str, str]:
    """Return the keys of misses that are excused, and what excuses each beside a gate that counts it."""
    reasons = {str(dict(r.user_properties).get("a2a.key")): re.match(r"\w+ \((.*?)\): ", r.wasxfail) for r in excused}
    return {key: found[1] if found else "" for key, found in reasons.items()}


def _explained(result: GateResult) -> str:
    return "\n".join([f"{result.shown}: {result.sentence}", *result.details])
