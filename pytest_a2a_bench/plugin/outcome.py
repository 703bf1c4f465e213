"""Hand the result of a trial to its item: wait for it, explain it, and excuse misses that a gate counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.config.settings import without_query
from pytest_a2a_bench.errors import A2ABenchError, OwnFunctionError
from pytest_a2a_bench.model import Party, TrialKey, TrialResult, percentile
from pytest_a2a_bench.plugin import shim, state
from pytest_a2a_bench.plugin.explanation import MISSED, PREFIX, STOPPED, add_explanation, set_properties, shown_path
from pytest_a2a_bench.plugin.schedule import Schedule
from pytest_a2a_bench.plugin.state import BenchRun
from pytest_a2a_bench.reports import trial_text
from pytest_a2a_bench.reports.diagnosis import cause_of, diagnosis_of
from pytest_a2a_bench.reports.reported import REPORTED_PROVENANCE
from pytest_a2a_bench.results.gates.terms import PREFIX as EXCUSED
from pytest_a2a_bench.results.gates.terms import is_counted, is_unsolved, quarantine_of
from pytest_a2a_bench.results.store import StoreError
from pytest_a2a_bench.text import one_line, sanitise
from pytest_a2a_bench.trials.stopping import Opened

RESULT = pytest.StashKey[TrialResult]()


def receive(item: pytest.Item, key: TrialKey, schedule: Schedule, run: BenchRun) -> TrialResult:
    """Wait for an item's trial and return its result, if it has been evaluated.

    Anything else ends the item in its setup, so that reporters count it as an error (or a skip), not as a bad agent.
    """
    result = _wait(item, key, schedule)
    item.stash[RESULT] = result
    set_properties(item, properties(result, shown_path(result.path, item.config)))
    if result.status in ("skipped", "not_run"):
        # What was not run says nothing about anybody; the gate "breaker" sees to it that such a run fails.
        pytest.skip(_shown(result.error or "skipped", item.config))
    if result.status != "evaluated":
        pytest.fail(_trouble(result, item.config) + _aftermath(item, result, schedule.opened(key)), pytrace=False)
    return result


def _wait(item: pytest.Item, key: TrialKey, schedule: Schedule) -> TrialResult:
    try:
        return schedule.result(key)
    except A2ABenchError as error:
        trouble = error
    if isinstance(trouble, StoreError):
        # There is no file that could be counted; without this it would be missing from every denominator.
        found = unstored(key, trouble, item.stash[state.TRIAL].task.category)
        set_properties(item, properties(found, None))
    # Outside of the handler, whose chain of exceptions would only say the same again.
    pytest.fail(sanitise(f"{key}: {trouble}"), pytrace=False)


def unstored(key: TrialKey, error: Exception, category: str = "") -> TrialResult:
    """Return the message about a trial whose result could not be stored."""
    kind = type(error).__name__
    return TrialResult(key, "infrastructure_error", error=str(error), error_type=kind, category=category)


def forget(item: pytest.Item) -> None:
    """Let go of a result that has been reported: its transcript may be large, and items live as long as a run."""
    if RESULT in item.stash:
        del item.stash[RESULT]


def properties(result: TrialResult, path: str | None) -> dict[str, str | int | float | bool]:
    """Return the scalars for every reporter, without unknown ones."""
    wire, provenance, suite = result.wire, result.provenance, registry.find(result.key.suite)
    why = None if result.success else diagnosis_of(result)
    metrics = result.reward_info.metrics if result.reward_info else {}
    values: dict[str, Any] = {
        "key": str(result.key),
        "suite": result.key.suite,
        "domain": result.key.domain,
        "task": result.key.task_key,
        "trial": result.key.trial,
        "label": result.key.label,
        "agent": result.key.agent,
        "status": result.status,
        "reward": result.reward if result.status == "evaluated" else None,
        "success": result.success if result.status == "evaluated" else None,
        "termination_reason": result.termination_reason,
        "error_type": result.error_type,
        "fault": cause_of(result.key.suite, why.kind).blame if why else None,
        "cause": f"{why.kind}: {one_line(why.subject, 100)}" if why and why.subject else why.kind if why else None,
        "turns": result.turns,
        "requests": wire.requests,
        "retries": wire.retries,
        "held_again": len(result.held_again),
        "user_fault": result.user_fault.kind if result.user_fault else None,
        "extra_turn": result.extra_turn.verdict if result.extra_turn else None,
        "user_retries": len(result.user_retries) or None,
        "retry_error": result.retry_error.partition(":")[0] if result.retry_error else None,
        "duration_s": round(result.duration, 3),
        "latency_p50_ms": _milliseconds(result.turn_latencies, 50),
        "latency_p95_ms": _milliseconds(result.turn_latencies, 95),
        "tokens_in": result.agent_usage.input_tokens,
        "tokens_out": result.agent_usage.output_tokens,
        "cost_usd": result.cost,
        "agent_cost_usd": result.agent_usage.cost_usd,
        "user_cost_usd": result.user_usage.cost_usd,
        "estimated_tokens_in": result.estimated_usage.input_tokens,
        "estimated_tokens_out": result.estimated_usage.output_tokens,
        "estimated_cost_usd": result.estimated_usage.cost_usd,
        "findings": len(result.findings),
        STOPPED: provenance.get(STOPPED),
        "seed": result.seed,
        "dialect": result.dialect,
        "category": result.category or None,
        **{name: provenance.get(name) for name in (*REPORTED_PROVENANCE, *(suite.reported if suite else ()))},
        **{f"metric.{name}": value for name, value in metrics.items()},
        **{name: provenance.get("measured", {}).get(name) for name in (suite.counts if suite else ())},
        "run_id": result.run_id,
        "reused_from": result.reused_from,
        "transcript": path,
        "blame": result.blame,
        **{f"{party.name}.{name}": value for party in result.parties for name, value in _of_party(party).items()},
    }
    return {name: value for name, value in values.items() if value is not None}


def _of_party(party: Party) -> dict[str, Any]:
    """Return the same numbers of another agent that took part."""
    return {
        "role": party.role,
        "turns": party.turns,
        "requests": party.wire.requests,
        "errors": party.wire.errors,
        "latency_p50_ms": _milliseconds(party.turn_latencies, 50),
        "latency_p95_ms": _milliseconds(party.turn_latencies, 95),
        "tokens_in": party.usage.input_tokens,
        "tokens_out": party.usage.output_tokens,
        "cost_usd": party.usage.cost_usd,
        "findings": len(party.findings),
    }


def explain_failure(item: pytest.Item, report: pytest.TestReport) -> None:
    """Give an item's reports the conversation's duration, and its failure an explanation."""
    result = item.stash.get(RESULT, None)
    if result is None:
        return
    if report.when == "setup":
        report.duration = result.duration
    elif report.when == "call" and report.failed:
        _explain(report, result, shown_path(result.path, item.config))


def _aftermath(item: pytest.Item, result: TrialResult, opened: Opened | None) -> str:
    """Mark the trial that opened the breaker, in its report and in its error."""
    if opened is None or opened.key != str(result.key):
        return ""
    item.user_properties.append((PREFIX + STOPPED, _shown(opened.advice, item.config)))
    return "\nThis opened the breaker: trials that had not begun are not run (a2a/gate::breaker says what to do)"


def _shown(text: str, config: pytest.Config) -> str:
    return without_query(sanitise(text), state.of(config).settings.endpoint)


def _trouble(result: TrialResult, config: pytest.Config) -> str:

    path = shown_path(result.path, config)
    tail = f"\ntranscript so far: {path}" if path else ""
    error = _shown(result.error or "no reason given", config)
    if result.status == "evaluator_error":
        return f"{result.key}: {error}{tail}"
    if result.status == "harness_error":
        return (
            f"{result.key}: a bug in pytest-a2a-bench (or in a hook of yours), not in the agent; please report it with "
            f"this traceback\n{error}{tail}"
        )
    if result.error_type == OwnFunctionError.__name__:
        return f"{result.key}: the agent was not judged: {error}{tail}"
    return f"{result.key}: infrastructure error, the agent was not judged: {result.error_type}: {error}{tail}"


def _explain(report: pytest.TestReport, result: TrialResult, path: str | None) -> None:
    text = trial_text.explain(result, path)
    headline = trial_text.headline(result) if not result.success else None
    add_explanation(report, f"a2a trial {result.key}", text, headline)


def _milliseconds(latencies: Sequence[float], percent: float) -> float | None:
    seconds = percentile(sorted(latencies), percent)
    return None if seconds is None else round(seconds * 1000, 1)


# -- failures that a gate counts become expected failures (xfail) --


def excuse_miss(item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport) -> None:
    """Turn the failure of a tolerated miss into an expected failure (``xfail``), which reporters know.

    Of one that is not tolerated the traceback is left out where it only says that a trial is no success.
    """
    if report.when != "call" or not report.failed or item.config.option.runxfail:
        return
    result = item.stash.get(RESULT, None)
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
    elif item.config.getoption("tbstyle", "auto") == "auto":
        # "assert False" of a line that everybody knows: what matters is in the sections below.
        shim.hide_traceback(report, trial_text.headline(result))


def fail_unsolved(item: pytest.Item, report: pytest.TestReport) -> None:
    """Let a test fail whose judge saw a miss: test and judge decide its trial's reward together."""
    result = item.stash.get(RESULT, None)
    if report.when != "call" or not report.passed or result is None:
        return
    if is_unsolved(result) and _decides_reward(result):
        report.outcome, report.longrepr = "failed", trial_text.headline(result)


