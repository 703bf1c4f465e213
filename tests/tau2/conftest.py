"""Real trials without pytest's own machinery: a built-in agent, the client, the runner."""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from trials import RunTrials

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.agents.launcher import BuiltinAgent, start_builtin
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.pool import Pool
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.runner import Runner
from pytest_a2a_bench.settings import Settings


@pytest.fixture(scope="session")
def builtin() -> Iterator[Callable[[str], BuiltinAgent]]:
    """Start built-in agents by their spec, each once per session."""
    started: dict[str, BuiltinAgent] = {}

    def get(spec: str) -> BuiltinAgent:
        if spec not in started:
            started[spec] = start_builtin(spec)
        return started[spec]

    yield get
    for agent in started.values():
        agent.stop()


@pytest.fixture
def run_trials(builtin: Callable[[str], BuiltinAgent], tmp_path: Path) -> RunTrials:
    """Run trials against a built-in agent and return their results in order."""

    def run(spec: str, settings: Settings, keys: Iterable[TrialKey]) -> list[TrialResult]:
        url = builtin(spec).url
        settings = dataclasses.replace(settings, endpoint=url)
        with AgentConnection(ClientConfig.from_settings(settings, os.environ)) as connection:
            runner = Runner(settings, lambda: connection, Store(tmp_path), uuid.uuid4().hex)
            pool = Pool(runner.run, settings.concurrency, runner.cancel_all)
            try:
                return [f.result() for f in [pool.submit(k) for k in keys]]
            finally:
                pool.close()

    return run
