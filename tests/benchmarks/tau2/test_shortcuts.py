"""Upstream's evaluator comes to the same with the shortcuts as without them, whatever an agent and a user did.

Both ways are taken in one process, over conversations of random calls, so that many can be tried.
"""

import contextlib
import gc
import importlib
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from examples import rotating
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.tau2 import evaluate, index, shortcuts, upstream
from pytest_a2a_bench.benchmarks.tau2.agent import REFUSED, defuse, is_small
from pytest_a2a_bench.benchmarks.tau2.upstream import paused_collector
from pytest_a2a_bench.errors import EvaluatorError
from pytest_a2a_bench.model import ToolCall

DOMAINS = {"airline": 25, "retail": 30, "telecom": 15, "mock": 1}
"""In how many parts the tasks of a domain are tried."""


def run(script: str) -> str:
    """Return what a script prints in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


JUNK: tuple[Any, ...] = ("", "#", "ü🙂", -1, 2**40, 1e300, True, None, [], {}, [[{"a": None}]])


@contextlib.contextmanager
def stock_ways() -> Iterator[None]:
    """Let databases be parsed and compared, and tools be made, as they are in tau2."""
    database = importlib.import_module("tau2.environment.db").DB
    toolkit: Any = importlib.import_module("tau2.environment.toolkit")
    kit = toolkit.ToolKitBase
    ours = vars(database)["load"], toolkit.as_tool, kit.get_db_hash
    database.load = classmethod(ours[0].__func__.__wrapped__)
    toolkit.as_tool, kit.get_db_hash = ours[1].__wrapped__, ours[2].__wrapped__
    try:
        yield
    finally:
        database.load, toolkit.as_tool, kit.get_db_hash = ours


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
        if whole:
            call = ToolCall(actions[number].name, actions[number].arguments, "")
        else:
            call = defuse(any_call(sorted(kit.get_tools()), gold, chance))
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


def any_call(names: list[str], gold: list[ToolCall], chance: random.Random) -> ToolCall:
    """Return a call of a gold, as it is or with an argument that is missing or wrong, or one of any tool."""
    if not gold or chance.random() < 0.3:
        return ToolCall(chance.choice(names), dict(chance.choice(gold).arguments) if gold else {}, "")
    call = chance.choice(gold)
    arguments = dict(call.arguments)
    if arguments and chance.random() < 0.4:
        name = chance.choice(sorted(arguments))
        arguments[name] = chance.choice((*JUNK, *arguments.values()))
        if arguments[name] is None:
            del arguments[name]
    return ToolCall(call.name, arguments, "")


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
    compared: list[bool] = []
    describe = shortcuts.describe_state

    def counted(database: Any) -> Any:
        compared.append((described := describe(database)) is not None)
        return described

    monkeypatch.setattr(shortcuts, "describe_state", counted)
    for key in rotating([t.key() for t in index.load_tasks(domain)], DOMAINS[domain]):
        task = upstream.read_task(tau2, domain, key.task_id)
        for seed in range(2):
            environment, _ = upstream.build_environment(tau2, domain, task)
            simulation = conversation(tau2, environment, task, random.Random(f"{key} {seed}"))
            ours = comes_to(tau2, domain, task, simulation, environment)
            # What differs is described for records that were looked at, and is the same.
            with stock_ways():
                replayed, _ = upstream.build_environment(tau2, domain, task)
                evaluate._replay(replayed, task, simulation.messages)
                stock = comes_to(tau2, domain, task, simulation, replayed)
            # Not left to pytest's explanations: environments are long.
            assert repr(ours) == repr(stock), (key, seed)
            assert environment.get_db_hash() == replayed.get_db_hash(), (key, seed)
            assert environment.get_user_db_hash() == replayed.get_user_db_hash(), (key, seed)
    # Two tasks of mock begin with a database that is put in place of the file's.
    assert sum(compared) >= 0.75 * len(compared) > 0


def test_a_file_that_was_touched_meanwhile_costs_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    tau2 = upstream.load()
    task = upstream.read_task(tau2, "mock", "create_task_1")
    environment, _ = upstream.build_environment(tau2, "mock", task)
    simulation = conversation(tau2, environment, task, random.Random(1))
    opened = shortcuts.open_database

    def parsed_again(*args: Any) -> Any:
        shortcuts._parse.cache_clear()
        return opened(*args)

    # Both databases of an evaluation are of origins of their own.
    monkeypatch.setattr(shortcuts, "open_database", parsed_again)
    assert evaluate.evaluate(tau2, "mock", task, simulation, environment, {}).value == 1.0


def test_a_state_and_a_hash_are_compared_by_their_hashes() -> None:
    tau2 = upstream.load()
    one, other, changed = (tau2.registry.get_env_constructor("mock")() for _ in range(3))
    changed.make_tool_call("create_task", requestor="assistant", user_id="user_1", title="x")
    stock = one.get_db_hash()
    with shortcuts.comparing_states():
        states = [environment.get_db_hash() for environment in (one, other, changed)]
    assert type(stock) is str
    assert type(states[0]) is not str
    assert states[0] == states[1] == stock
    assert stock == states[1]
    assert states[2] not in (states[0], stock)
    assert states[2] == changed.get_db_hash()


@pytest.mark.slow
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


@pytest.mark.slow
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
from pytest_a2a_bench.benchmarks.tau2 import shortcuts, upstream
{before}
tau2 = upstream.load()
environment, _ = upstream.build_environment(tau2, "mock", None)
assert type(environment).__module__ == "tau2.environment.environment"
assert "_a2a_bench_origin" not in vars(environment.tools.db)
print(shortcuts.why_stock())
"""
    assert run(script) == f"{why}\n"


