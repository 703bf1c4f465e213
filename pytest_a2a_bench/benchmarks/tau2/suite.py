"""tau2 as collection and options know it: its settings, and its suite, whose tasks are read from tau2's data files when
they are asked for.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pytest_a2a_bench.benchmarks.registry import Suite, stored_variant
from pytest_a2a_bench.benchmarks.tau2 import DOMAINS
from pytest_a2a_bench.config.setting import About, Located, text
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.config.values import read_text
from pytest_a2a_bench.errors import A2ABenchError, MissingExtraError

INSTALLED = "installed"


def locate_data(given: str, base: Path) -> str:
    """Return ``installed``, or a directory made absolute."""
    return given if given == INSTALLED else str(base / Path(given).expanduser())


@dataclass(frozen=True, slots=True)
class Tau2Settings:
    """tau2's own settings."""

    tau2_data: Annotated[
        str,
        text(read_text),
        Located(locate_data),
        About("tau2's tasks and data: of the installed package, or of a checkout", "installed|DIR"),
    ] = INSTALLED
    retrieval: Annotated[
        str | None,
        text(read_text),
        About("Retrieval configuration of banking_knowledge's agent; by default the best that needs no key", "NAME"),
    ] = None


DATA = "tau2_data"
RETRIEVAL = "retrieval"

TRANSFER_TOOL = "transfer_to_human_agents"
"""The tool by which agents of every domain hand a conversation over."""


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
    read = _later("index", "read")
    return {member: functools.partial(read, settings, function) for member, function in functions.items()}


def _check_options(settings: Settings) -> Iterator[str]:
    # The installed data are looked for where a domain joins: a run without tau2 needs none.
    if settings.benchmark_options.get(DATA, INSTALLED) != INSTALLED:
        try:
            _later("index", "find_edition")(settings)
        except MissingExtraError:  # reported where a domain joins
            return
        except A2ABenchError as error:
            yield str(error)


def name_variant(provenance: Mapping[str, Any]) -> str:
    """Name a result's data and its retrieval of documents; results that differ in these are never averaged."""
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
