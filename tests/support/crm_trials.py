"""What the trials of CRM tasks share: settings, keys, and what came of them by category."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

from crm_settings import crm_settings
from mini_orgs import mini

from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult

MINI = {task.task_id: task for task in mini().tasks}


def settings(**options: Any) -> Settings:
    return crm_settings(**{"tag_trials": True, "concurrency": 4, **options})


def keys(domain: str = "mini", tasks: Iterable[str] | None = None) -> list[TrialKey]:
    return [TrialKey("crmarena", domain, task_id) for task_id in (MINI if tasks is None else tasks)]


def one_of_each(step: int = 1, number: int = 0) -> list[str]:
    """Return the id of one task of every category (or of every ``step``-th)."""
    return [task_id for task_id in MINI if task_id.endswith(f"-{number:02d}")][::step]


def task_of(result: TrialResult) -> CrmTask:
    return MINI[result.key.task_id]


def failed(results: Iterable[TrialResult]) -> dict[str, list[str]]:
    """Return by category what did not succeed, and why."""
    found: dict[str, list[str]] = collections.defaultdict(list)
    for result in results:
        if not result.success:
            note = result.reward_info.note if result.reward_info else ""
            found[task_of(result).category].append(f"{result.key}: {result.status} {result.error or note}")
    return dict(found)


def measured(result: TrialResult, name: str) -> float:
    """Return one of the counts of a conversation."""
    return float(result.provenance["measured"][name])
