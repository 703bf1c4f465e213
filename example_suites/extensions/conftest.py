"""What this project adds to pytest-a2a-bench: a name and ``module:OBJECT`` for each."""

from __future__ import annotations

import fsspec

# fsspec's own registry: a place for results needs no hook.
fsspec.register_implementation("shelf", "store.Shelf", clobber=True)


def pytest_a2a_bench_agents() -> dict[str, str]:
    return {"clerk": "agent:make"}


def pytest_a2a_bench_dialects() -> dict[str, str]:
    return {"lines": "dialect:LINES"}


def pytest_a2a_bench_judges() -> dict[str, str]:
    return {"polite": "judge:polite"}


def pytest_a2a_bench_observers() -> dict[str, str]:
    return {"logged": "observer:LOGGED"}


def pytest_a2a_bench_requirements() -> dict[str, str]:
    return {"house": "requirements:PACK"}


def pytest_a2a_bench_users() -> dict[str, str]:
    return {"hurried": "user:hurried"}