# No call of tau2's ``calculate`` holds the process for ever, and none that ends is changed.


@in_one_test(
    "expression",
    ["9**9**9**9", "2**64**64", "((((9**9)**9)**9)**9)**9", "1+(9**9**9)", "9**9**9/9**9**9", "-" * 5000 + "9**9**9"],
)
def test_endless_calculations_are_refused_by_the_tool_itself(expression: str) -> None:
    call = defuse(ToolCall("calculate", {"expression": expression}, "c1"))
    assert (call.arguments, call.id) == ({"expression": REFUSED}, "c1")
    toolkit = upstream.load().registry.get_env_constructor("retail")().tools
    with pytest.raises(ValueError, match="Invalid characters"):
        toolkit.use_tool("calculate", **call.arguments)


@in_one_test(
    "expression",
    ["1 + 1", "2 * (3.5 - 1)", "1000*(1.05)**30", "10**400/10**399", "9**-9", "((9**9)**9)**9", "2**", "**", "(" * 500],
)
def test_others_stay_as_they_are(expression: str) -> None:
    call = ToolCall("calculate", {"expression": expression})
    assert defuse(call) is call
    assert is_small(expression)


def test_other_tools_and_other_arguments_are_not_looked_at() -> None:
    for call in (
        ToolCall("think", {"expression": "9**9**9**9"}),
        ToolCall("calculate", {"expression": ["9**9**9**9"]}),
        ToolCall("calculate", {}),
    ):
        assert defuse(call) is call


def test_the_garbage_collector_is_off_inside_and_as_it_was_outside() -> None:
    with contextlib.suppress(ValueError), paused_collector():
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()
    gc.disable()
    try:
        with paused_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


# LiteLLM is imported when a model is called, and then is set up as tau2 set it up; pandas when tau2 makes a table.


DEFERRED = """
import builtins, sys
before = builtins.__import__
from pytest_a2a_bench.benchmarks.tau2 import upstream
upstream.load()
assert builtins.__import__ is before
assert "tau2.utils.llm_utils" in sys.modules
assert not {"litellm", "pandas", "numpy", "deepdiff"} & {m.partition(".")[0] for m in sys.modules}
print("loaded without them")
from tau2.utils import llm_utils, utils
assert "a" in str(utils.show_dict_diff({"a": 1}, {"a": 2}))
import deepdiff
assert type(utils.show_dict_diff({}, {})) is deepdiff.DeepDiff
assert deepdiff.__file__.endswith("__init__.py")
from tau2.data_model import simulation
import pandas
assert simulation.pd.DataFrame is pandas.DataFrame
print("tables are the real ones")
assert "litellm" not in sys.modules
try:
    llm_utils.completion(model="no-such-provider/x", messages=[{"role": "user", "content": "x"}])
except Exception as exc:
    assert "litellm" in type(exc).__module__, type(exc)
else:
    raise AssertionError("no error")
import litellm
assert litellm.__file__.endswith("__init__.py")
assert litellm.drop_params is True
assert llm_utils.litellm.drop_params is True
llm_utils.litellm.drop_params = False
assert litellm.drop_params is False
print("settings replayed")
"""
IMPORTED_BEFORE = """
import litellm
from pytest_a2a_bench.benchmarks.tau2 import upstream
upstream.load()
from tau2.utils import llm_utils
assert llm_utils.litellm is litellm
assert llm_utils.completion is litellm.completion
"""


@pytest.mark.slow
def test_what_is_heavy_is_imported_when_tau2_uses_it_and_an_imported_litellm_is_left_alone() -> None:
    said = run(DEFERRED).split("\n")
    assert [said[0], *said[-3:]] == ["loaded without them", "tables are the real ones", "settings replayed", ""], said
    run(IMPORTED_BEFORE)
