"""Offers the shop to pytest: a marker, names for --a2a-suite and the setting shop-patience come with it."""

from __future__ import annotations

from shop import SUITE

from pytest_a2a_bench import Suite


def pytest_a2a_bench_suites() -> list[Suite]:
    return [SUITE]
