"""A part of what takes too long to be tried whole in each run of CI: another one each time, so that many try all.

Which one follows from the number ``A2A_BENCH_FUZZ_SEED``, which ``.ci/nightly`` sets anew each time; without it
everything is tried. A failure shows what was tried, and with the same number it is tried again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

SEED = os.environ.get("A2A_BENCH_FUZZ_SEED")


def rotating(items: Sequence[T], parts: int, turn: int = 0) -> list[T]:
    """Return one of a number of parts of a sequence, spread over it, and print which; or return it whole.

    :param turn: where several callers divide the same, each takes the next part.
    """
    if SEED is None:
        return list(items)
    chosen = (int(SEED) + turn) % parts
    print(f"part {chosen} of {parts} of {len(items)}, by A2A_BENCH_FUZZ_SEED={SEED}")
    return list(items[chosen::parts])
