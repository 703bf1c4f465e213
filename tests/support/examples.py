"""How much is tried in the default run: a fifth of a property's examples, some cases of a long table; with
``--run-slow``, as in CI, all of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

VARIABLE = "A2A_BENCH_ALL_EXAMPLES"
"""Set by ``conftest.py``, so that xdist's workers know it, too."""


def examples(number: int) -> int:
    """Return how many of a number of examples to try."""
    return number if os.environ.get(VARIABLE) else max(12, number // 5)


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """Return the cases of a table for ``parametrize``: the first of every so many are always tried, the others slow.

    :param cases: each a value, or a tuple of several.
    """
    values = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*each, marks=[pytest.mark.slow] * (n % every > 0)) for n, each in enumerate(values)]


def some(cases: Iterable[T], every: int) -> list[T]:
    """Return the cases of a table for ``in_one_test``: the first of every so many, or all where all are tried."""
    return list(cases)[:: 1 if os.environ.get(VARIABLE) else every]
