"""The built-in org: a fictional company made by a seeded generator, with tasks whose answers follow from its making."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.crmarena.mini.ids import task_ids
from pytest_a2a_bench.benchmarks.crmarena.mini.org import DEFAULT_SEED, DEFAULT_TASKS, TODAY, VERSION, MiniOrg, build
from pytest_a2a_bench.benchmarks.crmarena.mini.rot import B2B_SIZES, add_rot, rot

__all__ = [
    "B2B_SIZES",
    "DEFAULT_SEED",
    "DEFAULT_TASKS",
    "TODAY",
    "VERSION",
    "MiniOrg",
    "add_rot",
    "build",
    "rot",
    "task_ids",
]
