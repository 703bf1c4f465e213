"""What tests of CRM tasks share: the mini org behind the query engine, settings, keys, and what came of trials."""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from typing import Any

from mini_org.org import MiniOrg, build
from mini_org.solve import choose_steps
from mini_org.solve.task import AgentTask

from pytest_a2a_bench.benchmarks.crmarena.org import QueryResult
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult


@cache
def mini(seed: int = 1, tasks_per_category: int = 10) -> MiniOrg:
    """Build an org once for all tests of a process."""
    return build(seed=seed, tasks_per_category=tasks_per_category)


@contextmanager
def opened(org: MiniOrg) -> Iterator[LocalOrg]:
    with closing(LocalOrg.from_rows(org.rows, org.schema, name=org.name, today=org.today)) as local:
        yield local


def solve(task: AgentTask | CrmTask, run: Callable[[str], QueryResult]) -> str:
    """Answer a task by asking an org.

    :param task: only its question and required knowledge are read.
    :param run: asks the org, like ``Org.run``.
    """
    steps = choose_steps(AgentTask(task.query, task.required))
    try:
        text = next(steps)
        while True:
            text = steps.send(list(run(text).records))
    except StopIteration as end:
        return str(end.value)


def wrong_answers(tasks: Sequence[CrmTask], run: Callable[[str], QueryResult]) -> list[str]:
    """Return the tasks, privacy ones left out, whose gold the solver does not find, each with both answers."""
    wrong = []
    for task in tasks:
        if task.answers:
            found = solve(task, run)
            if not matches(found, task):
                wrong.append(f"{task.task_id}: gold {task.answers}, solved {found}")
    return wrong


def matches(found: str, task: CrmTask) -> bool:
    """Tell whether an answer is the gold, in any order where it is a set."""
    if task.kind.answer in ("ids", "bant"):
        return sorted(found.split(", ")) == sorted(task.answers)
    return (found,) == task.answers


def crm_settings(**values: Any) -> Settings:
    """Return settings; what begins with ``crm_`` becomes one of the benchmark's own options."""
    own = {name: value for name, value in values.items() if name.startswith("crm_")}
    core = {name: value for name, value in values.items() if name not in own}
    return Settings(**core, benchmark_options=own)


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
    return float(result.provenance["measured"][name])
