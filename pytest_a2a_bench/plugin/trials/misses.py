"""Misses: trials that did not succeed, which a gate counts, so that their items do not fail the run by themselves."""

from __future__ import annotations

import ast
import datetime
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.plugin import shim
from pytest_a2a_bench.plugin.run import state
from pytest_a2a_bench.plugin.run.state import TRIAL, BenchRun
from pytest_a2a_bench.plugin.trials import outcome

if TYPE_CHECKING:
    from pytest_a2a_bench.gates.quarantine import Quarantined
    from pytest_a2a_bench.gates.terms import Thresholds
    from pytest_a2a_bench.model import TrialKey, TrialResult
    from pytest_a2a_bench.settings import Settings

PREFIX = "missed"
"""How ``wasxfail`` begins on the report of a miss."""


NOTHING_MISSED = "the last run missed nothing, so --a2a-missed runs nothing"


def thresholds(settings: Settings) -> Thresholds:
    """Return what the options ask of a run."""
    from pytest_a2a_bench.gates.terms import DEFAULT_DROP, Thresholds

    return Thresholds(
        min_pass=settings.min_pass,
        min_pass_k={int(k): rate for k, rate in settings.min_pass_k.items()},
        max_drop=DEFAULT_DROP if settings.max_drop is None else settings.max_drop,
        inconclusive="pass" if settings.inconclusive == "pass" else "fail",
        max_cost=settings.max_cost,
        max_latency={float(p): seconds for p, seconds in settings.max_latency.items()},
        max_infra_errors=settings.max_infra_errors,
    )


def is_named(config: pytest.Config, run: BenchRun) -> bool:
    """Tell whether somebody named the trials to run, so that their success rate is not the agent's.

    To be asked before :func:`collection.take_arguments` takes ids out of pytest's arguments.
    """
    if run.settings.missed:
        return True
    if config.args_source == pytest.Config.ArgsSource.ARGS and any("[" in a.partition("::")[2] for a in config.args):
        return True
    return bool(config.getoption("lf", False) and config.cache and config.cache.get("cache/lastfailed", {}))


def extend_report(item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport) -> None:
    """Turn the failure of a tolerated miss into what reporters know as an expected failure."""
    if report.when != "call" or not report.failed or item.config.option.runxfail:
        return
    result = item.stash.get(outcome.RESULT, None)
    if result is None or result.status != "evaluated" or result.success or call.excinfo is None:
        return
    reason = _reason(item, result, state.of(item.config))
    if reason and _asserts_success(call.excinfo, result, item):
        report.outcome = "skipped"
        report.wasxfail = reason


def is_tolerated(result: TrialResult, run: BenchRun) -> bool:
    """Tell whether a gate counts a trial, so that its miss need not fail the run by itself."""
    from pytest_a2a_bench.gates.terms import groups_of_result

    return thresholds(run.settings).tolerates(groups_of_result(result), baseline=bool(run.settings.baseline))


def is_miss(report: Any) -> bool:
    """Tell whether a report is one of a tolerated miss."""
    return bool(report.skipped and str(getattr(report, "wasxfail", "")).startswith(PREFIX))


def covers(entry: Quarantined, key: TrialKey) -> bool:
    """Tell whether an entry names a trial's task, with or without its label."""
    from pytest_a2a_bench.results.baseline import task_name

    return entry.covers(key.task_key) or entry.covers(task_name(key))


def names_no_task(entry: Quarantined, domains: set[tuple[str, str]], run: BenchRun) -> bool:
    """Tell whether an entry is for none of the tasks that there are, as far as that is known.

    :param domains: suites and domains of which trials ran; of others nothing is said unless there are no such.
    """
    suite, _, rest = entry.task.partition("/")
    domain = rest.partition("/")[0]
    if not domain or any(sign in f"{suite}{domain}" for sign in "*?["):
        chosen = domains
    elif f"{suite}/{domain}" not in registry.group_names():
        return True
    else:
        chosen = domains & {(suite, domain)}
    tasks = [task for name, of in chosen for task in _tasks(name, of, run)]
    # A label is the user's own, and may belong to a test that did not run.
    return bool(tasks) and not any(entry.covers(t) or entry.task.startswith(f"{t}@") for t in tasks)


def _tasks(name: str, domain: str, run: BenchRun) -> Iterator[str]:
    suite = registry.load(name, run.settings)
    for split in suite.splits(domain):
        yield from (task.key().task_key for task in suite.load_tasks(domain, split))


