"""How many examples a property is tried on: a fifth in the default run, all of them with ``--run-slow``, as in CI."""

from __future__ import annotations

import os

VARIABLE = "A2A_BENCH_ALL_EXAMPLES"
"""Set by ``conftest.py``, so that xdist's workers know it, too."""


def examples(number: int) -> int:
    """Return how many of a number of examples to try."""
    return number if os.environ.get(VARIABLE) else max(12, number // 5)
