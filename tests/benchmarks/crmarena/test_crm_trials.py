"""Whole trials over real A2A: what the built-in agents reach, in every scoring, dialect and state of the org."""

import dataclasses

import pytest
from crm import MINI, failed, keys, measured, one_of_each, settings, task_of
from examples import sampled
from trials import RunTrials

from pytest_a2a_bench.benchmarks.crmarena.diagnosis import diagnose
from pytest_a2a_bench.benchmarks.crmarena.domains import open_domain
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES, NONE, read_rot
from pytest_a2a_bench.model import TrialKey, TrialResult

DIALECTS = ("tool_call", "agentbeats", "sierra", "data", "crm_action", "execute_tags", "crm_entropic")
ALL = list(MINI)
FEW = one_of_each(step=3)
PAIRS = [
    (dialect, ("full", "delta")[(number + turn) % 2]) for turn in range(2) for number, dialect in enumerate(DIALECTS)
]
"""Each dialect with each history."""


@pytest.mark.parametrize(
    ("scoring", "tasks"),
    [
        ("fixed", one_of_each()),
        pytest.param("compat", ALL, marks=pytest.mark.slow),
        pytest.param("fixed", ALL, marks=pytest.mark.slow),
    ],
)
def test_the_oracle_reaches_everything(run_trials: RunTrials, scoring: str, tasks: list[str]) -> None:
    results = run_trials("oracle", settings(crm_scoring=scoring), keys(tasks=tasks))
    assert failed(results) == {}
    assert {r.provenance["category"] for r in results} == set(CATEGORIES)
    assert {r.termination_reason for r in results} == {"agent_stop"}
    assert {r.provenance["scoring"] for r in results} == {scoring}


@pytest.mark.parametrize(
    ("scoring", "tasks"),
    [("compat", ALL[::7]), *(pytest.param(scoring, ALL, marks=pytest.mark.slow) for scoring in ("compat", "fixed"))],
)
def test_noop_reaches_the_tasks_that_have_no_answer(run_trials: RunTrials, scoring: str, tasks: list[str]) -> None:
    results = run_trials("noop", settings(crm_scoring=scoring), keys(tasks=tasks))
    without_answer = {task_id for task_id in tasks if MINI[task_id].answers == (NONE,)}
    assert {r.key.task_id for r in results if r.success} == without_answer
    assert 0.1 < len(without_answer) / len(tasks) < 0.3
    assert {r.status for r in results} == {"evaluated"}


@pytest.mark.parametrize("tasks", [FEW, pytest.param(ALL, marks=pytest.mark.slow)], ids=["few", "all"])
def test_the_solver_reaches_every_answer_with_queries_alone(run_trials: RunTrials, tasks: list[str]) -> None:
    results = run_trials("solver", settings(tag_trials=False), keys(tasks=tasks))
    assert failed(results) == {}
    asked = [r for r in results if task_of(r).metric != "privacy_rejection"]
    assert all(measured(r, "queries") >= 1 for r in asked)
    assert all(measured(r, "query_errors") == 0 for r in results)
    assert all(measured(r, "rows_read") > 0 for r in asked if task_of(r).answers != (NONE,))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "change", "value"), [("solver", "rot", True), ("oracle", "rot", True), ("oracle", "drift", "high")]
)
def test_distractors_and_renames_change_no_gold(run_trials: RunTrials, agent: str, change: str, value: object) -> None:
    results = run_trials(agent, settings(**{f"crm_{change}": value}), keys(tasks=ALL))
    assert failed(results) == {}
    assert {r.provenance[change] for r in results} == {value}


@pytest.mark.parametrize(("dialect", "history"), sampled(PAIRS, 8))
def test_every_dialect_carries_queries_and_answers(run_trials: RunTrials, dialect: str, history: str) -> None:
    chosen = settings(dialect=dialect, history=history)
    assert failed(run_trials("oracle", chosen, keys(tasks=FEW))) == {}
    if dialect == "crm_entropic":
        return  # it has no queries; see below
    results = run_trials("solver", chosen, keys(tasks=FEW))
    assert failed(results) == {}
    assert {r.dialect for r in results} == {dialect}
    assert not [f for r in results for f in r.findings]


def test_a_query_in_the_dialect_without_queries_is_a_finding(run_trials: RunTrials) -> None:
    (result,) = run_trials("solver", settings(dialect="crm_entropic"), keys(tasks=["handle_time-00"]))
    assert "query-where-answer-asked" in {f.rule for f in result.findings}
    assert measured(result, "queries") > 0
    assert result.reward == 1.0