def _decides_reward(result: TrialResult) -> bool:
    """Return whether a trial's reward is decided by its own test's assertions."""
    suite = registry.find(result.key.suite)
    return suite is not None and suite.from_test is not None


def _reason(item: pytest.Item, result: TrialResult, run: BenchRun) -> str | None:
    """Return the reason that a tolerated miss is reported with, or None where a miss is a failure."""
    entry = quarantine_of(result.key, run.plan.quarantine)
    if entry is not None:
        what = f"{EXCUSED} (quarantined until {entry.expires}: {one_line(entry.reason)})"
    elif run.plan.named or not is_counted(result, run.settings):
        return None
    else:
        what = EXCUSED
    path = shown_path(result.path, item.config)
    return f"{what}: {trial_text.headline(result)}" + (f"; transcript: {path}" if path else "")


def _asserts_success(excinfo: pytest.ExceptionInfo[BaseException], result: TrialResult, item: pytest.Item) -> bool:
    """Return whether the assertion that failed is the plain ``assert trial.success`` of this item's trial."""
    if not excinfo.errisinstance(AssertionError):
        return False
    entry = excinfo.traceback[-1]
    try:
        statement = str(entry.statement)
    except (SyntaxError, IndexError, OSError, ValueError):
        # Without its source only our own modules are known to assert nothing else.
        return item.getparent(shim.SuiteModule) is not None
    asserted = _SUCCESS.match(statement.strip())
    values = {**entry.frame.f_globals, **entry.frame.f_locals}
    return asserted is not None and values.get(asserted[1]) is result


_SUCCESS = re.compile(r"assert\s+(?:\(\s*)?(\w+)\.success(?:\s+(?:is|==)\s+True)?\s*\)?\s*(?:,|#|$)")
"""``assert trial.success``, with or without parentheses and a message."""
