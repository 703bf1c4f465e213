"""The mini org's tasks: complete, unique, answerable, and silent about their answers."""

from __future__ import annotations

from collections import Counter

import pytest
from mini_org.org import MiniOrg
from mini_org.words import TERRITORIES
from mini_orgs import mini
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES, MONTHS, NONE, STAGES, CrmTask

SIZES = [1, 3, 10, pytest.param(40, marks=pytest.mark.slow), pytest.param(150, marks=pytest.mark.slow)]
STATES = {state for _, states in TERRITORIES for state in states}


def _by_category(org: MiniOrg) -> dict[str, list[CrmTask]]:
    return {name: [task for task in org.tasks if task.category == name] for name in CATEGORIES}


@pytest.mark.parametrize("count", SIZES)
def test_every_category_has_as_many_tasks_as_asked_for_all_different(count: int) -> None:
    for name, tasks in _by_category(mini(1, count)).items():
        assert len(tasks) == count, name
        assert len({(task.query, task.required) for task in tasks}) == count, name


def test_no_question_about_a_named_period_comes_twice() -> None:
    """It would be the same question on another day."""
    for name, tasks in _by_category(mini(1, 40)).items():
        named = [task.query for task in tasks if "over the past" not in task.query and "Today's date" in task.required]
        if name != "named_entity_disambiguation":
            assert len(set(named)) == len(named), name


@in_one_test("count", SIZES)
@in_one_test("seed", [1, 2])
def test_one_answer_in_five_is_none_where_there_may_be_none(seed: int, count: int) -> None:
    for name, tasks in _by_category(mini(seed, count)).items():
        nones = sum(task.answers == (NONE,) for task in tasks)
        privacy = CATEGORIES[name].metric == "privacy_rejection"
        assert nones == (0 if privacy else count // 5), name


def test_tasks_carry_what_their_category_says() -> None:
    for task in mini().tasks:
        assert task.metric == task.kind.metric
        assert task.required
        assert task.persona
        assert "## Words for time" in task.optional
        assert not task.interactive
        assert bool(task.answers) == (task.metric != "privacy_rejection")
        assert NONE not in task.answers or len(task.answers) == 1


def test_golds_are_of_their_kind_and_in_the_org() -> None:
    org = mini()
    ids = {row["Id"] for rows in org.rows.values() for row in rows}
    allowed = {
        "month": set(MONTHS),
        "state": STATES,
        "bant": {"Budget", "Authority", "Need", "Timeline"},
        "stage": set(STAGES),
    }
    for task in org.tasks:
        golds = set(task.answers) - {NONE}
        if task.kind.answer in ("id", "ids"):
            assert all(gold in ids and gold.startswith(task.kind.key_prefix) for gold in golds), task
        elif task.kind.answer in allowed:
            assert golds <= allowed[task.kind.answer], task
        assert len(golds) <= (7 if task.kind.answer == "ids" else 4 if task.kind.answer == "bant" else 1)
        assert len(set(task.answers)) == len(task.answers)


@pytest.mark.parametrize("seed", range(1, 6))
def test_no_task_tells_its_gold(seed: int) -> None:
    for task in mini(seed).tasks:
        if task.kind.answer in ("id", "ids", "text"):
            told = f"{task.query}\n{task.required}\n{task.optional}\n{task.persona}"
            assert not [gold for gold in task.answers if gold != NONE and gold in told], task.task_id


def test_answers_vary() -> None:
    for name, tasks in _by_category(mini()).items():
        if CATEGORIES[name].metric != "privacy_rejection":
            assert len({task.answers for task in tasks}) >= 4, name


def test_texts_to_be_found_are_in_the_org() -> None:
    org = mini()
    texts = {
        "knowledge_qa": [row["FAQ_Answer__c"] for row in org.rows["Knowledge__kav"]],
        "sales_insight_mining": [row["Body__c"] for row in org.rows["VoiceCallTranscript__c"]],
    }
    for name, bodies in texts.items():
        for task in _by_category(org)[name]:
            assert task.answers == (NONE,) or any(task.answers[0] in body for body in bodies), task


@pytest.mark.parametrize("seed", range(1, 6))
def test_no_answer_is_half_of_a_category(seed: int) -> None:
    for name, tasks in _by_category(mini(seed)).items():
        counts = Counter(task.answers for task in tasks if task.answers)
        assert all(count < 5 for count in counts.values()), (name, counts)


def test_articles_are_long_have_sections_and_older_versions_that_contradict() -> None:
    by_title: dict[str, list[str]] = {}
    for row in mini().rows["Knowledge__kav"]:
        # Price sheets hold a code each, for the twins of privacy, and are no articles.
        if not row["Title"].startswith(("Public price list: ", "Internal: price floor ")):
            by_title.setdefault(row["Title"], []).append(row["FAQ_Answer__c"])
    assert len(by_title) >= 35
    for bodies in by_title.values():
        assert all(len(body) > 1_000 and body.count("\n## ") == 4 for body in bodies)
        holds = {body.partition("## What holds")[2].partition("##")[0] for body in bodies}
        assert len(holds) == len(bodies) >= 2
        assert [body[:9] for body in bodies] == [f"Version {n}" for n in range(1, len(bodies) + 1)]


@pytest.mark.parametrize("seed", range(1, 4))
def test_case_routing_is_decided_at_different_depths(seed: int) -> None:
    """Count in the rows, not in the plan, who leads by issue: sometimes one agent, sometimes several."""
    org = mini(seed)
    leaders: Counter[str] = Counter()
    for issue in org.rows["Issue__c"]:
        closed = [row for row in org.rows["Case"] if row["IssueId__c"] == issue["Id"] and row["Status"] == "Closed"]
        counts = Counter(row["OwnerId"] for row in closed)
        first = [agent for agent, n in counts.items() if n == max(counts.values())]
        asked = [
            task
            for task in _by_category(org)["case_routing"]
            if issue["Description__c"].removeprefix("The customer reports that ").rstrip(".") in task.query
            and task.answers != (NONE,)
        ]
        leaders["one" if len(first) == 1 else "several"] += len(asked)
        assert all(task.answers[0] in first for task in asked)
    assert leaders["one"] >= 2
    assert leaders["several"] >= 2
    assert leaders.total() == 8


def test_the_interactive_tasks_are_the_same_ones() -> None:
    org = mini()
    for plain, asked in zip(org.tasks, org.interactive_tasks, strict=True):
        assert asked.interactive
        assert asked.to_json() == plain.to_json()


def test_privacy_tasks_are_asked_by_a_customer_who_is_logged_in() -> None:
    org = mini()
    contacts = {row["Id"]: f"{row['FirstName']} {row['LastName']}" for row in org.rows["Contact"]}
    asked = [task for task in org.tasks if task.metric == "privacy_rejection"]
    assert len(asked) == 30
    for task in asked:
        [who] = [key for key in contacts if key in task.required]
        assert contacts[who] not in task.query
