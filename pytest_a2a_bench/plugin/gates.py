"""Gates: the verdict after the last item, and the early end of a run that is decided (``--a2a-trials auto``)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.plugin import collection
from pytest_a2a_bench.plugin.collection import decides_early
from pytest_a2a_bench.plugin.explanation import PREFIX, STOPPED, is_excused_miss, say, was_not_run
from pytest_a2a_bench.plugin.state import BenchRun, nothing_will_run
from pytest_a2a_bench.plugin.terminal import Reporting, looks_like_trial
from pytest_a2a_bench.reports import reported, summary, trial_text
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.gates import files
from pytest_a2a_bench.results.gates.early import EarlyVerdict, Finished, early_verdict
from pytest_a2a_bench.results.gates.files import baselines_of
from pytest_a2a_bench.results.gates.judge import judge_run
from pytest_a2a_bench.results.gates.terms import (
    DECIDED_ERROR,
    EVERY_TRIAL,
    ITEMS,
    NOTHING_MISSED,
    Decision,
    Trials,
    describe_quarantine,
    find_missed,
    quarantine_of,
    thresholds_of,
    was_run,
)
from pytest_a2a_bench.results.inference import LEVEL
from pytest_a2a_bench.results.stats import count, task_name
from pytest_a2a_bench.results.store import StoreError
from pytest_a2a_bench.text import sanitise
from pytest_a2a_bench.trials.stopping import Settled, settle

if TYPE_CHECKING:
    from pytest_a2a_bench.results.gates.terms import GateResult, Thresholds, Verdict

FILE = "a2a/gate"
_NOT_FOR = ("session", "lfplugin", "stepwiseplugin", "a2a-bench-gates")
"""Plugins that must not take a gate for an item, because it cannot be run again."""


class Gatekeeper:
    """Listens to reports, judges the gates, and prints their verdicts.

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
        self.problems: list[str] = []
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
        # With --setup-only conversations are held, and no test says what it thinks of them.
        if nothing_will_run(self.config) or self.config.getoption("setuponly", False):
            return
        if not self._has_something_to_judge(thresholds, cut_short=cut_short):
            return
        trials = self._trials(cut_short)
        verdict = judge_run(trials, thresholds, self.run.settings, self.run.services.baseline)
        early = self._early.notes if self._early is not None else ()
        news = describe_quarantine(self.run.plan.quarantine, trials.results, registry.group_names())
        self.verdict = dataclasses.replace(verdict, notes=(*verdict.notes, *early, *news))
        # Trials that no gate counts fail as items, and the gate would tell it twice, unless some were shown as misses.
        self._log(
            session,
            [g for g in self.verdict.gates if g.name != ITEMS and (g.name != EVERY_TRIAL or g.numbers["excused"])],
        )
        self.problems += reported.lost_lines(self.run.plan.results, self.reporting.loaded()[1])
        plan = self.run.plan.results / manifest.NAME
        if self._nodeids and not plan.is_file():
            self.problems.append(f"{plan} is gone, so this run does not pass: its results cannot be read without it")
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
        results = [r for r in every if was_run(r)]
        entries = self.run.plan.quarantine
        quarantined = frozenset(
            task_name(r.key) for r in results if entries and quarantine_of(r.key, entries) is not None
        )
        unreported = self._unreported(cut_short)
        decided, is_open = self._early.standing if self._early else ({}, False)
        return Trials(
            results=results,
            failed=frozenset(self._failed),
            excused=frozenset(self._excused),
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
        found: EarlyStop | None = self.config.pluginmanager.get_plugin(EARLY)
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
            properties = [("a2a.gate", result.name), ("a2a.verdict", result.verdict)]
            yield pytest.TestReport(
                nodeid=nodeid, location=location, keywords={}, when=when, user_properties=properties, **values
            )

    # -- the file --

    def _store(self, trials: Trials) -> None:
        assert self.verdict is not None
        missed = find_missed(trials.results, self._accepted)
        stored = files.StoredVerdict.of(self.verdict, self.run.plan.run_id, trials, missed, self._nodeids)
        agents: list[dict[str, Any]] = []
        if self.run.settings.agents:
            from pytest_a2a_bench.plugin.publishing import agents_of  # few runs have several agents

            agents = agents_of(self.run, trials.results)
        evaluated = {str(r.key) for r in trials.results if r.status == "evaluated"}
        self.stored = dataclasses.replace(
            stored,
            # A run that ended early, or of some of them, leaves the others to the next --a2a-missed.
            missed=(*stored.missed, *(m for m in self.run.plan.missed or () if m.key not in evaluated)),
            shard=self.run.settings.shard,
            agent=files.JudgedAgent(**self.run.plan.agent),
            agents=tuple(files.ComparedAgent(**agent) for agent in agents),
            reasons=trial_text.stored_reasons(reasons) if (reasons := self.reporting.reasons()) else (),
        )
        try:
            files.write_verdict(self.run.plan.results, self.stored)
        # A disk that is full must not hide the verdict itself.
        except OSError as error:
            self.problems.append(f"the verdict cannot be written to {self.run.plan.results}: {error}")

    # -- the exit status --

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run whose files got lost; let a shard pass without trials, where there are more shards than trials."""
        if self.problems:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        if session.exitstatus != pytest.ExitCode.NO_TESTS_COLLECTED or not self.run.settings.shard:
            # Only where pytest found nothing to run, which is right for a part.
            return

        if not nothing_will_run(self.config):
            self.elsewhere = collection.trials_elsewhere(self.run)
        if self.elsewhere:
            session.exitstatus = pytest.ExitCode.OK

    # -- the table --

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the verdict, where a gate was asked for, an item was excused or there is something to note."""
        silent = self.config.get_verbosity() < -1 or self.config.getoption("no_summary")
        excused = terminalreporter.stats.get("missed", [])
        if not silent:
            for line in (*self._empty_lines(), *self.problems):
                say(terminalreporter, f"a2a: {line}")
        if silent or self.verdict is None:
            return
        if not (self._is_gated or excused or self.verdict.notes):
            return
        failed = self.verdict.failed or bool(self.verdict.errors)
        asked = failed or any(gate.may_fail for gate in self.verdict.gates)
        outcome = self.verdict.outcome if asked else "no gate was asked for"
        terminalreporter.write_sep("=", f"a2a verdict: {outcome}", red=failed, green=asked and not failed)
        for line in self._lines(terminalreporter._tw.fullwidth, excused):
            say(terminalreporter, line)

    def _empty_lines(self) -> Iterator[str]:
        """Explain why nothing ran, if pytest has not said so."""
        if self.elsewhere:
            are = "is" if self.elsewhere == 1 else "are"
            trials = count(self.elsewhere, "trial")
            yield f"shard {self.run.settings.shard} has nothing to do: there {are} {trials}"
        if self.run.plan.missed == () and self.config.pluginmanager.hasplugin("dsession"):
            yield NOTHING_MISSED

    def _lines(self, width: int, excused: list[Any]) -> Iterator[str]:
        assert self.verdict is not None
        yield from summary.gate_lines(self.verdict, width)
        if self.verdict.errors:
            yield summary.errors_line(self.verdict.errors, self.stored.trials.not_run if self.stored else 0)
        if self.config.get_verbosity() >= 0:
            if self.verdict.comparison is not None:
                yield from summary.comparison_lines(self.verdict.comparison, width)
            for found in self.verdict.agents:
                yield from summary.agent_lines(found, width)
            if excused:
                yield f"missed ({len(excused)}; --a2a-missed runs these again):"
                yield from summary.missed_lines(self.reporting.results(), _marks(excused), width)


def _marks(excused: list[Any]) -> dict[str, str]:
    """Return the keys of excused misses, and the excuse of each beside a gate that counts it."""
    reasons = {str(dict(r.user_properties).get("a2a.key")): re.match(r"\w+ \((.*?)\): ", r.wasxfail) for r in excused}
    return {key: found[1] if found else "" for key, found in reasons.items()}


def _explained(result: GateResult) -> str:
    return "\n".join([f"{result.shown}: {result.sentence}", *result.details])


# -- the early end: trials that no undecided gate needs (``--a2a-trials auto``) or ``--a2a-max-cost`` cannot pay --

EARLY = "a2a-bench-early"


def register_early(config: pytest.Config, run: BenchRun) -> None:
    """Listen, where the run may end early."""
    if decides_early(run):
        config.pluginmanager.register(EarlyStop(config, run), EARLY)


class EarlyStop:
    """Reads the report of every trial, and informs the processes that run trials which of them need not begin.

    :ivar problem: why nothing can be decided early; empty where it can.
    """

    def __init__(self, config: pytest.Config, run: BenchRun) -> None:
        self.run = run
        self._config = config
        self.problem = ""
        self._verdict: EarlyVerdict | None = None
        self._told = 0
        self._left_out: set[TrialKey] = set()
        self._costs: dict[str, float] = {}
        self._is_spent = False

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in a trial from its report."""
        values = dict(report.user_properties)
        key = values.get(PREFIX + "key")
        if key is None or self.problem or str(report.outcome) == "rerun" or report.when == "teardown":
            return
        if values.get(PREFIX + "error_type") == DECIDED_ERROR:
            self._left_out.add(TrialKey.parse(str(key)))
            return
        verdict = self._verdict = self._verdict or self._begin()
        if verdict is None or self._is_spent:
            return
        status, success = str(values.get(PREFIX + "status", "")), bool(values.get(PREFIX + "success"))
        verdict.take(Finished(TrialKey.parse(str(key)), status, success))
        if isinstance(cost := values.get(PREFIX + "cost_usd"), int | float):
            self._costs[str(key)] = cost
        self._is_spent = self._would_cost_too_much()
        if self._is_spent:
            limit = f"${self.run.settings.max_cost:g}"
            self._leave_out(verdict.unfinished, f"--a2a-max-cost {limit}: another trial could cost more than is left")
        elif len(verdict.decisions) > self._told:
            self._told = len(verdict.decisions)
            words = ", ".join(f"{name} {decision.verdict}" for name, decision in verdict.decisions.items())
            self._leave_out(verdict.needless, f"decided: {words}")

    @property
    def standing(self) -> tuple[Mapping[str, Decision], bool]:
        """The early decisions that count, and whether trials are missing that an undecided gate counts."""
        return self._verdict.standing(self._left_out) if self._verdict is not None else ({}, False)

    @property
    def level(self) -> float:
        """How often a comparison of all trials may be wrong, where it was looked at before."""
        return LEVEL if self._verdict is None else self._verdict.level

    @property
    def notes(self) -> Iterator[str]:
        """Describe how many trials did not run and why, and what the others decided."""
        if self.problem:
            yield f"--a2a-trials auto could decide nothing early: {self.problem}"
        elif self._left_out:
            why = "--a2a-max-cost: the money was spent, so that" if self._is_spent else "decided:"
            what = "did not run" if self._is_spent else "did not have to run"
            yield f"{why} {count(len(self._left_out), 'trial')} {what}, and are in no rate"
        if self._verdict is not None:
            yield from (f"{name}: {decision.verdict}, {decision}" for name, decision in self._verdict.decisions.items())
            yield from self._verdict.spent()

    def _begin(self) -> EarlyVerdict | None:
        # Collected in this process or in workers: either way the file says what is run, in the order of the items.
        try:
            found = manifest.load(self.run.plan.results)
        except StoreError as error:
            self.problem = str(error)
            return None
        settings, plan = self.run.settings, self.run.plan
        if found.run_id != plan.run_id:
            self.problem = f"{plan.results / manifest.NAME} is of another run ({found.run_id})"
            return None
        baseline = self.run.services.baseline
        if settings.agents and baseline is not None:
            baseline = baselines_of(settings, baseline).get(settings.under_test[0] or "")
        return early_verdict(found, thresholds_of(settings), baseline, plan.quarantine)

    def _would_cost_too_much(self) -> bool:
        """Return whether the trials in flight and one more may cost more than is left, each as much as the others."""
        limit, spent = self.run.settings.max_cost, sum(self._costs.values())
        at_once = max(self.run.settings.concurrency, int(self._config.getoption("numprocesses", None) or 0))
        return limit is not None and bool(self._costs) and spent + at_once * spent / len(self._costs) > limit

    def _leave_out(self, keys: list[TrialKey], reason: str) -> None:
        try:
            settle(self.run.plan.results, Settled(reason, tuple(map(str, keys)), self.run.plan.run_id))
        except StoreError as error:
            self.problem = str(error)
