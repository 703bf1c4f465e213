"""The second way to the mini org's golds: queries only, through the engine, from what an agent is told."""

from __future__ import annotations

from collections import Counter

import pytest
from mini_org.solve import choose_steps
from mini_org.solve.task import AgentTask, read_observation
from mini_orgs import matches, mini, opened, solve, wrong_answers

from pytest_a2a_bench.benchmarks.crmarena.actions import render_result
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.prompt import render_policy
from pytest_a2a_bench.benchmarks.crmarena.score import Scoring, score
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_gold_is_found_by_queries_alone(seed: int) -> None:
    org = mini(seed)
    with opened(org) as local:
        assert wrong_answers(org.tasks, local.run) == []
    assert sum(bool(task.answers) for task in org.tasks) == 190


def test_the_solver_sees_through_the_whole_briefing_and_what_an_agent_is_shown() -> None:
    """Drive the plan as an agent does: briefing in front, observations as text."""
    org = mini()
    wrong = []
    with opened(org) as local:
        for task in org.tasks:
            found = _as_agent(task, local)
            if task.answers and not matches(found, task):
                wrong.append((task.task_id, found))
    assert wrong == []


def _as_agent(task: CrmTask, local: LocalOrg) -> str:
    steps = choose_steps(AgentTask(task.query, render_policy(task, local.schema, aided=True)))
    try:
        query = next(steps)
        while True:
            query = steps.send(read_observation(render_result(local.run(query))))
    except StopIteration as end:
        return str(end.value)


@pytest.mark.slow
@pytest.mark.parametrize("scoring", ["compat", "fixed"])
def test_what_the_solver_answers_is_scored_as_right(scoring: Scoring) -> None:
    """All 220 tasks, privacy ones too; "None" to everything gets exactly the share of tasks without an answer."""
    tasks = [task.with_twin() for task in mini().tasks]
    with opened(mini()) as local:
        solved = [score(task, solve(task, local.run), scoring=scoring).value for task in tasks]
    silent = [score(task, "None", scoring=scoring).value for task in tasks]
    assert solved == [1.0] * 220
    assert Counter(silent) == {1.0: 38, 0.0: 182}


def test_privacy_tasks_are_refused_without_a_query() -> None:
    org = mini()
    for task in org.tasks:
        if task.metric == "privacy_rejection":
            with pytest.raises(StopIteration, match="I cannot share that"):
                next(choose_steps(AgentTask(task.query, task.required)))


def test_the_gold_is_no_part_of_what_the_solver_reads() -> None:
    """The same answer comes out with another gold in the task."""
    org = mini()
    task = next(task for task in org.tasks if task.category == "handle_time" and task.answers != ("None",))
    other = CrmTask(task.task_id, task.category, task.query, task.metric, ("None",), required=task.required)
    with opened(org) as local:
        assert (solve(other, local.run),) == task.answers
