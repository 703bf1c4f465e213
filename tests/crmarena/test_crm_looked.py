"""None is an answer where a query could have found one, and a guess where none could."""

from __future__ import annotations

import pytest
from mini_orgs import mini, opened, solve

from pytest_a2a_bench.benchmarks.crmarena.evaluation import is_guess
from pytest_a2a_bench.benchmarks.crmarena.floors import IDLE, measure_floors
from pytest_a2a_bench.benchmarks.crmarena.looked import asked_of, has_looked, mentions
from pytest_a2a_bench.benchmarks.crmarena.org.base import QueryResult
from pytest_a2a_bench.benchmarks.crmarena.org.drift import DriftLevel, drift_text, drifted
from pytest_a2a_bench.benchmarks.crmarena.solve import choose_steps
from pytest_a2a_bench.benchmarks.crmarena.solve.attentive import attentive
from pytest_a2a_bench.benchmarks.crmarena.solve.task import AgentTask
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE, CrmTask
from pytest_a2a_bench.model import ToolCall, Turn

STRICT = {"profile": "strict"}
TASKS = {task.task_id: task for task in mini().tasks}


def asking(*queries: str, error: bool = False) -> tuple[Turn, ...]:
    """Return a conversation in which queries were made, all of which succeeded or none."""
    turns: list[Turn] = []
    for query in queries:
        turns.append(Turn("agent", calls=(ToolCall("execute", {"query": query}),)))
        turns.append(Turn("tool", text="[]", tool="execute", error=error))
    return tuple(turns)


def without_answer(seed: int) -> list[CrmTask]:
    found = [task for task in mini(seed).tasks if task.answers == (NONE,)]
    assert len({task.category for task in found}) == 19
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_who_solves_a_task_has_looked(seed: int) -> None:
    with opened(mini(seed)) as org:
        for task in without_answer(seed):
            asked: list[str] = []

            def run(query: str, asked: list[str] = asked) -> QueryResult:
                asked.append(query)
                return org.run(query)

            assert solve(task, run) == NONE
            assert not is_guess(task, NONE, STRICT, asking(*asked)), (task.task_id, asked)


@pytest.mark.parametrize("level", ["low", "high"])
def test_who_solves_a_task_under_other_names_has_looked(level: DriftLevel) -> None:
    org = mini()
    with opened(org) as plain:
        other = drifted(plain, level, org.seed)
        for task in without_answer(1):
            asked: list[str] = []

            def run(query: str, asked: list[str] = asked) -> QueryResult:
                found = other.run(query)
                asked.append(query)
                return found

            told = AgentTask(*(drift_text(text, org.schema, other.schema) for text in (task.query, task.required)))
            ask, steps = attentive(run, other.schema.to_json(), org.schema.to_json()), choose_steps(told)
            try:
                query = next(steps)
                while True:
                    query = steps.send(list(ask(query)))
            except StopIteration:
                pass
            assert not is_guess(task, NONE, {**STRICT, "drift": level}, asking(*asked)), (task.task_id, asked)
        other.close()


def test_idle_queries_make_no_answer_of_none() -> None:
    tasks = [task.with_twin() for task in mini().tasks]
    assert measure_floors(tasks, profile="strict", scoring="fixed")[IDLE] <= 0.05
    any_query = asking("SELECT Id FROM Account LIMIT 1")
    assert all(is_guess(task, NONE, STRICT, any_query) for task in without_answer(1))


@pytest.mark.parametrize(
    ("task_id", "queries", "looked"),
    [
        ("handle_time-00", ["SELECT OwnerId FROM Case WHERE ClosedDate = LAST_N_WEEKS:5"], True),
        ("handle_time-00", ["SELECT OwnerId FROM Case WHERE ClosedDate >= 2020-03-01T00:00:00Z"], True),
        ("handle_time-00", ["SELECT OwnerId FROM Case WHERE FISCAL_YEAR(ClosedDate) = 2020"], True),
        ("handle_time-00", ["SELECT OwnerId FROM Case WHERE WEEK_IN_YEAR(ClosedDate) = 10"], True),
        ("handle_time-00", ["SELECT OwnerId FROM Case WHERE DAY_IN_YEAR(ClosedDate) < 60"], True),
        ("handle_time-00", ["SELECT OwnerId FROM Case"], False),
        ("handle_time-00", ["SELECT Id FROM Account WHERE CreatedDate = TODAY"], False),
        ("quote_approval-03", ["SELECT Id FROM Knowledge__kav", "SELECT Id FROM Quote"], False),
        ("quote_approval-03", ["SELECT Id FROM Knowledge__kav", "SELECT Id FROM Quote WHERE Id = '{record}'"], True),
        ("top_issue_identification-02", ["SELECT Id FROM Case WHERE CreatedDate > 2020-05-31T00:00:00Z AND "
         "OrderItemId__r.Product2.Name = 'Sarto D18'"], True),
        ("top_issue_identification-02", ["SELECT Id, OrderItemId__c FROM Case WHERE CreatedDate = TODAY"], False),
    ],
)  # fmt: skip
def test_what_counts_as_having_looked(task_id: str, queries: list[str], looked: bool) -> None:
    task = TASKS[task_id]
    assert task.answers == (NONE,)
    record = next((word for word in task.required.split() if len(word) == 18 and word.startswith("0Q0")), "")
    written = [query.replace("{record}", record[:15]) for query in queries]
    assert has_looked(task, asking(*written)) is looked
    assert not has_looked(task, asking(*written, error=True)), "a refused query finds nothing out"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT Id FROM Account ORDER BY Name", False),
        ("SELECT Id FROM Account order\n  by Name", False),
        (r"SELECT Id FROM Account WHERE Name = 'Bob\'s Order'", False),
        ("FIND {Bob's Order} IN ALL FIELDS RETURNING Account(Id)", False),
        ("SELECT Id FROM Order ORDER BY Name", True),
        ("SELECT Id FROM Account WHERE Name = 'x' AND Id IN (SELECT AccountId FROM Order WHERE Name = 'y')", True),
        ("SELECT OrderId FROM OrderItem", True),
        ("FIND {it's} IN ALL FIELDS RETURNING Order(Id WHERE Name = 'x')", True),
    ],
)
def test_sorting_and_literals_name_no_object(query: str, named: bool) -> None:
    assert mentions(query, "Order") is named


def test_queries_behind_an_answer_were_not_made() -> None:
    calls = (ToolCall("respond", {"answer": "None"}), ToolCall("execute", {"query": "SELECT Id FROM Case"}))
    assert list(asked_of([Turn("agent", calls=calls)])) == []
    several = Turn("agent", calls=(ToolCall("execute", {"query": "a"}), ToolCall("execute", {"query": "b"})))
    told = (Turn("tool", text="x", error=True), Turn("tool", text="y"))
    assert list(asked_of([several, *told])) == [("a", True), ("b", False)]
