"""Real trials without pytest's own machinery: a built-in agent, over real HTTP, the client, the runner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from trials import RunTrials, run_against

from pytest_a2a_bench.agents.options import BuiltinAgent, start_builtin
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult


@pytest.fixture(scope="session")
def builtin() -> Iterator[Callable[[str], BuiltinAgent]]:
    """Start built-in agents by their spec, each once per process."""
    started: dict[str, BuiltinAgent] = {}

    def get(spec: str) -> BuiltinAgent:
        if spec not in started:
            # One with LiteLLM takes five seconds of a processor to start, for which a busy machine takes minutes.
            started[spec] = start_builtin(spec, timeout=300)
        return started[spec]

    yield get
    for agent in started.values():
        agent.stop()


@pytest.fixture
def run_trials(builtin: Callable[[str], BuiltinAgent], tmp_path: Path) -> RunTrials:
    """Run trials against a built-in agent and return their results in order."""

    def run(spec: str, settings: Settings, keys: Iterable[TrialKey]) -> list[TrialResult]:
        return run_against(builtin(spec).url, settings, keys, tmp_path)

    return run


@pytest.fixture(autouse=True, scope="module")
def event_loop_for_litellm() -> Iterator[None]:
    """Give LiteLLM an event loop that is closed again.

    A blocking call of it asks for the thread's event loop, and Python makes one that nobody closes: found by the
    garbage collector, it would be an error of whichever test happens to run then.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
