"""The fixtures that tests use: ``trial``, ``bench_task``, ``agent_card``, ``a2a_client``, and those to override."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench import outcome, run_state
from pytest_a2a_bench.run_state import BenchRun, ItemTrial

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.card import AgentCard
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.model import BenchTask, TrialResult
    from pytest_a2a_bench.schedule import Schedule


@pytest.fixture
def trial(request: pytest.FixtureRequest, _a2a_key: ItemTrial, _a2a_schedule: Schedule) -> TrialResult:
    """The finished conversation of this item's task: success, reward, turns, latency, tokens, cost, transcript."""
    return outcome.receive(request.node, _a2a_key.key, _a2a_schedule, run_state.of(request.config))


@pytest.fixture
def bench_task(_a2a_key: ItemTrial) -> BenchTask:
    """The benchmark task of this item: suite, domain, task_id, splits."""
    return _a2a_key.task


@pytest.fixture(scope="session")
def agent_card(_a2a_connection: AgentConnection) -> AgentCard:
    """The agent's card."""
    return _a2a_connection.card()


@pytest.fixture(scope="session")
def a2a_client(_a2a_connection: AgentConnection) -> AgentConnection:
    """The connection to the agent; ``a2a_client.session()`` begins a conversation of your own."""
    return _a2a_connection


@pytest.fixture(scope="session")
def a2a_client_config(_a2a_endpoint: BenchRun) -> ClientConfig:
    """How the agent is reached. Override it (session-scoped) with a ``dataclasses.replace`` of it to change that."""
    from pytest_a2a_bench.a2a.config import ClientConfig

    return ClientConfig.from_settings(_a2a_endpoint.target, os.environ)


@pytest.fixture(scope="session")
def a2a_message_metadata() -> Mapping[str, Any]:
    """Metadata that goes with every message to the agent. Override it (session-scoped) to send some."""
    return {}


@pytest.fixture
def _a2a_key(request: pytest.FixtureRequest) -> ItemTrial:
    found: ItemTrial = request.param
    return found


@pytest.fixture(scope="session")
def _a2a_endpoint(request: pytest.FixtureRequest) -> BenchRun:
    run = run_state.of(request.config)
    run.used = True
    if run.endpoint is None:
        outcome.fail_without_endpoint(request.config, run)
    return run


@pytest.fixture(scope="session")
def _a2a_connection(_a2a_endpoint: BenchRun, a2a_client_config: ClientConfig) -> Iterator[AgentConnection]:
    from pytest_a2a_bench.a2a.client import AgentConnection

    connection = AgentConnection(a2a_client_config)
    yield connection
    if _a2a_endpoint.schedule is not None:
        _a2a_endpoint.schedule.close()
    connection.close()


@pytest.fixture(scope="session")
def _a2a_schedule(
    request: pytest.FixtureRequest,
    _a2a_endpoint: BenchRun,
    _a2a_connection: AgentConnection,
    a2a_message_metadata: Mapping[str, Any],
) -> Schedule:
    from pytest_a2a_bench.results.store import Store
    from pytest_a2a_bench.runner import Runner
    from pytest_a2a_bench.schedule import Schedule

    run, config = _a2a_endpoint, request.config
    store = Store(run.results)
    runner = Runner(
        dataclasses.replace(run.target, endpoint=run.settings.endpoint),
        lambda: _a2a_connection,
        store,
        run.run_id,
        metadata=a2a_message_metadata,
        prepare=lambda key, metadata: config.hook.pytest_a2a_bench_prepare_trial(key=key, metadata=metadata),
    )
    ahead = outcome.trials_ahead(request.session, run)
    run.schedule = Schedule(
        runner, run.settings.concurrency, ahead, outcome.ticker(config, run), outcome.suspects(ahead, run, store)
    )
    return run.schedule
