"""The built-in org: a fictional company made by a seeded generator, with tasks whose answers follow from its making.

What builds it is imported when it is first used, because collecting tests needs :func:`task_ids` only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.benchmarks.crmarena.mini.ids import task_ids

if TYPE_CHECKING:
    from pytest_a2a_bench.benchmarks.crmarena.mini.org import (
        DEFAULT_SEED,
        DEFAULT_TASKS,
        TODAY,
        VERSION,
        MiniOrg,
        build,
    )
    from pytest_a2a_bench.benchmarks.crmarena.mini.rot import B2B_SIZES, add_rot, distractors

__all__ = [
    "B2B_SIZES",
    "DEFAULT_SEED",
    "DEFAULT_TASKS",
    "TODAY",
    "VERSION",
    "MiniOrg",
    "add_rot",
    "build",
    "distractors",
    "task_ids",
]

_IN_ROT = ("B2B_SIZES", "add_rot", "distractors")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'rot' if name in _IN_ROT else 'org'}"), name)
