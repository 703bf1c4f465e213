"""tau2's own options."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.tau2.sources import DATA_OPTION
from pytest_a2a_bench.configuration.option import Option
from pytest_a2a_bench.configuration.readers import read_text

RETRIEVAL = Option(
    "retrieval",
    "NAME",
    "How banking_knowledge's agent finds documents: a retrieval configuration of upstream's (by default upstream's own "
    "default, or the best that needs no key)",
    read_text,
)

OPTIONS: tuple[Option, ...] = (DATA_OPTION, RETRIEVAL)

TRANSFER_TOOL = "transfer_to_human_agents"
"""The tool by which agents of every domain hand a conversation over."""
