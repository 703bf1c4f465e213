"""A sample of all agents, domains and dialects, run against the stock tau2."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self
from unittest import mock

import pytest
from fake_llm import FakeLLM, judge
from random_agent import random_agent
from tau2_verification import Tau2Verifier, Verification
from trials import run_against

from pytest_a2a_bench.agents.options import start_builtin
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult

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

    :param seed: of the random agent.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._stack = contextlib.ExitStack()
        self._urls: dict[str, str] = {}
        # Whatever is asked is so; what is verified is that both sides ask the same and make the same of the answer.
        self._stack.enter_context(mock.patch.dict(os.environ, {"OPENAI_API_KEY": "scripted"}))
        self._model = model = self._stack.enter_context(FakeLLM(judge()))
        self._settings = Settings(
            tag_trials=True,
            judge_llm="openai/judge",
            user_llm_args={"api_base": model.api_base},
        )
        self._verifier = self._stack.enter_context(Tau2Verifier(self._settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, agent: str, keys: Sequence[TrialKey], dialect: str) -> list[Found]:
        """Hold trials with an agent in a dialect, and return what the stock tau2 says of each."""
        if agent not in self._urls:
            self._urls[agent] = self._stack.enter_context(agent_url(agent, self._seed, self._settings))
        settings = dataclasses.replace(self._settings, dialect=dialect)
        return [self._verified(agent, settings, key) for key in keys]

    def _verified(self, agent: str, settings: Settings, key: TrialKey) -> Found:
        before = len(self._model.requests)
        with tempfile.TemporaryDirectory() as folder:
            [result] = run_against(self._urls[agent], settings, [key], Path(folder))
        return result, self._verifier.verify(result, {"judge": self._model.exchanges[before:]})


SAMPLE = {"airline": 1, "retail": 1, "telecom": 3, "mock": 2}
"""Tasks of each agent and dialect: a database of airline's takes seconds to be built five times."""


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with Table(seed=1) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("agent", AGENTS)
def test_the_stock_tau2_confirms_what_any_agent_came_to(agent: str, domain: str, table: Table) -> None:
    keys = [task.key() for task in index.load_tasks(domain)]
    counted: Counter[str] = Counter()
    for dialect in DIALECTS:
        chosen = random.Random(f"{agent} {dialect}").sample(keys, SAMPLE[domain])
        for result, verification in table.run(agent, chosen, dialect):
            assert result.status in ("evaluated", "evaluator_error"), result.error
            assert verification.status in ("verified", "not_verifiable"), (result.key, verification)
            # Only where upstream's own evaluator has nothing to say.
            assert (verification.status == "not_verifiable") == (result.status == "evaluator_error")
            counted[verification.status] += 1
    assert counted["verified"] > 0
