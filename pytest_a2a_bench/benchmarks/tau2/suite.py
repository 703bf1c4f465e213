"""tau2 as collection and options know it; its tasks are read from tau2's data files when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pytest_a2a_bench.benchmarks.suite import Suite
from pytest_a2a_bench.benchmarks.tau2 import DOMAINS
from pytest_a2a_bench.errors import A2ABenchError

if TYPE_CHECKING:
    from pytest_a2a_bench.model import BenchTask


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
    from pytest_a2a_bench.benchmarks.tau2 import index

    try:
        found = index.find_installation()
        counts = ", ".join(f"{domain} {len(index.load_tasks(domain, 'base'))}" for domain in index.available_domains())
    except (A2ABenchError, OSError, ValueError) as error:
        yield "tau2-bench", str(error)
    else:
        yield "tau2-bench", f"{found.distribution}; base tasks: {counts}"


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
    short_labels=True,
    player="pytest_a2a_bench.benchmarks.tau2.player",
    exporter="pytest_a2a_bench.benchmarks.tau2.export",
    linter="pytest_a2a_bench.benchmarks.tau2.lint.linter",
    extras={"pytest-a2a-bench[tau2]": ("tau2", "litellm", "mcp")},
    examine=_examine,
)
