"""Which of the collected trials a run holds that has a budget (``--a2a-budget``): known before the first of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest

from pytest_a2a_bench.gates.misses import quarantine_of
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.plugin.run.state import TRIAL, BenchRun
from pytest_a2a_bench.results.baseline import task_name
from pytest_a2a_bench.results.budget import Known, allot, beyond
from pytest_a2a_bench.results.stats import count


def allotted(run: BenchRun, keys: Sequence[TrialKey]) -> Mapping[str, int]:
    """Return how many trials each task gets; empty where there is no budget.

    By the tasks and the baseline alone: workers, shards and a resumed run come to the same.

    :param keys: all trials that could be held, before they were divided among shards.
    :raises ValueError: if the budget has no room for one of each.
    """
    # Trials that somebody named all run.
    if not run.plan.budget or run.plan.named:
        return {}
    planned = Counter(map(task_name, keys))
    uncounted = {task_name(key) for key in keys if quarantine_of(key, run.plan.quarantine) is not None}
    known = {name: Known(*found) for name, found in run.plan.known.items()}
    # pass^k of a task with fewer trials is not defined.
    least = max([1, *map(int, run.settings.min_pass_k)])
    return allot(planned, known, run.plan.budget, least, run.settings.budget_first, uncounted)


def beyond_budget(run: BenchRun, keys: Sequence[TrialKey]) -> frozenset[TrialKey]:
    """Return the trials that are not held."""
    found = allotted(run, keys)
    return beyond(keys, found) if found else frozenset()


def find_problems(trials: Sequence[pytest.Item], run: BenchRun) -> Iterator[str]:
    """Say that a budget is too small for the selected tasks."""
    keys = [item.stash[TRIAL].key for item in trials]
    try:
        allotted(run, keys)
    except ValueError:
        tasks = len(set(map(task_name, keys)))
        each = max([1, *map(int, run.settings.min_pass_k)])
        of_each = "one of each" if each == 1 else f"{each} of each, which --a2a-min-pass-k needs"
        bought = "" if isinstance(run.settings.budget, int) else f" (${run.settings.budget:g})"
        yield (
            f"--a2a-budget: {count(run.plan.budget, 'conversation')}{bought} cannot hold {of_each} of "
            f"{count(tasks, 'task')}; give {tasks * each} or more, or select fewer tasks (-k, --a2a-split)"
        )
