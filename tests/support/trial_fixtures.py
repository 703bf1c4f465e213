"""Real trials against built-in agents, over real HTTP: fixtures that ``conftest.py`` of a directory imports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from trials import RunTrials, run_against

from pytest_a2a_bench.agents.options import BuiltinAgent, start_builtin
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult

_STARTED: dict[str, BuiltinAgent] = {}


@pytest.fixture(scope="session")
def builtin() -> Iterator[Callable[[str], BuiltinAgent]]:
    """Start built-in agents by their spec, each once per process: several directories have this fixture."""

    def get(spec: str) -> BuiltinAgent:
        if spec not in _STARTED:
            # One with LiteLLM takes five seconds of a processor to start, for which a busy machine takes minutes.
            _STARTED[spec] = start_builtin(spec, timeout=300)
        return _STARTED[spec]

    yield get
    while _STARTED:
        _STARTED.popitem()[1].stop()


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
