"""tau2's own options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pytest_a2a_bench.config.setting import About, Located, text
from pytest_a2a_bench.config.values import read_text

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
