"""Near misses: distractor rows that change no right answer, and that a named shortcut falls for.

Rows are kept only if the reference solver still finds every gold of the org that has them, and if the shortcut
that they were made for answers otherwise there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from typing import Any

from mini_org.building import NewRow, SeededRandom
from mini_org.near_makers import MAKERS, day_for, gold_of
from mini_org.near_rows import NearMiss, NearOrg, Place
from mini_org.solve import choose_steps
from mini_org.solve.shortcuts import SHORTCUTS, answer, take
from mini_org.solve.task import AgentTask
from mini_org.time_windows import TimeWindow, parse_window
from pytest_a2a_bench.benchmarks.crmarena.org import OrgError, OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
Run = Callable[[str], Any]

_NO_ANSWER = (OrgError, ValueError, KeyError, TypeError, IndexError)

_COUNT_THE_SAME = (
    frozenset({"handle_time", "transfer_count", "best_region_identification"}),
    frozenset({"top_issue_identification", "monthly_trend_analysis"}),
    frozenset({"sales_amount_understanding"}),
    frozenset({"sales_cycle_understanding"}),
    frozenset({"conversion_rate_comprehension"}),
)
"""Categories whose windows count rows of one kind: what is behind one task's window must not be in another's."""


def near_misses(rows: Rows, tasks: Sequence[CrmTask], schema: OrgSchema, seed: int) -> list[NearMiss]:
    """Return all near misses of an org that were proven, in the order in which they are put into it.

    :param rows: the org's rows, with every field of the schema.
    """
    found = _make(NearOrg(rows, SeededRandom(seed, "near misses")), tasks)
    by_id = {task.task_id: task for task in tasks}
    while found:
        with closing(_open(rows, found, schema)) as org:
            broken = {task.task_id for task in tasks if task.answers and not finds_gold(task, org.run)}
            kept = [miss for miss in found if miss.task_id not in broken and _falls(by_id[miss.task_id], miss, org.run)]
        if len(kept) == len(found):
            if not broken:
                break
            # A task is broken by rows that were made for another one.
            kept = kept[: len(kept) // 2]
        found = kept
    return SeededRandom(seed, "order of near misses").shuffled(found)


def chosen_rows(misses: Iterable[NearMiss], most: int) -> dict[str, list[NewRow]]:
    """Return the rows by object of those near misses that ``most`` rows are enough for, in their order."""
    rows: dict[str, list[NewRow]] = {}
    left = most
    for miss in misses:
        if len(miss.rows) <= left:
            left -= len(miss.rows)
            for name, row in miss.rows:
                rows.setdefault(name, []).append(row)
    return rows


def traps(tasks: Sequence[CrmTask], run: Run) -> dict[str, dict[str, str]]:
    """Return, by task and shortcut, the wrong answers that shortcuts come to in an org."""
    found: dict[str, dict[str, str]] = {}
    for task in tasks:
        for name in SHORTCUTS if task.answers else ():
            said = _take(task, name, run)
            if said is not None and not _scores(task, said):
                found.setdefault(task.task_id, {})[name] = said
    return found


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows of tasks, to see whether a day behind one is inside another."""

    windows: Mapping[str, tuple[str, TimeWindow]]

    def is_free(self, task: CrmTask, day: date) -> bool:
        family = next((each for each in _COUNT_THE_SAME if task.category in each), frozenset({task.category}))
        return not any(category in family and window.holds(day) for category, window in self.windows.values())


def _make(org: NearOrg, tasks: Sequence[CrmTask]) -> list[NearMiss]:
    dated = {task.task_id: (task.category, window) for task in tasks if (window := _window(task)) is not None}
    windows = _Windows(dated)
    made: list[NearMiss] = []
    drafts: set[str] = set()
    for task in tasks:
        window = dated.get(task.task_id, ("", None))[1]
        for shortcut, make in MAKERS.get(task.category, {}).items():
            day = day_for(window, shortcut, org.rng)
            inside = shortcut != "ignores-end"
            if not inside and not windows.is_free(task, day):
                continue
            miss = NearMiss(task.task_id, shortcut)
            make(Place(org, miss, AgentTask(task.query, task.required), gold_of(task), day, inside))
            titles = {str(row["Title"]) for name, row in miss.rows if name == "Knowledge__kav"}
            # One draft of an article is enough for all tasks that read it.
            if miss.rows and not titles & drafts:
                made.append(miss)
                drafts |= titles
    return made


def _window(task: CrmTask) -> TimeWindow | None:
    try:
        return parse_window(task.query, AgentTask(task.query, task.required).today)
    except ValueError:
        return None


def _open(rows: Rows, misses: Iterable[NearMiss], schema: OrgSchema) -> LocalOrg:
    extra = chosen_rows(misses, sys.maxsize)
    all_ = {name: [*made, *extra.get(name, ())] for name, made in rows.items()}
    return LocalOrg.from_rows(all_, schema, name="near misses")


def finds_gold(task: CrmTask, run: Run) -> bool:
    """Tell whether the reference solver comes to a task's gold in an org, from what an agent is told."""
    try:
        return _scores(task, answer(choose_steps(AgentTask(task.query, task.required)), run))
    except _NO_ANSWER:
        # The task is not one that it understands.
        return False


def _falls(task: CrmTask, miss: NearMiss, run: Run) -> bool:
    said = _take(task, miss.shortcut, run)
    return said is not None and not _scores(task, said)


def _take(task: CrmTask, shortcut: str, run: Run) -> str | None:
    try:
        return answer(take(SHORTCUTS[shortcut], AgentTask(task.query, task.required)), run)
    except _NO_ANSWER:
        # A shortcut may read what is not there: then it has no answer.
        return None


def _scores(task: CrmTask, said: str) -> bool:
    # What solvers say has the very form of a gold.
    if task.kind.answer in ("ids", "bant"):
        return sorted(said.split(", ")) == sorted(task.answers)
    return (said,) == task.answers
