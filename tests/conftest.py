from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator

import examples
import pytest
import warm_python

from pytest_a2a_bench.agents.launcher import start_builtin

pytest_plugins = ["pytester"]

# Without the extra "dev" these tests cannot be imported, and somebody who only tries the README's first command from a
# clone did not ask for them.
collect_ignore_glob = [] if importlib.util.find_spec("hypothesis") else ["*"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="Also run tests marked slow")


def pytest_configure(config: pytest.Config) -> None:
    if not collect_ignore_glob:
        from hypothesis import HealthCheck, settings

        # How long an example takes, or its making, tells how busy the machine is.
        settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("steady")
    if hasattr(config, "workerinput"):
        return
    # pytester forgets what a run in this process imported: LiteLLM is then imported anew by itself, where nobody
    # contains it, and would ask the network for its list of prices. Workers and processes inherit it.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    if config.getoption("--run-slow"):
        os.environ[examples.VARIABLE] = "1"
    stack = contextlib.ExitStack()
    config.add_cleanup(stack.close)
    if program := stack.enter_context(warm_python.offered()):
        os.environ[warm_python.VARIABLE] = program


@pytest.fixture(scope="session", autouse=True)
def _warm_python() -> Iterator[None]:
    """Let every run of pytest and every agent that a test starts be forked from a process that is warm already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", os.environ.get(warm_python.VARIABLE, sys.executable))
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--run-slow") or "slow" in config.getoption("markexpr"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow; run with --run-slow"))


@pytest.fixture(scope="session")
def noop_url() -> Iterator[str]:
    """URL of one built-in agent that does nothing, shared by all tests."""
    with start_builtin("noop") as agent:
        yield agent.url


@pytest.fixture(scope="session")
def oracle_url() -> Iterator[str]:
    """URL of one built-in oracle, shared by all tests; it needs ``--a2a-tag-trials``."""
    with start_builtin("oracle") as agent:
        yield agent.url
