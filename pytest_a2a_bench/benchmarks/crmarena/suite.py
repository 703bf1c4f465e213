"""What collection knows about CRMArena: its domains, and the ids of their tasks. Nothing is built or opened for it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_a2a_bench.benchmarks.crmarena import DOMAINS, MINI, notes
from pytest_a2a_bench.benchmarks.crmarena.options import OPTIONS, CrmOptions, check_options
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES
from pytest_a2a_bench.benchmarks.suite import INTERACTIVE, Suite
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.settings import Settings

if TYPE_CHECKING:
    from pytest_a2a_bench.model import BenchTask

NAME = "crmarena"
SPLIT = "base"


def bind(settings: Settings) -> Suite:
    """Return the suite over the tasks that the options name."""
    single_turn = tuple(domain for domain in DOMAINS if domain not in MINI and not domain.endswith(INTERACTIVE))
    return dataclasses.replace(
        SUITE,
        available=functools.partial(_available, settings),
        load_tasks=functools.partial(_load_tasks, settings),
        describe=functools.partial(_describe_tasks, settings),
        offered=single_turn if CrmOptions.of(settings).data else ("mini",),
        why_absent=functools.partial(_why_absent, settings),
    )


def _available(settings: Settings) -> tuple[str, ...]:
    if not CrmOptions.of(settings).data:
        return MINI
    from pytest_a2a_bench.benchmarks.crmarena import sources

    return (*MINI, *sources.available_domains(settings))


def _load_tasks(settings: Settings, domain: str, split: str = SPLIT) -> list[BenchTask]:
    if split != SPLIT:
        raise ConfigurationError(f"crmarena domain {domain!r} has no split {split!r}; it has: {SPLIT}")
    from pytest_a2a_bench.model import BenchTask

    return [BenchTask(NAME, domain, task_id, (SPLIT,), (), category) for task_id, category in _tasks(settings, domain)]


def _tasks(settings: Settings, domain: str) -> tuple[tuple[str, str], ...]:
    if domain in MINI:
        from pytest_a2a_bench.benchmarks.crmarena.mini import read_tasks

        return tuple((task.task_id, task.category) for task in read_tasks().tasks)
    if not CrmOptions.of(settings).data:
        raise ConfigurationError(f"the domain {domain!r} {_why_absent(settings, domain)}")
    from pytest_a2a_bench.benchmarks.crmarena import sources

    return sources.task_ids(domain, settings)


def _describe_tasks(settings: Settings, domain: str) -> Mapping[str, str]:
    from pytest_a2a_bench.benchmarks.crmarena.domains import open_source

    return {task.task_id: f"{task.category}: {task.query}" for task in open_source(domain, settings).tasks()}


def _why_absent(settings: Settings, domain: str) -> str:
    if not CrmOptions.of(settings).data:
        return (
            "is data of CRMArena's, which is not ours to ship; download it and pass --a2a-crm-data DIR (or hub); "
            f"without it there are: {', '.join(MINI)}"
        )
    from pytest_a2a_bench.benchmarks.crmarena import sources

    try:
        sources.task_ids(domain, settings)
    except ConfigurationError as error:
        return f"is not there: {error}"
    return f"is not in {CrmOptions.of(settings).data}"


def _preconditions(domains: Sequence[str], settings: Settings, environ: Mapping[str, str]) -> Iterable[str]:
    from pytest_a2a_bench.benchmarks.crmarena import preconditions

    return preconditions.find_problems(domains, settings, environ)


def _examine(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    from pytest_a2a_bench.benchmarks.crmarena import preconditions

    return preconditions.examine(environ)


SUITE = Suite(
    name=NAME,
    domains=DOMAINS,
    available=lambda: MINI,
    splits=lambda domain: (SPLIT,),
    load_tasks=functools.partial(_load_tasks, Settings()),
    describe=functools.partial(_describe_tasks, Settings()),
    modules={domain: f"pytest_a2a_bench.suites.test_crmarena_{domain}" for domain in DOMAINS},
    categories=tuple(CATEGORIES),
    node_prefix=f"{NAME}_",
    offered=("mini",),
    bind=bind,
    benchmark="pytest_a2a_bench.benchmarks.crmarena.benchmark",
    options=OPTIONS,
    check_options=check_options,
    preconditions=_preconditions,
    variant=notes.variant_of,
    asked_by=notes.describe_asker,
    changes=notes.describe_changes,
    method=notes.describe_method,
    notes=notes.describe_results,
    reported=("scoring", "extractor", "aided", "drift", "rot"),
    counts=("queries", "query_errors", "rows_read"),
    check_titles=dict.fromkeys(("exact_match", "fuzzy_match", "privacy_rejection"), "the answer:"),
    player="pytest_a2a_bench.benchmarks.crmarena.player",
    diagnoser="pytest_a2a_bench.benchmarks.crmarena.diagnosis",
    gold_options=("crm_data",),
    extras={
        "pytest-a2a-bench[crmarena]": ("scores of CRMArena's free texts", ("sacrebleu", "rouge_score")),
        "pytest-a2a-bench[hub]": ("CRMArena from the Hugging Face hub", ("datasets", "huggingface_hub", "pyarrow")),
        "pytest-a2a-bench[salesforce]": ("CRMArena in a live org", ("simple_salesforce", "requests")),
    },
    examine=_examine,
)
