"""How a trial is held again, and what its page asks a recording for."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.redact import one_line

Recorded = Callable[[TrialResult], "list[dict[str, Any]]"]
"""Returns the requests of a trial and what was answered; none of one that was not recorded."""


def hold_again(nodeid: str, endpoint: str = "") -> str:
    """Return the shell command that holds a trial again; further options of its run are for the user to add."""
    where = f"--a2a-endpoint {shlex.quote(one_line(endpoint, 1_000))} " if endpoint else ""
    return f"pytest {where}{shlex.quote(one_line(nodeid, 1_000))}"
