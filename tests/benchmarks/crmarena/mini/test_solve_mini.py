"""The second way to the mini org's golds: queries only, through the engine, from what an agent is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

import pytest
from mini_org.solve import choose_steps, counting, documents
from mini_org.solve.task import AgentTask, best, read_observation, window_of
from mini_org.time_windows import TimeWindow, add_months
from mini_orgs import matches, mini, opened, solve, wrong_answers
from one_test import in_one_test

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


@pytest.mark.parametrize("count", [1, 4])
def test_golds_of_few_tasks_are_found_too(count: int) -> None:
    org = mini(1, count)
    with opened(org) as local:
        assert wrong_answers(org.tasks, local.run) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 24))
def test_golds_of_many_orgs_are_found(seed: int) -> None:
    org = mini(seed)
    with opened(org) as local:
        assert wrong_answers(org.tasks, local.run) == []


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "count"), [(1, 40), (2, 40), (3, 150)])
def test_golds_of_many_tasks_are_found(seed: int, count: int) -> None:
    org = mini(seed, count)
    with opened(org) as local:
        assert wrong_answers(org.tasks, local.run) == []


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


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_answer_is_a_tie(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Solve with a comparison that refuses two equal firsts."""

    def strictly_best(scores: Mapping[str, float], *, highest: bool) -> str:
        ranked = sorted(scores.values(), reverse=highest)
        assert len(ranked) < 2 or ranked[0] != ranked[1], scores
        return best(scores, highest=highest)

    for module in (counting, documents):
        monkeypatch.setattr(module, "best", strictly_best)
    org = mini(seed)
    with opened(org) as local:
        assert wrong_answers(org.tasks, local.run) == []


@pytest.mark.parametrize(("first", "last"), [(1, 0), (0, 1), (1, 1)])
def test_it_does_not_matter_whether_border_days_count(first: int, last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Solve with periods that begin or end a day later than the tasks say."""

    def shifted(task: AgentTask) -> TimeWindow:
        window = window_of(task)
        return TimeWindow(window.start + timedelta(days=first), window.end + timedelta(days=last))

    for module in (counting,):
        monkeypatch.setattr(module, "window_of", shifted)
    org = mini()
    with opened(org) as local:
        assert wrong_answers(org.tasks, local.run) == []


def test_periods_a_month_off_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above can fail."""

    def shifted(task: AgentTask) -> TimeWindow:
        window = window_of(task)
        return TimeWindow(add_months(window.start, -1), add_months(window.end, -1))

    for module in (counting,):
        monkeypatch.setattr(module, "window_of", shifted)
    org = mini()
    with opened(org) as local:
        assert len(wrong_answers(org.tasks, local.run)) > 20


def test_the_gold_is_no_part_of_what_the_solver_reads() -> None:
    """The same answer comes out with another gold in the task."""
    org = mini()
    task = next(task for task in org.tasks if task.category == "handle_time" and task.answers != ("None",))
    other = CrmTask(task.task_id, task.category, task.query, task.metric, ("None",), required=task.required)
    with opened(org) as local:
        assert (solve(other, local.run),) == task.answers


@in_one_test(
    ("text", "records"),
    [
        ("Salesforce instance output: [{'Id': '1', 'Name': None}]", [{"Id": "1", "Name": None}]),
        ('Salesforce instance output: [{"Id": "1", "Closed": true}]', [{"Id": "1", "Closed": True}]),
        ("Salesforce instance output: []", []),
        ("Salesforce instance output: INVALID_FIELD: No such column 'X' on entity 'Case'", []),
        ("[not a list", []),
        ("[__import__('os')]", []),
        ("[1, 'two', {'three': 3}]", [{"three": 3}]),
        ("", []),
    ],
)
def test_observations_are_read_as_json_or_python(text: str, records: list[dict[str, object]]) -> None:
    assert read_observation(text) == records


def test_a_task_without_a_date_or_an_id_says_so() -> None:
    with pytest.raises(ValueError, match="names no date of today"):
        _ = AgentTask("Which agent?").today
    with pytest.raises(ValueError, match="names no id that begins with 0Q0"):
        AgentTask("Which quote?").named_id("0Q0")
