"""Trials of any agent, domain and dialect held against the stock tau2."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self
from unittest import mock

from fake_llm import FakeLLM, judge
from random_agent import random_agent
from tau2_verification import Tau2Verifier, Verification
from trials import run_against

from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.benchmarks.tau2.options import DATA_OPTION, INSTALLED
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.settings import Settings

AGENTS = ("oracle", "noop", "readonly", "random")
DIALECTS = ("tool_call", "agentbeats", "sierra", "data")
DOMAINS = ("airline", "retail", "telecom", "mock")

Found = tuple[TrialResult, Verification]


@contextlib.contextmanager
def agent_url(name: str, seed: int, settings: Settings) -> Iterator[str]:
    """Serve one of the agents."""
    if name == "random":
        with random_agent(seed, settings) as url:
            yield url
    else:
        with start_builtin(name, settings) as agent:
            yield agent.url


class Table:
    """Holds trials and verifies them, with agents and verifiers that are started once.

    :param processes: how many verify beside each other.
    :param seed: of the random agent.
    :param data: tau2's data, as ``--a2a-tau2-data`` names them.
    """

    def __init__(self, processes: int = 1, seed: int = 0, data: str = INSTALLED) -> None:
        self._seed = seed
        self._stack = contextlib.ExitStack()
        self._urls: dict[str, str] = {}
        # Whatever is asked is so; what is verified is that both sides ask the same and make the same of the answer.
        self._stack.enter_context(mock.patch.dict(os.environ, {"OPENAI_API_KEY": "scripted"}))
        model = self._stack.enter_context(FakeLLM(judge()))
        self._settings = Settings(
            tag_trials=True,
            concurrency=2,
            judge_llm="openai/judge",
            user_llm_args={"api_base": model.api_base},
            benchmark_options={DATA_OPTION.name: data},
        )
        self._verifiers = [
            self._stack.enter_context(contextlib.closing(Tau2Verifier(self._settings))) for _ in range(processes)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(
        self, agent: str, keys: Sequence[TrialKey], dialect: str, tell: Callable[[Found], None] = lambda found: None
    ) -> list[Found]:
        """Hold trials with an agent in a dialect, and return what the stock tau2 says of each."""
        if agent not in self._urls:
            self._urls[agent] = self._stack.enter_context(agent_url(agent, self._seed, self._settings))
        settings = dataclasses.replace(self._settings, dialect=dialect)
        with tempfile.TemporaryDirectory() as folder:
            results = run_against(self._urls[agent], settings, keys, Path(folder))

        def some(part: int) -> list[Found]:
            found = []
            for result in results[part :: len(self._verifiers)]:
                found.append((result, self._verifiers[part].verify(result)))
                tell(found[-1])
            return found

        with ThreadPoolExecutor(len(self._verifiers)) as pool:
            return [one for found in pool.map(some, range(len(self._verifiers))) for one in found]
