"""tau2 as collection and options know it; its tasks are read from tau2's data files when they are asked for."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_a2a_bench.benchmarks.registry import Suite, stored_variant
from pytest_a2a_bench.benchmarks.tau2 import DOMAINS
from pytest_a2a_bench.benchmarks.tau2.options import DATA, INSTALLED, TRANSFER_TOOL, Tau2Settings
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, MissingExtraError


def _later(module: str, function: str) -> Callable[..., Any]:
    """Return a function of this package that is imported when it is called: every pytest run loads this module."""

    def call(*args: Any) -> Any:
        return getattr(importlib.import_module(f"{__package__}.{module}"), function)(*args)

    return call


def _data(settings: Settings) -> dict[str, Any]:
    """Return the members of the suite that read the data which the option names."""
    functions = {
        "available": "available_domains",
        "splits": "splits",
        "load_tasks": "load_tasks",
        "describe": "describe_tasks",
        "why_absent": "why_absent",
    }
    read = _later("editions", "read")
    return {member: functools.partial(read, settings, function) for member, function in functions.items()}


def _check_options(settings: Settings) -> Iterator[str]:
    # The installed data are looked for where a domain joins: a run without tau2 needs none.
    if settings.benchmark_options.get(DATA, INSTALLED) != INSTALLED:
        try:
            _later("editions", "find_edition")(settings)
        except MissingExtraError:  # reported where a domain joins
            return
        except A2ABenchError as error:
            yield str(error)


def name_variant(provenance: Mapping[str, Any]) -> str:
    """Name the data on which a result was made and how documents were found; what differs in it is never averaged."""
    found = provenance.get("retrieval")
    return ", ".join(filter(None, [stored_variant(provenance), f"retrieval {found}" if found else ""]))


SUITE: Suite = Suite(
    name="tau2",
    domains=DOMAINS,
    **_data(Settings()),
    modules={domain: f"pytest_a2a_bench.suites.test_tau2::test_{domain}" for domain in DOMAINS},
    bind=lambda settings: dataclasses.replace(SUITE, **_data(settings)),
    benchmark="pytest_a2a_bench.benchmarks.tau2.benchmark",
    split_names=("base", "train", "test", "full", "small"),
    settings=Tau2Settings,
    check_options=_check_options,
    preconditions=_later("notes", "find_problems"),
    changes=_later("notes", "describe_data"),
    notes=_later("notes", "describe_results"),
    remarks=_later("notes", "remarks"),
    dialects=("auto", "tool_call", "tool_list", "agentbeats", "sierra", "data"),
    why_no_dialect=(
        "can say nothing but a query or an answer about an org (CRMArena's tasks), and these have other tools"
    ),
    announce=_later("notes", "announce"),
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
    examine=_later("notes", "examine"),
)