def test_an_agent_that_answers_in_its_own_dialect_is_understood(run_trials: RunTrials) -> None:
    results = run_trials("solver?dialect=crm_action", settings(), keys(tasks=FEW))
    assert failed(results) == {}
    assert {r.dialect for r in results} == {"crm_action"}


@pytest.mark.parametrize(
    ("agent", "tasks"),
    [("oracle", FEW), *(pytest.param("solver", tasks, marks=pytest.mark.slow) for tasks in (one_of_each(), ALL))],
)
def test_an_interactive_task_ends_with_the_users_answer(run_trials: RunTrials, agent: str, tasks: list[str]) -> None:
    results = run_trials(agent, settings(), keys("mini_interactive", tasks))

    assert failed(results) == {}
    assert {r.termination_reason for r in results} == {"user_stop"}
    assert {r.provenance["user"] for r in results} == {"scripted"}
    for result in results:
        query = task_of(result).query
        user = " ".join(t.text or "" for t in result.transcript if t.role == "user")
        assert measured(result, "user_turns") <= 10
        assert all(word in user for word in query.split()), "the whole question was told"


def test_an_oracle_without_a_task_too_few_turns_and_a_task_that_is_not_there(run_trials: RunTrials) -> None:
    (result,) = run_trials("oracle", settings(tag_trials=False, concurrency=1), keys(tasks=["handle_time-00"]))

    assert (result.status, result.termination_reason, result.reward) == ("evaluated", "agent_error", 0.0)
    assert result.reward_info is not None
    assert "--a2a-set tag-trials=on" in result.reward_info.note

    (result,) = run_trials("solver", settings(crm_max_turns=1), keys(tasks=["handle_time-00"]))

    assert (result.status, result.termination_reason, result.success) == ("evaluated", "max_turns", False)
    assert result.reward_info is not None
    assert "max_turns" in result.reward_info.note

    (result,) = run_trials("noop", settings(), keys(tasks=["handle_time-99"]))

    assert result.status == "infrastructure_error"
    assert "'handle_time-99'" in str(result.error)


@pytest.mark.slow
def test_the_result_says_which_shortcut_a_wrong_answer_is_that_of(run_trials: RunTrials) -> None:
    """Some shortcut comes to None where there is an answer, as an agent does that always says None."""
    options = settings(crm_rot=True)
    caught = open_domain("mini", options).traps
    # The first that comes to it is named.
    none = {task: [name for name, said in all_.items() if said == NONE] for task, all_ in caught.items()}
    wanted = {task: names[0] for task, names in none.items() if names}
    other = next(task for task, all_ in caught.items() if NONE not in all_.values())
    results = run_trials("noop", options, keys(tasks=[*wanted, other]))

    assert wanted
    message = {result.key.task_id: result.provenance.get("shortcut") for result in results}
    assert message == {**wanted, other: None}
    found = diagnose(results[0])
    assert found is not None
    assert (found.kind, found.subject) == ("took-shortcut", read_rot().shortcuts[wanted[results[0].key.task_id]])


# CRMArena's trials with the org asked over MCP: the same answers, turns and scores as in text.


def compare(run_trials: RunTrials, spec: str, every: list[TrialKey], **options: object) -> list[TrialResult]:
    text = settings(**options)
    before, native = run_trials(spec, text, every), run_trials(spec, dataclasses.replace(text, tools="mcp"), every)
    for one, other in zip(before, native, strict=True):
        assert (other.key, other.status, other.error) == (one.key, "evaluated", None)
        assert (other.reward_info, other.termination_reason) == (one.reward_info, one.termination_reason)
        assert [(t.role, t.text) for t in other.transcript] == [(t.role, t.text) for t in one.transcript]
        for count in ("turns", "queries", "query_errors", "rows_read", "bad_format", "user_turns"):
            assert measured(other, count) == measured(one, count)
    return native


@pytest.mark.slow
def test_the_solver_asks_the_org_itself(run_trials: RunTrials) -> None:
    results = compare(run_trials, "solver", keys(tasks=one_of_each(step=4)))
    assert {r.reward for r in results} == {1.0}
    # The answer ends the conversation in the middle of the agent's turn; it is not refused for that.
    assert {r.termination_reason for r in results} == {"agent_stop"}
    assert [r.provenance["native_calls"] for r in results] == [measured(r, "turns") for r in results]
    assert {r.provenance["native_calls_refused"] for r in results} == {0}


@pytest.mark.slow
def test_a_user_is_spoken_to_by_a_call_and_answers_in_its_result(run_trials: RunTrials) -> None:
    results = compare(run_trials, "solver", keys("mini_interactive", one_of_each(step=8)))
    assert any(sum(t.role == "user" for t in r.transcript) > 1 for r in results)
