"""Real trials without pytest's own machinery: a built-in agent, over real HTTP, the client, the runner."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from trials import RunTrials, run_against

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult


@pytest.fixture
def run_trials(builtin: Callable[[str], str], tmp_path: Path) -> RunTrials:
    """Run trials against a built-in agent and return their results in order."""

    def run(spec: str, settings: Settings, keys: Iterable[TrialKey]) -> list[TrialResult]:
        return run_against(builtin(spec), settings, keys, tmp_path)

    return run


@pytest.fixture(autouse=True)
def _openai_key(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the models of a module that has scripted ones be called."""
    if {"FakeLLM", "agents_model"} & vars(request.module).keys():
        monkeypatch.setenv("OPENAI_API_KEY", "test")


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
