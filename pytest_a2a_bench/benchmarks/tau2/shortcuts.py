"""Shorter ways to what tau2's own environments and evaluator come to.

- A database file is parsed once per process (:mod:`.tables`), and a tool's schema is made once per function.
- Upstream's evaluator replays a conversation in a new environment. The environment in which it was held is where that
  leads, as long as it answered exactly what the conversation says; so it is what the evaluator is given.
- What a gold leads to is computed once per process.

The evaluator itself stays upstream's: it is only handed other environments. Every shortcut relies on a few functions of
tau2's being what we know; where one is not, tau2's own way is gone, and the results say so. Our tests
compare what comes of it with a tau2 that has nothing of ours.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib
import inspect
import json
import os
import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pytest_a2a_bench.benchmarks.tau2 import tables

T = TypeVar("T")

VARIABLE: Final = "A2A_BENCH_TAU2_STOCK"
"""Set to anything, this environment variable switches all shortcuts off."""

_KNOWN: Final = {
    "tau2.environment.db:DB.load": {"59ec9da2362ccaaf"},
    "tau2.environment.toolkit:ToolKitBase.get_db_hash": {"f667fe085dcb0c33"},
    "tau2.environment.toolkit:ToolKitBase.get_tools": {"90182878a440fdc4"},
    "tau2.environment.toolkit:ToolKitBase.update_db": {"75f3cc8ad7a17c20"},
    "tau2.environment.tool:as_tool": {"781e7084209e834f"},
    "tau2.environment.tool:Tool.__init__": {"e7251f8a888381e5"},
    "tau2.environment.tool:Tool._call": {"58317f53f31d67b5"},
    "tau2.environment.environment:Environment.get_db_hash": {"ce0b2a0d71bce3ee"},
    "tau2.environment.environment:Environment.get_user_db_hash": {"30929ca05a1a4eed"},
    "tau2.environment.environment:Environment.get_response": {"482bd73cb1f669a9"},
    "tau2.environment.environment:Environment.set_state": {"6a2e18bd27e88c28"},
    "tau2.evaluator.evaluator_env:EnvironmentEvaluator.calculate_reward": {"4ce3f7b1d51ba2f0"},
    "tau2.evaluator.evaluator:evaluate_simulation": {"cb9dea8893861a24"},
    "tau2.utils.utils:get_dict_hash": {"5e1571bdc5944079"},
}
"""What the shortcuts rely on, and the hashes of the sources that they were written for."""

_READERS: Final = {
    "tau2.domains.airline.tools:AirlineTools._search_direct_flight": {"0dbc9aa93c62546c"},
    "tau2.domains.retail.tools:RetailTools.find_user_id_by_email": {"101f4db3a89e2e29"},
    "tau2.domains.retail.tools:RetailTools.find_user_id_by_name_zip": {"a64f52ce7d521927"},
}
"""What looks at every record of a table, changes none and returns none; of another source it is only slower."""

_TRAJECTORY: Final = "tau2.orchestrator.orchestrator:Orchestrator.get_trajectory", {"e930d398b5c9f2a9"}
"""It copies each message twice, with ``copy.deepcopy``; of another source it is only slower, too."""

_INSTALLED: Final = "_a2a_bench_shortcuts"
_differing: list[str] = []


def install(registry: Any) -> None:
    """Let environments, tools and the evaluator take the shortcuts, if this tau2 is one that they were written for.

    Does nothing the second time.
    """
    database = importlib.import_module("tau2.environment.db").DB
    if getattr(database.load, _INSTALLED, False):
        return
    if os.environ.get(VARIABLE):
        _differing.append(f"{VARIABLE} is set")
        return
    unknown = [name for name, known in _KNOWN.items() if _hash_of(name) not in known]
    if unknown:
        _differing.append(f"this tau2 has another {', '.join(unknown)}")
    if _differing:
        return
    load = database.load.__func__

    @functools.wraps(load)
    def open_database(kind: Any, path: Any) -> Any:
        return tables.open_database(load, kind, path)

    setattr(open_database, _INSTALLED, True)
    database.load = classmethod(open_database)
    for name, known in _READERS.items():
        if _hash_of(name) in known:
            module, _, path = name.partition(":")
            owner, _, method = path.partition(".")
            kit = getattr(importlib.import_module(module), owner)
            setattr(kit, method, tables.only_reading(vars(kit)[method]))
    if _hash_of(_TRAJECTORY[0]) in _TRAJECTORY[1]:
        orchestrator: Any = importlib.import_module("tau2.orchestrator.orchestrator").Orchestrator
        orchestrator.get_trajectory = functools.wraps(orchestrator.get_trajectory)(_get_trajectory)
    toolkit: Any = importlib.import_module("tau2.environment.toolkit")
    toolkit.as_tool = _once_per_function(toolkit.as_tool)
    find = registry.get_env_constructor

    @functools.wraps(find)
    def get_env_constructor(*args: Any, **kwargs: Any) -> Callable[..., Any]:
        construct, case = find(*args, **kwargs), _case.get()
        return construct if case is None else lambda **more: _StandIn(case, functools.partial(construct, **more))

    registry.get_env_constructor = get_env_constructor


def why_stock() -> str:
    """Say why environments and evaluation are tau2's own in this process; empty where shortcuts are taken."""
    return "; ".join(_differing)


