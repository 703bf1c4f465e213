"""Floors (``--a2a-min-pass``) that cannot be kept, whatever the agent does: told before anything is paid for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.nearest import did_you_mean
from pytest_a2a_bench.plugin.run.state import TRIAL, BenchRun
from pytest_a2a_bench.results.baseline import task_name
from pytest_a2a_bench.results.gates.quarantine import quarantine_of
from pytest_a2a_bench.results.gates.terms import groups_of, thresholds_of


def find_problems(trials: list[pytest.Item], run: BenchRun, part: list[pytest.Item]) -> Iterator[str]:
    """Say which floors are for nothing that there is, and of which pass^k there are too few trials.

    :param part: those of the trials that this shard runs.
    """
    # Chosen trials say nothing about a rate, so their number is no objection.
    if run.plan.named or not (run.settings.min_pass or run.settings.min_pass_k):
        return
    yield from _unknown(trials, run)
    # Quarantined trials count in no rate.
    wrong = list(_hopeless([i for i in part if quarantine_of(i.stash[TRIAL].key, run.plan.quarantine) is None], run))
    # Each on a line of its own: all are told together.
    yield from wrong
    if wrong and run.settings.shard:
        yield f"gates judge shard {run.settings.shard} alone; to judge the whole, join the parts with a2a-bench merge"


def _hopeless(counted: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    tasks: dict[str, int] = {}
    for item in counted:
        key = item.stash[TRIAL].key
        # A label makes a task of its own, as in the gates.
        name = task_name(key)
        tasks[name] = tasks.get(name, 0) + 1
    fewest = min(tasks.values(), default=0)
    for k, rate in run.settings.min_pass_k.items():
        if tasks and fewest < int(k):
            yield f"--a2a-min-pass-k {k}={rate:g} needs --a2a-trials {k}; there are tasks with {fewest} here"


def _unknown(trials: list[pytest.Item], run: BenchRun) -> Iterator[str]:
    """Say which floors are for a name that nothing has: most likely it is misspelt, and would gate nothing."""
    here = {group for item in trials for group in _groups(item)}
    missing = {
        group: rate for group, rate in thresholds_of(run.settings).min_pass.items() if group and group not in here
    }
    if not missing:
        return
    # Names of other suites are right, although nothing of theirs runs here.
    known = here | registry.group_names()
    for group, rate in missing.items():
        if group not in known:
            hint = did_you_mean(group, sorted(known))
            yield f"--a2a-min-pass {group}={rate:g}: no suite, domain or category has that name{hint}"


def _groups(item: pytest.Item) -> tuple[str, ...]:
    trial = item.stash[TRIAL]
    every = groups_of(trial.key.suite, trial.key.domain, trial.task.category or None)
    # A suite's keywords name the category of a task, where it has categories.
    return tuple(dict.fromkeys([*every, *trial.task.keywords]))
