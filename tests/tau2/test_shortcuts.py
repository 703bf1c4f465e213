"""Upstream's evaluator comes to the same with the shortcuts as without them, whatever an agent and a user did.

Both ways are taken in one process, over conversations of random calls, so that many can be tried;
``test_equals_stock_sample.py`` holds whole trials against a process with nothing of ours.
"""

from __future__ import annotations

import contextlib
import importlib
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from random_agent import any_call
from rotating import rotating

from pytest_a2a_bench.benchmarks.tau2 import evaluate, index, shortcuts, tables, upstream
from pytest_a2a_bench.benchmarks.tau2.agent import defuse, tool_specs
from pytest_a2a_bench.errors import EvaluatorError
from pytest_a2a_bench.model import ToolCall

DOMAINS = {"airline": 25, "retail": 30, "telecom": 15, "mock": 1}
"""In how many parts the tasks of a domain are tried."""


@contextlib.contextmanager
def stock_ways() -> Iterator[None]:
    """Let databases be parsed and tools be made as they are in tau2."""
    database = importlib.import_module("tau2.environment.db").DB
    toolkit: Any = importlib.import_module("tau2.environment.toolkit")
    ours = vars(database)["load"], toolkit.as_tool
    database.load = classmethod(ours[0].__func__.__wrapped__)
    toolkit.as_tool = ours[1].__wrapped__
    try:
        yield
    finally:
        database.load, toolkit.as_tool = ours


def conversation(tau2: upstream.Tau2, environment: Any, task: Any, chance: random.Random) -> Any:
    """Hold one of calls alone, as the orchestrator would, and return it."""
    initial, criteria = task.initial_state, task.evaluation_criteria
    history = (initial and initial.message_history) or []
    environment.set_state(
        initialization_data=initial.initialization_data if initial else None,
        initialization_actions=initial.initialization_actions if initial else None,
        message_history=history,
    )
    said = list(history)
    actions = (criteria and criteria.actions) or []
    whole = chance.random() < 0.3
    for number in range(len(actions) if whole else chance.randint(0, 12)):
        whose = str(actions[number].requestor) if whole else chance.choice(("assistant", "assistant", "user"))
        kit = environment.user_tools if whose == "user" else environment.tools
        if kit is None:
            continue
        gold = [ToolCall(a.name, a.arguments, "") for a in actions if a.requestor == whose]
        seen = [str(value) for action in actions for value in action.arguments.values()] or ["nothing"]
        if whole:
            call = ToolCall(actions[number].name, actions[number].arguments, "")
        else:
            call = defuse(any_call(tool_specs(list(kit.get_tools().values())), gold, seen, chance))
        typed = tau2.messages.ToolCall(id=f"c{number}", name=call.name, arguments=dict(call.arguments), requestor=whose)
        kind = tau2.messages.UserMessage if whose == "user" else tau2.messages.AssistantMessage
        said.append(kind(role=whose, content=None, tool_calls=[typed], cost=0.0))
        said.append(environment.get_response(typed))
        environment.sync_tools()
    now = datetime(2026, 1, 1)
    for place, message in enumerate(said):
        message.timestamp = (now + timedelta(seconds=place)).isoformat()
    return tau2.simulation_class(
        id="x",
        task_id=task.id,
        start_time="",
        end_time="",
        duration=0.0,
        termination_reason=tau2.termination_reason.USER_STOP,
        messages=said,
    )