def _hash_of(name: str) -> str:
    module, _, path = name.partition(":")
    try:
        function = functools.reduce(getattr, path.split("."), importlib.import_module(module))
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]
    except (AttributeError, ImportError, OSError, TypeError):
        return "none"


def _get_trajectory(orchestrator: Any) -> list[Any]:
    """Return copies of an orchestrator's messages in the order of their time, numbered."""
    messages = [tables.copy_of(m) for m in sorted(orchestrator.trajectory, key=lambda m: m.timestamp)]
    for number, message in enumerate(messages):
        message.turn_idx = number
    return messages


# --- tools ------------------------------------------------------------------------------------------------------------


def _once_per_function(as_tool: Callable[..., Any]) -> Callable[..., Any]:
    made: dict[Any, Any] = {}

    @functools.wraps(as_tool)
    def as_known_tool(func: Any, **kwargs: Any) -> Any:
        function = getattr(func, "__func__", None)
        if kwargs or function is None:
            return as_tool(func, **kwargs)
        if function not in made:
            # Of a method of no instance, so that it keeps no environment.
            made[function] = as_tool(function.__get__(_NOBODY))
        tool = copy.copy(made[function])
        # It is no field; pydantic does the same after a search that takes longer than the copy.
        _set(tool, "_func", func)
        return tool

    return as_known_tool


_NOBODY: Final = object()
_set: Final = object.__setattr__


# --- evaluation -------------------------------------------------------------------------------------------------------

_ANSWERS: Final = "_a2a_bench_answers"
_ORIGINS: Final = "_a2a_bench_origins"
_DRAWN: Final = re.compile(r"\bB[0-9a-f]{8}\b")
"""The numbers of telecom's new bills, which are drawn at random; no bill of its data is called so."""


def _origins_of(environment: Any) -> tuple[Any, ...]:
    kits = (environment.tools, environment.user_tools)
    return tuple(tables.origin_of(kit.db) if kit is not None else None for kit in kits)


def follow(environment: Any) -> None:
    """Remember what a new environment answers from now on."""
    if _differing:
        return
    setattr(environment, _ORIGINS, _origins_of(environment))
    setattr(environment, _ANSWERS, [])
    # Not an attribute of its own: that would be a circle, and keep it until somebody collects garbage.
    kind: Any = type(environment)
    environment.__class__ = _following(kind)


@functools.cache
def _following(kind: type[Any]) -> type[Any]:
    def get_response(self: Any, message: Any) -> Any:
        answer = kind.get_response(self, message)
        getattr(self, _ANSWERS).append(answer)
        return answer

    return type(kind.__name__, (kind,), {"get_response": get_response, "__module__": kind.__module__})


class _NotComparableError(Exception):
    """The states of two environments are not told in the same way."""


@dataclass(frozen=True, slots=True)
class _Case:
    """One evaluation.

    :param live: the environment of the conversation.
    :param messages: the conversation, by its identity.
    :param states: what was done to the databases of ``live``.
    :param gold: the name of the gold among those that are known.
    """

    live: Any
    messages: Any
    states: tuple[str | None, str | None]
    gold: str


_case: ContextVar[_Case | None] = ContextVar("tau2_case", default=None)


def evaluating(evaluate: Callable[[], T], domain: str, task: Any, messages: Any, live: Any) -> T:
    """Call upstream's evaluator, with environments that need no replay where there are any.

    :param messages: what the evaluator is given as the conversation.
    :param live: the environment in which it was held.
    """
    case = None if _differing else _make_case(domain, task, messages, live)
    if case is None:
        return evaluate()
    token = _case.set(case)
    try:
        return evaluate()
    except _NotComparableError:
        pass
    finally:
        _case.reset(token)
    return evaluate()


