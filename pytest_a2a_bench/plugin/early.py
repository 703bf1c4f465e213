"""The controller's ear for trials that end: once every gate is decided, the rest of the run is not held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from pytest_a2a_bench.gates.early import EarlyVerdict, Finished, early_verdict
from pytest_a2a_bench.gates.files import baselines_of
from pytest_a2a_bench.gates.misses import thresholds_of
from pytest_a2a_bench.gates.terms import DECIDED_ERROR, Decision
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.plugin.collect.order import decides_early
from pytest_a2a_bench.plugin.run.explanation import PREFIX
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.inference import LEVEL
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import StoreError
from pytest_a2a_bench.trials.stopping import Settled, settle

NAME = "a2a-bench-early"


def register(config: pytest.Config, run: BenchRun) -> None:
    """Listen, where the run may end early."""
    if decides_early(run):
        config.pluginmanager.register(EarlyStop(run), NAME)


class EarlyStop:
    """Hears of every trial, and tells the processes that hold them when no further one is needed.

    :ivar problem: why nothing can be decided early; empty where it can.
    """

    def __init__(self, run: BenchRun) -> None:
        self.run = run
        self.problem = ""
        self._verdict: EarlyVerdict | None = None
        self._stopped = False
        self._skipped = 0

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in a trial, by what its report says of it."""
        values = dict(report.user_properties)
        key = values.get(PREFIX + "key")
        if key is None or self.problem or str(report.outcome) == "rerun" or report.when == "teardown":
            return
        if values.get(PREFIX + "error_type") == DECIDED_ERROR:
            self._skipped += report.when == "setup"
            return
        verdict = self._verdict = self._verdict or self._begin()
        if verdict is None or self._stopped:
            return
        status, success = str(values.get(PREFIX + "status", "")), bool(values.get(PREFIX + "success"))
        verdict.take(Finished(TrialKey.parse(str(key)), status, success))
        if verdict.is_decided:
            self._stop(verdict)

    @property
    def decisions(self) -> Mapping[str, Decision]:
        """What was decided early and counts; where all trials ran after all, floors are judged as measured."""
        found = self._verdict.decisions if self._verdict is not None else {}
        return found if self._skipped else {name: d for name, d in found.items() if name == "baseline"}

    @property
    def level(self) -> float:
        """How often a comparison of all trials may be wrong, where it was looked at before."""
        return LEVEL if self._verdict is None else self._verdict.level

    @property
    def notes(self) -> Iterator[str]:
        """Say how much was not held."""
        if self.problem:
            yield f"--a2a-stop decided could decide nothing early: {self.problem}"
        elif self._skipped:
            yield f"decided: {count(self._skipped, 'trial')} did not have to be held, and are in no rate"

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

    def _stop(self, verdict: EarlyVerdict) -> None:
        self._stopped = True
        rest = verdict.needless
        words = ", ".join(f"{name} {decision.verdict}" for name, decision in verdict.decisions.items())
        try:
            settle(self.run.plan.results, Settled(f"decided: {words}", tuple(map(str, rest)), self.run.plan.run_id))
        except StoreError as error:
            self.problem = str(error)