def comes_to(tau2: upstream.Tau2, domain: str, task: Any, simulation: Any, live: Any) -> Any:
    try:
        return evaluate.evaluate(tau2, domain, task, simulation, live, {})
    except EvaluatorError as error:
        return str(error)


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS)
def test_random_calls_come_to_the_same(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tau2 = upstream.load()
    assert not shortcuts.why_stock()
    taken: list[bool] = []
    make_case = shortcuts._make_case

    def counted(*args: Any) -> Any:
        taken.append((case := make_case(*args)) is not None)
        return case

    monkeypatch.setattr(shortcuts, "_make_case", counted)
    for key in rotating([t.key() for t in index.load_tasks(domain)], DOMAINS[domain]):
        task = upstream.read_task(tau2, domain, key.task_id)
        for seed in range(2):
            environment, _ = upstream.build_environment(tau2, domain, task)
            simulation = conversation(tau2, environment, task, random.Random(f"{key} {seed}"))
            ours = comes_to(tau2, domain, task, simulation, environment)
            # What differs is told of records that were looked at, and is the same.
            with stock_ways():
                replayed, _ = upstream.build_environment(tau2, domain, task)
                evaluate._replay(replayed, task, simulation.messages)
                monkeypatch.setattr(shortcuts, "_differing", ["tried without"])
                stock = comes_to(tau2, domain, task, simulation, replayed)
                monkeypatch.setattr(shortcuts, "_differing", [])
            # Not left to pytest's explanations: environments are long.
            assert repr(ours) == repr(stock), (key, seed)
            assert environment.get_db_hash() == replayed.get_db_hash(), (key, seed)
            assert environment.get_user_db_hash() == replayed.get_user_db_hash(), (key, seed)
    # Two tasks of mock begin with a history that was written by hand.
    assert sum(taken) >= 0.75 * len(taken) > 0


def test_an_environment_that_answered_something_else_is_replayed() -> None:
    tau2 = upstream.load()
    task = upstream.read_task(tau2, "mock", "create_task_1")
    environment, _ = upstream.build_environment(tau2, "mock", task)
    simulation = conversation(tau2, environment, task, random.Random(1))
    assert shortcuts._make_case("mock", task, simulation.messages, environment) is not None
    # Somebody used it behind the conversation's back.
    call = tau2.messages.ToolCall(id="y", name="get_users", arguments={}, requestor="assistant")
    environment.get_response(call)
    assert shortcuts._make_case("mock", task, simulation.messages, environment) is None


def test_a_conversation_that_heard_a_number_drawn_at_random_is_replayed() -> None:
    tau2 = upstream.load()
    task = upstream.read_task(tau2, "telecom", index.load_tasks("telecom")[0].task_id)
    environment, _ = upstream.build_environment(tau2, "telecom", task)
    chance = random.Random(2)
    simulation = conversation(tau2, environment, task, chance)
    simulation.messages.clear()
    getattr(environment, shortcuts._ANSWERS).clear()
    calls = [
        ("refuel_data", {"customer_id": "C1002", "line_id": "L1004", "gb_amount": 2.0}),
        ("get_customer_by_id", {"customer_id": "C1002"}),
    ]
    for number, (name, arguments) in enumerate(calls):
        # Only the second one tells what the bill is called.
        assert (shortcuts._make_case("telecom", task, simulation.messages, environment) is not None) is (number < 2)
        typed = tau2.messages.ToolCall(id=f"c{number}", name=name, arguments=arguments, requestor="assistant")
        said = tau2.messages.AssistantMessage(role="assistant", content=None, tool_calls=[typed], cost=0.0)
        simulation.messages += [said, environment.get_response(typed)]
    assert shortcuts._DRAWN.search(simulation.messages[-1].content), simulation.messages[-1]
    assert shortcuts._make_case("telecom", task, simulation.messages, environment) is None
    # Upstream's replay draws another number, and takes it for another answer.
    assert "raised ValueError" in comes_to(tau2, "telecom", task, simulation, environment)


def test_a_file_that_was_touched_meanwhile_costs_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    tau2 = upstream.load()
    task = upstream.read_task(tau2, "mock", "create_task_1")
    monkeypatch.setattr(shortcuts, "_golds", {})
    environment, _ = upstream.build_environment(tau2, "mock", task)
    simulation = conversation(tau2, environment, task, random.Random(1))
    tables._parse.cache_clear()
    assert evaluate.evaluate(tau2, "mock", task, simulation, environment, {}).value == 1.0


def test_tools_are_made_once_and_are_what_tau2_makes() -> None:
    tau2 = upstream.load()
    for domain in DOMAINS:
        first, second = (tau2.registry.get_env_constructor(domain)() for _ in range(2))
        with stock_ways():
            stock = {tool.name: tool for tool in first.get_tools()}
        for tool, other in zip(first.get_tools(), second.get_tools(), strict=True):
            assert tool.openai_schema == stock[tool.name].openai_schema
            assert str(tool) == str(stock[tool.name])
            assert tool.params is other.params
            assert tool._func.__self__ is first.tools
            assert other._func.__self__ is second.tools


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("import os; os.environ[shortcuts.VARIABLE] = '1'", f"{shortcuts.VARIABLE} is set"),
        (
            "shortcuts._KNOWN['tau2.utils.utils:get_dict_hash'] = set()",
            "this tau2 has another tau2.utils.utils:get_dict_hash",
        ),
    ],
)
def test_another_tau2_goes_its_own_way_and_says_so(before: str, why: str) -> None:
    script = f"""
from pytest_a2a_bench.benchmarks.tau2 import index, shortcuts, upstream
{before}
tau2 = upstream.load()
environment, _ = upstream.build_environment(tau2, "mock", None)
assert type(environment).__module__ == "tau2.environment.environment"
assert "_a2a_bench_origin" not in vars(environment.tools.db)
print(shortcuts.why_stock())
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == f"{why}\n", done.stderr


def test_a_trajectory_is_copied_as_tau2_copies_it() -> None:
    tau2 = upstream.load()
    task = upstream.read_task(tau2, "retail", "0")
    environment, _ = upstream.build_environment(tau2, "retail", task)
    messages = conversation(tau2, environment, task, random.Random(3)).messages
    spent = tau2.messages.AssistantMessage(
        role="assistant", content="Hi", cost=0.1, usage={"prompt_tokens": 1}, raw_data={"choices": [{"index": 0}]}
    )
    spent.timestamp = messages[0].timestamp
    orchestrator = object.__new__(tau2.orchestrator_class)
    orchestrator.trajectory = [*reversed(messages), spent]
    before = [m.model_dump() for m in orchestrator.trajectory]

    ours = orchestrator.get_trajectory()
    stock = tau2.orchestrator_class.get_trajectory.__wrapped__(orchestrator)

    assert len(ours) == len(before) > 2
    assert [type(m) for m in ours] == [type(m) for m in stock]
    assert [m.model_dump() for m in ours] == [m.model_dump() for m in stock]
    assert [m.model_fields_set for m in ours] == [m.model_fields_set for m in stock]
    for message in ours:
        if calls := getattr(message, "tool_calls", None):
            calls[0].arguments["changed"] = True
        if raw := getattr(message, "raw_data", None):
            raw["choices"][0]["index"] = 1
    assert [m.model_dump() for m in orchestrator.trajectory] == before
