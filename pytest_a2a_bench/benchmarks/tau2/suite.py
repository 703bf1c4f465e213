"""tau2 as collection and options know it; its tasks are read from tau2's data files when they are asked for."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.benchmarks.registry import Suite, stored_variant
from pytest_a2a_bench.benchmarks.tau2 import DOMAINS
from pytest_a2a_bench.benchmarks.tau2.options import DATA, INSTALLED, RETRIEVAL, TRANSFER_TOOL, Tau2Settings
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, MissingExtraError

if TYPE_CHECKING:
    from pytest_a2a_bench.model import BenchTask, TrialResult


# The functions below import on demand: this module is loaded in every pytest run that has this plugin installed.


def bind(settings: Settings) -> Suite:
    """Return the suite over the data that the option names."""
    return dataclasses.replace(
        SUITE,
        available=functools.partial(_available, settings),
        splits=functools.partial(_splits, settings),
        load_tasks=functools.partial(_load_tasks, settings),
        describe=functools.partial(_describe_tasks, settings),
        why_absent=functools.partial(_why_absent, settings),
    )


def _available(settings: Settings) -> tuple[str, ...]:
    from pytest_a2a_bench.benchmarks.tau2 import editions, index

    return index.available_domains(editions.find_edition(settings).data)


def _splits(settings: Settings, domain: str) -> tuple[str, ...]:
    from pytest_a2a_bench.benchmarks.tau2 import editions, index

    return index.splits(domain, editions.find_edition(settings).data)


def _load_tasks(settings: Settings, domain: str, split: str) -> list[BenchTask]:
    from pytest_a2a_bench.benchmarks.tau2 import editions, index

    return index.load_tasks(domain, split, editions.find_edition(settings).data)


def _describe_tasks(settings: Settings, domain: str) -> Mapping[str, str]:
    from pytest_a2a_bench.benchmarks.tau2 import editions, index

    return index.describe_tasks(domain, editions.find_edition(settings).data)


def _why_absent(settings: Settings, domain: str) -> str:
    from pytest_a2a_bench.benchmarks.tau2 import editions

    return editions.why_absent(settings, domain)


def _check_options(settings: Settings) -> Iterator[str]:
    # The installed data are looked for where a domain joins: a run without tau2 needs none.
    if settings.benchmark_options.get(DATA, INSTALLED) == INSTALLED:
        return
    from pytest_a2a_bench.benchmarks.tau2 import editions

    try:
        editions.find_edition(settings)
    except MissingExtraError:  # reported where a domain joins
        return
    except A2ABenchError as error:
        yield str(error)


def _preconditions(domains: Sequence[str], settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    from pytest_a2a_bench.benchmarks.tau2 import editions

    yield from editions.find_problems(domains, settings)
    if settings.benchmark_options.get(RETRIEVAL) is not None:
        from pytest_a2a_bench.benchmarks.tau2 import retrieval

        yield from retrieval.find_problems(domains, settings, environ)


def _describe_changes(settings: Settings) -> str:
    from pytest_a2a_bench.benchmarks.tau2 import notes

    return notes.describe_data(settings)


def _describe_results(results: Sequence[TrialResult]) -> Iterator[str]:
    from pytest_a2a_bench.benchmarks.tau2 import notes, retrieval

    yield from notes.describe_results(results)
    yield from retrieval.describe_results([r.provenance for r in results])


def _remarks(result: TrialResult) -> Iterator[str]:
    from pytest_a2a_bench.benchmarks.tau2 import notes

    yield from notes.remarks(result)


def _examine(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    from pytest_a2a_bench.benchmarks.tau2 import index, retrieval

    try:
        found = index.find_installation()
        counts = ", ".join(f"{domain} {len(index.load_tasks(domain, 'base'))}" for domain in index.available_domains())
    except (A2ABenchError, OSError, ValueError) as error:
        yield "tau2-bench", str(error)
    else:
        lacks = "" if find_spec("mcp") else "; no mcp, which newer LiteLLMs need for users with tools: pip install mcp"
        yield "tau2-bench", f"{found.distribution}; base tasks: {counts}{lacks}"
        yield from (("documents", text) for text in retrieval.announce(DOMAINS, Settings(), environ))


def name_variant(provenance: Mapping[str, Any]) -> str:
    """Say on which data a result was made and how documents were found; what differs in it is never averaged."""
    found = provenance.get("retrieval")
    return ", ".join(filter(None, [stored_variant(provenance), f"retrieval {found}" if found else ""]))


def _announce(domains: Sequence[str], settings: Settings) -> Iterable[str]:
    from pytest_a2a_bench.benchmarks.tau2 import notes, retrieval

    found = (*retrieval.announce(domains, settings, os.environ), *notes.announce_user(domains, settings))
    return (*found, *notes.announce_defects(domains, settings), *notes.announce_tutorial(domains))


SUITE = Suite(
    name="tau2",
    domains=DOMAINS,
    available=functools.partial(_available, Settings()),
    splits=functools.partial(_splits, Settings()),
    load_tasks=functools.partial(_load_tasks, Settings()),
    describe=functools.partial(_describe_tasks, Settings()),
    modules={domain: f"pytest_a2a_bench.suites.test_{domain}" for domain in DOMAINS},
    bind=bind,
    benchmark="pytest_a2a_bench.benchmarks.tau2.benchmark",
    split_names=("base", "train", "test", "full", "small"),
    settings=Tau2Settings,
    check_options=_check_options,
    preconditions=_preconditions,
    changes=_describe_changes,
    notes=_describe_results,
    remarks=_remarks,
    dialects=("auto", "tool_call", "tool_list", "agentbeats", "sierra", "data"),
    why_no_dialect=(
        "can say nothing but a query or an answer about an org (CRMArena's tasks), and these have other tools"
    ),
    announce=_announce,
    variant=name_variant,
    reported=("retrieval",),
    short_labels=True,
    player="pytest_a2a_bench.benchmarks.tau2.player",
    transfer_tool=TRANSFER_TOOL,
    gold_options=(DATA,),
    exporter="pytest_a2a_bench.benchmarks.tau2.files",
    importer="pytest_a2a_bench.benchmarks.tau2.files",
    diagnoser="pytest_a2a_bench.benchmarks.tau2.diagnosis",
    # Without mcp: for a tau2 that lacks no more than that, the extra would install another one over it.
    extras={"pytest-a2a-bench[tau2]": ("tau2's tasks", ("tau2", "litellm"))},
    examine=_examine,
)
