"""What collection knows about CRMArena: its domains, and the ids of their tasks. Nothing is built or opened for it."""

from __future__ import annotations

import dataclasses
import functools

from pytest_a2a_bench.benchmarks.registry import CRM_CATEGORIES, INTERACTIVE, Suite
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import BenchTask
from pytest_a2a_bench.settings import CRM_DOMAINS, Settings

NAME = "crmarena"
SPLIT = "base"
MINI = ("mini", "mini" + INTERACTIVE)


def bind(settings: Settings) -> Suite:
    """Return the suite over the tasks that the options name."""
    single_turn = tuple(domain for domain in CRM_DOMAINS if domain not in MINI and not domain.endswith(INTERACTIVE))
    return dataclasses.replace(
        SUITE,
        available=functools.partial(_available, settings),
        load_tasks=functools.partial(_load_tasks, settings),
        offered=single_turn if settings.crm_data else ("mini",),
        why_absent=functools.partial(_why_absent, settings),
    )


def _available(settings: Settings) -> tuple[str, ...]:
    if not settings.crm_data:
        return MINI
    from pytest_a2a_bench.benchmarks.crmarena import sources

    return (*MINI, *sources.available_domains(settings))


def _load_tasks(settings: Settings, domain: str, split: str = SPLIT) -> list[BenchTask]:
    if split != SPLIT:
        raise ConfigurationError(f"crmarena domain {domain!r} has no split {split!r}; it has: {SPLIT}")
    return [BenchTask(NAME, domain, task_id, (SPLIT,), (), category) for task_id, category in _tasks(settings, domain)]


def _tasks(settings: Settings, domain: str) -> tuple[tuple[str, str], ...]:
    if domain in MINI:  # the source itself would import what builds the org
        from pytest_a2a_bench.benchmarks.crmarena.mini.ids import task_ids

        return tuple((task_id, task_id.rpartition("-")[0]) for task_id in task_ids(settings.crm_tasks))
    if not settings.crm_data:
        raise ConfigurationError(f"the domain {domain!r} {_why_absent(settings, domain)}")
    from pytest_a2a_bench.benchmarks.crmarena import sources

    return sources.task_ids(domain, settings)


def _why_absent(settings: Settings, domain: str) -> str:
    if not settings.crm_data:
        return (
            "is data of CRMArena's, which is not ours to ship; download it and pass --a2a-crm-data DIR (or hub); "
            f"without it there are: {', '.join(MINI)}"
        )
    from pytest_a2a_bench.benchmarks.crmarena import sources

    try:
        sources.task_ids(domain, settings)
    except ConfigurationError as error:
        return f"is not there: {error}"
    return f"is not in {settings.crm_data}"


SUITE = Suite(
    name=NAME,
    domains=CRM_DOMAINS,
    available=lambda: MINI,
    splits=lambda domain: (SPLIT,),
    load_tasks=functools.partial(_load_tasks, Settings()),
    modules={domain: f"pytest_a2a_bench.suites.test_crmarena_{domain}" for domain in CRM_DOMAINS},
    categories=CRM_CATEGORIES,
    node_prefix=f"{NAME}_",
    offered=("mini",),
    bind=bind,
)
