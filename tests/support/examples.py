"""How much is tried in the default run: a tenth of a property's examples, some cases of a long table; with
``--run-slow``, as in ``.ci/nightly``, all of them, but of what takes too long for each run another part each time.

Which part follows from the number ``A2A_BENCH_FUZZ_SEED``, which ``.ci/nightly`` sets anew each time; without it
everything is tried. A failure shows what was tried, and with the same number it is tried again.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

SEED = os.environ.get("A2A_BENCH_FUZZ_SEED")
VARIABLE = "A2A_BENCH_ALL_EXAMPLES"
"""Set by ``conftest.py``, so that xdist's workers know it, too."""


def examples(number: int) -> int:
    """Return how many of a number of examples to try."""
    return number if os.environ.get(VARIABLE) else max(10, number // 10)


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """Return the cases of a table for ``parametrize``: the first of every so many are always tried, the others slow.

    :param cases: each a value, or a tuple of several.
    """
    values = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*each, marks=[pytest.mark.slow] * (n % every > 0)) for n, each in enumerate(values)]


def some(cases: Iterable[T], every: int) -> list[T]:
    """Return the cases of a table for ``in_one_test``: the first of every so many, or all where all are tried."""
    return list(cases)[:: 1 if os.environ.get(VARIABLE) else every]


def rotating(items: Sequence[T], parts: int, turn: int = 0) -> list[T]:
    """Return one of a number of parts of a sequence, spread over it, and print which; or return it whole.

    :param turn: where several callers divide the same, each takes the next part.
    """
    if SEED is None:
        return list(items)
    chosen = (int(SEED) + turn) % parts
    print(f"part {chosen} of {parts} of {len(items)}, by A2A_BENCH_FUZZ_SEED={SEED}")
    return list(items[chosen::parts])
