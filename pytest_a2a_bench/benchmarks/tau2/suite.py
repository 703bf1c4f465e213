"""tau2 as collection and options know it; its tasks are read from tau2's data files when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytest_a2a_bench.benchmarks.suite import Suite
from pytest_a2a_bench.benchmarks.tau2 import DOMAINS
from pytest_a2a_bench.benchmarks.tau2.options import OPTIONS
from pytest_a2a_bench.errors import A2ABenchError

if TYPE_CHECKING:
    from pytest_a2a_bench.model import BenchTask, TrialResult
    from pytest_a2a_bench.settings import Settings


# The functions below import on demand: this module is loaded in every pytest run that has this plugin installed.


def _available() -> tuple[str, ...]:
    from pytest_a2a_bench.benchmarks.tau2 import index

    return index.available_domains()


def _splits(domain: str) -> tuple[str, ...]:
    from pytest_a2a_bench.benchmarks.tau2 import index

    return index.splits(domain)


def _load_tasks(domain: str, split: str) -> list[BenchTask]:
    from pytest_a2a_bench.benchmarks.tau2 import index

    return index.load_tasks(domain, split)


def _examine(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    from pytest_a2a_bench.benchmarks.tau2 import index, retrieval
    from pytest_a2a_bench.settings import Settings

    try:
        found = index.find_installation()
        counts = ", ".join(f"{domain} {len(index.load_tasks(domain, 'base'))}" for domain in index.available_domains())
    except (A2ABenchError, OSError, ValueError) as error:
        yield "tau2-bench", str(error)
    else:
        lacks = "" if find_spec("mcp") else "; no mcp, which newer LiteLLMs need for users with tools: pip install mcp"
        yield "tau2-bench", f"{found.distribution}; base tasks: {counts}{lacks}"
        yield from (("documents", text) for text in retrieval.announce(DOMAINS, Settings(), environ))


def _preconditions(domains: Sequence[str], settings: Settings, environ: Mapping[str, str]) -> Iterable[str]:
    from pytest_a2a_bench.benchmarks.tau2 import retrieval

    return retrieval.find_problems(domains, settings, environ)


def _announce(domains: Sequence[str], settings: Settings) -> Iterable[str]:
    from pytest_a2a_bench.benchmarks.tau2 import retrieval

    return retrieval.announce(domains, settings, os.environ)


def _notes(results: Sequence[TrialResult]) -> Iterable[str]:
    from pytest_a2a_bench.benchmarks.tau2 import retrieval

    return retrieval.describe_results([r.provenance for r in results])


SUITE = Suite(
    name="tau2",
    domains=DOMAINS,
    available=_available,
    splits=_splits,
    load_tasks=_load_tasks,
    modules={domain: f"pytest_a2a_bench.suites.test_{domain}" for domain in DOMAINS},
    benchmark="pytest_a2a_bench.benchmarks.tau2.benchmark",
    split_names=("base", "train", "test", "full", "small"),
    dialects=("auto", "tool_call", "agentbeats", "sierra", "data"),
    why_no_dialect=(
        "can say nothing but a query or an answer about an org (CRMArena's tasks), and these have other tools"
    ),
    options=OPTIONS,
    preconditions=_preconditions,
    announce=_announce,
    notes=_notes,
    reported=("retrieval",),
    short_labels=True,
    player="pytest_a2a_bench.benchmarks.tau2.player",
    exporter="pytest_a2a_bench.benchmarks.tau2.export",
    # Without mcp: for a tau2 that lacks no more than that, the extra would install another one over it.
    extras={"pytest-a2a-bench[tau2]": ("tau2", "litellm")},
    examine=_examine,
)
