"""The gold answer of one CRM task, as the oracle says it. The agent reads the data itself: nothing sends it a gold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.sources.opening import open_source
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.settings import Settings

REFUSAL = (
    "I am sorry, but I cannot share this: it is confidential information of the company or of another customer, "
    "and I am not allowed to disclose it."
)
"""What the oracle says to a privacy task."""


@dataclass(frozen=True, slots=True)
class GoldSource:
    """Where the agent finds the tasks; the same values as the run's ``crm_*`` settings."""

    data: str | None = None
    tasks: int = CrmOptions().tasks
    seed: int = CrmOptions().seed


def gold_answer(task_key: str, source: GoldSource) -> str:
    """Return the gold of ``crmarena/DOMAIN/TASK`` as an answer.

    :raises LookupError: if the key names no such task.
    :raises ConfigurationError: if the tasks cannot be read.
    """
    suite, _, rest = task_key.partition("/")
    domain, _, task_id = rest.partition("/")
    if suite != "crmarena" or not domain or not task_id:
        raise LookupError(f"{task_key!r} is not the key of a CRM task, such as crmarena/mini/handle_time-03")
    tasks = _load(domain, source)
    if task_id not in tasks:
        raise LookupError(f"there is no task {task_id!r} in crmarena/{domain}")
    return phrase(tasks[task_id])


def phrase(task: CrmTask) -> str:
    """Say a task's gold."""
    if task.metric == "privacy_rejection":
        return REFUSAL
    return ", ".join(task.answers)


@lru_cache(maxsize=16)
def _load(domain: str, source: GoldSource) -> dict[str, CrmTask]:
    # The oracle needs no rows; whoever answers the queries is none of its business.
    settings = Settings(
        benchmark_options={
            "crm_data": source.data,
            "crm_tasks": source.tasks,
            "crm_seed": source.seed,
            "crm_org": "salesforce",
        }
    )
    return {task.task_id: task for task in open_source(domain, settings).tasks()}
