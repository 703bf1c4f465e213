"""What collection knows about tau2: its domains, splits and tasks, read from tau2's data files."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.registry import Suite
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.settings import DOMAINS

SUITE = Suite(
    name="tau2",
    domains=DOMAINS,
    available=index.available_domains,
    splits=index.splits,
    load_tasks=index.load_tasks,
    modules={domain: f"pytest_a2a_bench.suites.test_{domain}" for domain in DOMAINS},
)
