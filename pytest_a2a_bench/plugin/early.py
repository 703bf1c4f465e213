"""``--a2a-trials auto``: what no undecided gate counts is left out, and what ``--a2a-max-cost`` cannot pay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.plugin.collect.order import decides_early
from pytest_a2a_bench.plugin.run.explanation import PREFIX
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.gates.early import EarlyVerdict, Finished, early_verdict
from pytest_a2a_bench.results.gates.files import baselines_of
from pytest_a2a_bench.results.gates.terms import DECIDED_ERROR, Decision, thresholds_of
from pytest_a2a_bench.results.inference import LEVEL
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import StoreError
from pytest_a2a_bench.trials.stopping import Settled, settle

NAME = "a2a-bench-early"


def register(config: pytest.Config, run: BenchRun) -> None:
    """Listen, where the run may end early."""
    if decides_early(run):
        config.pluginmanager.register(EarlyStop(config, run), NAME)


class EarlyStop:
    """Reads the report of every trial, and tells the processes that run trials which of them need not begin.

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
        """Take in a trial, by what its report says of it."""
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
        """What was decided early and counts, and whether trials are missing that an undecided gate counts."""
        return self._verdict.standing(self._left_out) if self._verdict is not None else ({}, False)

    @property
    def level(self) -> float:
        """How often a comparison of all trials may be wrong, where it was looked at before."""
        return LEVEL if self._verdict is None else self._verdict.level

    @property
    def notes(self) -> Iterator[str]:
        """Say how much did not run."""
        if self.problem:
            yield f"--a2a-trials auto could decide nothing early: {self.problem}"
        elif self._left_out:
            why = "--a2a-max-cost: the money for" if self._is_spent else "decided:"
            what = "was spent" if self._is_spent else "did not have to be held"
            yield f"{why} {count(len(self._left_out), 'trial')} {what}, and are in no rate"

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
