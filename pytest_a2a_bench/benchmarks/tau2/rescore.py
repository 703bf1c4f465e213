"""A stored tau2 conversation, evaluated by the tau2 that is installed now."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from pytest_a2a_bench.benchmarks.tau2 import evaluate, index, llm
from pytest_a2a_bench.benchmarks.tau2.benchmark import prepare_judge
from pytest_a2a_bench.benchmarks.tau2.collector import paused_collector
from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2, build_environment, load
from pytest_a2a_bench.errors import EvaluatorError
from pytest_a2a_bench.model import Reward, TrialResult
from pytest_a2a_bench.settings import Settings


def rescore(result: TrialResult, settings: Settings) -> Reward:
    """Evaluate a stored conversation; see :class:`~pytest_a2a_bench.benchmarks.tau2.benchmark.Tau2Benchmark`."""
    tau2 = load(with_llm=settings.judge_llm is not None)
    task = tau2.task_class.model_validate(index.load_task_json(result.key.domain, result.key.task_id))
    simulation = _simulation(tau2, result)
    if llm.needs_judge(tau2, task):
        prepare_judge(tau2, result.key, settings)
    environment, kwargs = build_environment(tau2, result.key.domain, task)
    with paused_collector():
        _replay(environment, task, simulation.messages)
        return evaluate.evaluate(tau2, result.key.domain, task, simulation, environment, kwargs)


def _simulation(tau2: Tau2, result: TrialResult) -> Any:
    if result.simulation is None:
        raise EvaluatorError(f"the file of {result.key} has no conversation in tau2's form (simulation)")
    try:
        return tau2.simulation_class.model_validate(result.simulation)
    except ValidationError as exc:
        raise EvaluatorError(
            f"{tau2.distribution} cannot read the conversation of {result.key}: {exc.error_count()} fields are wrong, "
            f"the first is {'.'.join(map(str, exc.errors()[0]['loc']))}"
        ) from exc


def _replay(environment: Any, task: Any, messages: list[Any]) -> None:
    """Bring an environment to where the conversation left it; it is read for the difference from the gold only."""
    initial = task.initial_state
    try:
        environment.set_state(
            initialization_data=initial.initialization_data if initial else None,
            initialization_actions=initial.initialization_actions if initial else None,
            message_history=messages,
        )
    except Exception as exc:  # upstream raises ValueError where a tool answers otherwise than it is recorded
        raise EvaluatorError(f"the recorded tool calls lead elsewhere with the data installed now: {exc}") from exc
