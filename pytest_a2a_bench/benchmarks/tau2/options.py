"""tau2's own options."""

from __future__ import annotations

from pathlib import Path

from pytest_a2a_bench.configuration.option import Option
from pytest_a2a_bench.configuration.readers import read_text

INSTALLED = "installed"


def locate_data(text: str, base: Path) -> str:
    """Return where tau2's data are: ``installed``, or a directory made absolute."""
    return text if text == INSTALLED else str(base / Path(text).expanduser())


DATA_OPTION = Option(
    "tau2_data",
    "installed|DIR",
    "tau2's tasks, golds, policies and databases: the installed ones, or a checkout's",
    read_text,
    default=INSTALLED,
    locate=locate_data,
)
RETRIEVAL = Option(
    "retrieval",
    "NAME",
    "How banking_knowledge's agent finds documents: a retrieval configuration of upstream's (by default upstream's own "
    "default, or the best that needs no key; offline: the best that runs no shell and asks no model)",
    read_text,
)

OPTIONS: tuple[Option, ...] = (DATA_OPTION, RETRIEVAL)

TRANSFER_TOOL = "transfer_to_human_agents"
"""The tool by which agents of every domain hand a conversation over."""
