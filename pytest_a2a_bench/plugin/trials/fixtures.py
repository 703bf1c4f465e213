"""The fixtures that tests use: ``trial``, ``bench_task``, ``agent_card``, ``a2a_client``, and those to override.

Registered in every pytest run, so what they need is imported by the one that is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.card import AgentCard
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.model import BenchTask, TrialResult
    from pytest_a2a_bench.plugin.run.state import BenchRun, ItemTrial
    from pytest_a2a_bench.plugin.trials.schedule import Schedule


@pytest.fixture
def trial(request: pytest.FixtureRequest, _a2a_key: ItemTrial, _a2a_schedule: Schedule) -> TrialResult:
    """The finished conversation of this item's task: success, reward, turns, latency, tokens, cost, transcript."""
    from pytest_a2a_bench.plugin.run import state
    from pytest_a2a_bench.plugin.trials import outcome

    return outcome.receive(request.node, _a2a_key.key, _a2a_schedule, state.of(request.config))


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

    return ClientConfig.from_settings(_a2a_endpoint.plan.target, os.environ)


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
    from pytest_a2a_bench.plugin.run import state

    run = state.of(request.config)
    run.collected.used = True
    if run.plan.endpoint is None:
        # Asked for only now (``request.getfixturevalue``), where there is none.
        reason = run.plan.endpoint_problem or "no agent to test; pass --a2a-endpoint URL (or builtin:NAME)"
        pytest.fail(reason, pytrace=False)
    return run


@pytest.fixture(scope="session")
def _a2a_connections(
    _a2a_endpoint: BenchRun, a2a_client_config: ClientConfig
) -> Iterator[Mapping[str | None, AgentConnection]]:
    from pytest_a2a_bench.plugin.trials.connection import connect_each

    connections = connect_each(_a2a_endpoint, a2a_client_config)
    yield connections
    if _a2a_endpoint.services.schedule is not None:
        _a2a_endpoint.services.schedule.close()
    for connection in connections.values():
        connection.close()


@pytest.fixture(scope="session")
def _a2a_connection(_a2a_endpoint: BenchRun, _a2a_connections: Mapping[str | None, AgentConnection]) -> AgentConnection:
    if len(_a2a_connections) > 1:
        names = ", ".join(_a2a_endpoint.settings.agents)
        pytest.fail(f"a2a_client and agent_card are of one agent, and there are several ({names})", pytrace=False)
    return next(iter(_a2a_connections.values()))


@pytest.fixture(scope="session")
def _a2a_schedule(
    request: pytest.FixtureRequest,
    _a2a_endpoint: BenchRun,
    _a2a_connections: Mapping[str | None, AgentConnection],
    a2a_message_metadata: Mapping[str, Any],
) -> Schedule:
    from pytest_a2a_bench.plugin.trials import connection

    return connection.start_schedule(request.session, _a2a_endpoint, _a2a_connections, a2a_message_metadata)
