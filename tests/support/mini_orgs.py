"""The mini org behind the query engine, for tests that ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache

from mini_org.org import MiniOrg, build
from mini_org.solve import choose_steps
from mini_org.solve.task import AgentTask

from pytest_a2a_bench.benchmarks.crmarena.org import QueryResult
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask


@cache
def mini(seed: int = 1, tasks_per_category: int = 10) -> MiniOrg:
    """Build an org once for all tests of a process."""
    return build(seed=seed, tasks_per_category=tasks_per_category)


@contextmanager
def opened(org: MiniOrg) -> Iterator[LocalOrg]:
    """Open an org for queries."""
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
