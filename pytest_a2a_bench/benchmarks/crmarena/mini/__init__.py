"""The built-in org: a fictional company, made by a seeded generator, with tasks whose answers are known by construction."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.crmarena.mini.ids import task_ids
from pytest_a2a_bench.benchmarks.crmarena.mini.org import DEFAULT_SEED, DEFAULT_TASKS, VERSION, MiniOrg, build

__all__ = ["DEFAULT_SEED", "DEFAULT_TASKS", "VERSION", "MiniOrg", "build", "task_ids"]
