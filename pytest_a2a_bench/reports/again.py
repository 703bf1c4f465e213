"""The shell command that runs a trial again."""

from __future__ import annotations

import shlex

from pytest_a2a_bench.redact import one_line


def hold_again(nodeid: str, endpoint: str = "") -> str:
    """Return the shell command that holds a trial again; further options of its run are for the user to add."""
    where = f"--a2a-endpoint {shlex.quote(one_line(endpoint, 1_000))} " if endpoint else ""
    return f"pytest {where}{shlex.quote(one_line(nodeid, 1_000))}"