def quarantine_of(key: TrialKey, run: BenchRun) -> Quarantined | None:
    """Return the entry that quarantines a trial today, or None."""
    if not run.quarantine:
        return None
    from pytest_a2a_bench.gates import quarantine
    from pytest_a2a_bench.results.baseline import task_name

    today = datetime.date.today()
    return quarantine.entry_for(key.task_key, run.quarantine, today) or quarantine.entry_for(
        task_name(key), run.quarantine, today
    )


def select(session: pytest.Session, run: BenchRun) -> None:
    """Keep only the items of the last run's misses, where that was asked for."""
    if run.missed is None:
        return
    wanted = {missed.key for missed in run.missed}
    dropped = [i for i in session.items if TRIAL not in i.stash or str(i.stash[TRIAL].key) not in wanted]
    if not wanted:
        run.notes.append(NOTHING_MISSED)
    if dropped:
        gone = set(dropped)
        session.items[:] = [item for item in session.items if item not in gone]
        session.config.hook.pytest_deselected(items=dropped)


def problems(trials: list[pytest.Item], run: BenchRun, part: list[pytest.Item]) -> Iterator[str]:
    """Say which floors are for nothing that there is, and which the trials that run can never prove.

    :param part: those of the trials that this shard runs.
    """
    if run.named or not (run.settings.min_pass or run.settings.min_pass_k):
        return
    yield from _unknown(trials, run)
    wrong = list(_hopeless([i for i in part if quarantine_of(i.stash[TRIAL].key, run) is None], run))
    yield from wrong
    if wrong and run.settings.shard:
        yield f"gates judge shard {run.settings.shard} alone; to judge the whole, join the parts with a2a-bench merge"


def _hopeless(counted: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    for group, rate in run.settings.min_pass.items():
        number = sum(not group or group in _groups(item) for item in counted)
        if number:
            yield from _unprovable(group, rate, number)
    tasks: dict[str, int] = {}
    for item in counted:
        key = item.stash[TRIAL].key
        name = f"{key.task_key}@{key.label}"
        tasks[name] = tasks.get(name, 0) + 1
    fewest = min(tasks.values(), default=0)
    for k, rate in run.settings.min_pass_k.items():
        if tasks and fewest < int(k):
            yield f"--a2a-min-pass-k {k}={rate:g} needs --a2a-trials {k}; there are tasks with {fewest} here"


def _unknown(trials: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    """Say which floors are for a name that nothing has: most likely it is misspelt, and would gate nothing."""
    here = {group for item in trials for group in _groups(item)}
    missing = {group: rate for group, rate in run.settings.min_pass.items() if group and group not in here}
    if not missing:
        return
    from difflib import get_close_matches

    known = here | registry.group_names()
    for group, rate in missing.items():
        if group not in known:
            near = get_close_matches(group, sorted(known), 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"--a2a-min-pass {group}={rate:g}: no suite, domain or category has that name{hint}"


def _unprovable(group: str, rate: float, number: int) -> Iterator[str]:
    from pytest_a2a_bench.results import inference
    from pytest_a2a_bench.results.stats import count

    if not inference.can_prove(rate, number):
        name = f"{group}={rate:g}" if group else f"{rate:g}"
        yield (
            f"--a2a-min-pass {name} cannot be proven by {count(number, 'trial')}, even if all succeed; "
            f"{inference.trials_to_prove(rate)} could (more tasks, or more --a2a-trials of each), "
            "or switch it off for this run with --a2a-min-pass off"
        )


def _groups(item: pytest.Item) -> tuple[str, ...]:
    from pytest_a2a_bench.gates.terms import groups_of

    trial = item.stash[TRIAL]
    every = groups_of(trial.key.suite, trial.key.domain, trial.task.category or None)
    # A suite's keywords name the category of a task, where it has categories.
    return tuple(dict.fromkeys([*every, *trial.task.keywords]))


def _reason(item: pytest.Item, result: TrialResult, run: BenchRun) -> str | None:
    """Return what a tolerated miss is reported with, or None where a miss is a failure."""
    from pytest_a2a_bench.reports import failures

    entry = quarantine_of(result.key, run)
    if entry is not None:
        what = f"{PREFIX} (quarantined until {entry.expires}: {failures.one_line(entry.reason)})"
    elif run.named or not is_tolerated(result, run):
        return None
    else:
        what = PREFIX
    path = outcome.shown_path(result.path, item.config)
    return f"{what}: {failures.headline(result)}" + (f"; transcript: {path}" if path else "")


def _asserts_success(excinfo: pytest.ExceptionInfo[BaseException], result: TrialResult, item: pytest.Item) -> bool:
    """Tell whether the assertion that failed is the plain ``assert trial.success`` of this item's trial."""
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
