"""A miss that need not fail the run by itself becomes what reporters know as an expected failure."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.plugin import shim
from pytest_a2a_bench.plugin.run import state
from pytest_a2a_bench.plugin.run.explanation import MISSED, shown_path
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.plugin.trials import outcome
from pytest_a2a_bench.redact import one_line
from pytest_a2a_bench.reports import trial_text
from pytest_a2a_bench.results.gates.quarantine import quarantine_of
from pytest_a2a_bench.results.gates.terms import PREFIX, is_counted, is_unsolved


def excuse_miss(item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport) -> None:
    """Turn the failure of a tolerated miss into what reporters know as an expected failure.

    Of one that is not tolerated the traceback is left out where it only says that a trial is no success.
    """
    if report.when != "call" or not report.failed or item.config.option.runxfail:
        return
    result = item.stash.get(outcome.RESULT, None)
    if result is None or not is_unsolved(result):
        return
    if not _decides_reward(result) and (call.excinfo is None or not _asserts_success(call.excinfo, result, item)):
        return
    run = state.of(item.config)
    reason = _reason(item, result, run)
    if reason:
        report.outcome = "skipped"
        report.wasxfail = reason
        setattr(report, MISSED, True)
    elif not run.settings.traceback:
        # "assert False" of a line that everybody knows: what matters is in the sections below.
        shim.hide_traceback(report)


def fail_unsolved(item: pytest.Item, report: pytest.TestReport) -> None:
    """Let a test fail that decides its trial's reward together with a judge, where the judge saw what it did not."""
    result = item.stash.get(outcome.RESULT, None)
    if report.when != "call" or not report.passed or result is None:
        return
    if is_unsolved(result) and _decides_reward(result):
        report.outcome, report.longrepr = "failed", trial_text.headline(result)


def _decides_reward(result: TrialResult) -> bool:
    """Return whether a trial's reward is what its own test asserts."""
    suite = registry.find(result.key.suite)
    return suite is not None and suite.from_test is not None


def _reason(item: pytest.Item, result: TrialResult, run: BenchRun) -> str | None:
    """Return what a tolerated miss is reported with, or None where a miss is a failure."""
    entry = quarantine_of(result.key, run.plan.quarantine)
    if entry is not None:
        what = f"{PREFIX} (quarantined until {entry.expires}: {one_line(entry.reason)})"
    elif run.plan.named or not is_counted(result, run.settings):
        return None
    else:
        what = PREFIX
    path = shown_path(result.path, item.config)
    return f"{what}: {trial_text.headline(result)}" + (f"; transcript: {path}" if path else "")


def _asserts_success(excinfo: pytest.ExceptionInfo[BaseException], result: TrialResult, item: pytest.Item) -> bool:
    """Return whether the assertion that failed is the plain ``assert trial.success`` of this item's trial."""
    if not excinfo.errisinstance(AssertionError):
        return False
    entry = excinfo.traceback[-1]
    try:
        statement = ast.parse(textwrap.dedent(str(entry.statement))).body[0]
    except (SyntaxError, IndexError, OSError, ValueError):
        # Without its source only our own modules are known to assert nothing else.
        return item.getparent(shim.SuiteModule) is not None
    name = _asserted_name(statement)
    values = {**entry.frame.f_globals, **entry.frame.f_locals}
    return name is not None and values.get(name) is result


def _asserted_name(statement: ast.stmt) -> str | None:
    """Return ``trial`` of ``assert trial.success`` (or ``... is True``, ``... == True``), or None."""
    test: ast.expr | None = statement.test if isinstance(statement, ast.Assert) else None
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.Eq):
        right = test.comparators[0]
        is_true = len(test.ops) == 1 and isinstance(right, ast.Constant) and right.value is True
        test = test.left if is_true else None
    if isinstance(test, ast.Attribute) and test.attr == "success" and isinstance(test.value, ast.Name):
        return test.value.id
    return None
