"""Real trials without pytest's own machinery: the client, the runner, the pool, the store."""

import dataclasses
import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.benchmarks.participants import further_agents
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.trials.observers import Taped, asked_for
from pytest_a2a_bench.trials.pool import Pool
from pytest_a2a_bench.trials.runner import Runner
from pytest_a2a_bench.trials.trial import Client

RunTrials = Callable[[str, Settings, Iterable[TrialKey]], list[TrialResult]]
"""Built-in agent's spec, settings, keys -> results in order."""


def some_keys(domain: str, count: int | None = None, split: str = "base") -> list[TrialKey]:
    """Return the keys of so many of a domain's tasks, spread over the split; of all by default."""
    every = index.load_tasks(domain, split)
    step = max(1, len(every) // count) if count else 1
    return [task.key() for task in every[::step][:count]]


def said(result: TrialResult) -> list[Any]:
    """Return what was said and done, without the ids of calls."""
    return [
        (turn.role, turn.text, turn.tool, turn.error, turn.requestor, [(c.name, c.arguments) for c in turn.calls])
        for turn in result.transcript
    ]


def run_against(url: str, settings: Settings, keys: Iterable[TrialKey], folder: Path) -> list[TrialResult]:
    """Run trials against the agent at a URL and return their results in order; their files are in the folder."""
    settings = dataclasses.replace(settings, endpoint=url)
    config = ClientConfig.from_settings(settings, os.environ)
    with AgentConnection(config) as connection, further_agents(settings, os.environ) as further:
        observers = [*asked_for(settings), *filter(None, [Taped.of(settings, ())])]
        runner = Runner(settings, Client(connection, further=further), Store(folder), uuid.uuid4().hex, observers)
        pool = Pool(runner.run, settings.concurrency, runner.cancel_all, runner.limits.patience, runner.give_up)
        try:
            return [f.result() for f in [pool.submit(k) for k in keys]]
        finally:
            pool.close()