def _make_case(domain: str, task: Any, messages: Any, live: Any) -> _Case | None:
    origins = getattr(live, _ORIGINS, None)
    if origins is None or not _has_answered(live, messages) or not any(origins):
        return None
    kits = [kit for kit in (live.tools, live.user_tools) if kit is not None]
    if any(kit.db is None for kit in kits):
        return None
    kinds: set[Any] = {type(kit) for kit in kits}
    base = importlib.import_module("tau2.environment.toolkit").ToolKitBase
    own = importlib.import_module("tau2.environment.environment").Environment
    if any(kind.get_db_hash is not base.get_db_hash or kind.update_db is not base.update_db for kind in kinds):
        return None
    if any(getattr(type(live), name) is not getattr(own, name) for name in ("set_state", "get_db_hash")):
        return None
    gold = [domain, *(origin and origin.number for origin in origins), _json(task.initial_state)]
    gold += [_json(action) for action in task.evaluation_criteria.actions or ()] if task.evaluation_criteria else []
    return _Case(live, messages, _states_of(live), hashlib.sha256(json.dumps(gold).encode()).hexdigest())


def _json(model: Any) -> str:
    return model.model_dump_json() if model is not None else ""


def _has_answered(live: Any, messages: Sequence[Any]) -> bool:
    """Tell whether the calls in a conversation, and no others, were answered by an environment as it is recorded."""
    answers = iter(getattr(live, _ANSWERS))
    waiting = iter(messages)
    for message in waiting:
        if message.role == "tool":
            return False
        for call in message.tool_calls or ():
            recorded, answer = next(waiting, None), next(answers, None)
            if recorded is None or answer is None or recorded.role != "tool":
                return False
            if not call.id == recorded.id == answer.id or recorded.content != answer.content:
                return False
            # Not equal to itself, so that upstream's evaluator takes it for another answer.
            if "NaN" in (answer.content or ""):
                return False
            # Another number in a replay, which upstream's evaluator takes for another answer, too.
            if _DRAWN.search(answer.content or ""):
                return False
    return next(answers, None) is None


def _states_of(environment: Any) -> tuple[str | None, str | None]:
    return _state_of(environment.tools), _state_of(environment.user_tools)


def _state_of(toolkit: Any) -> str | None:
    """Return what is the same for two toolkits of one domain exactly if their ``get_db_hash`` is."""
    if toolkit is None:
        return None
    told = tables.describe_state(toolkit.db)
    if told is None:
        return f"stock {toolkit.get_db_hash()}"
    return hashlib.sha256(told.encode()).hexdigest()


_golds: dict[str, tuple[str | None, str | None]] = {}


class _StandIn:
    """What the evaluator takes for an environment: the one of the conversation, or the gold's."""

    def __init__(self, case: _Case, construct: Callable[[], Any]) -> None:
        self._case = case
        self._construct = construct
        self._is_live = False
        self._gold: Any = None

    def set_state(
        self, initialization_data: Any, initialization_actions: Any, message_history: Any, **more: Any
    ) -> None:
        if message_history is self._case.messages:
            self._is_live = True
        elif self._case.gold not in _golds:
            self._gold = self._construct()
            # A file that was touched meanwhile is parsed again, and nothing tells equal states of the two copies.
            if _origins_of(self._gold) != getattr(self._case.live, _ORIGINS):
                raise _NotComparableError
            self._gold.set_state(initialization_data, initialization_actions, message_history, **more)

    def make_tool_call(self, *args: Any, **kwargs: Any) -> Any:
        return None if self._gold is None else self._gold.make_tool_call(*args, **kwargs)

    def run_env_assertion(self, *args: Any, **kwargs: Any) -> Any:
        return self._case.live.run_env_assertion(*args, **kwargs)

    def get_db_hash(self) -> str | None:
        return self._states()[0]

    def get_user_db_hash(self) -> str | None:
        return self._states()[1]

    def _states(self) -> tuple[str | None, str | None]:
        if self._is_live:
            return self._case.states
        gold = _golds.get(self._case.gold)
        if gold is None:
            gold = _states_of(self._gold)
            _golds[self._case.gold] = gold
        for one, other in zip(gold, self._case.states, strict=True):
            if (one or "").startswith("stock ") is not (other or "").startswith("stock "):
                raise _NotComparableError
        return gold
