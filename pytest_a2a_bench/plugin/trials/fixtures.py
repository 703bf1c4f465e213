"""The fixtures that tests use: ``trial``, ``bench_task``, ``agent_card``, ``a2a_client``, and those to override."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.plugin.run import state
from pytest_a2a_bench.plugin.run.state import BenchRun, ItemTrial

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.card import AgentCard
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.conformance.finding import Finding
    from pytest_a2a_bench.conformance.judging import Judge, RawWire
    from pytest_a2a_bench.conformance.report import Judgement
    from pytest_a2a_bench.conformance.subject import Subject
    from pytest_a2a_bench.model import BenchTask, TrialResult
    from pytest_a2a_bench.plugin.conformance.check_items import ItemCheck
    from pytest_a2a_bench.plugin.trials.schedule import Schedule


@pytest.fixture
def trial(request: pytest.FixtureRequest, _a2a_key: ItemTrial, _a2a_schedule: Schedule) -> TrialResult:
    """The finished conversation of this item's task: success, reward, turns, latency, tokens, cost, transcript."""
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

    return ClientConfig.from_settings(_a2a_endpoint.target, os.environ)


@pytest.fixture(scope="session")
def a2a_message_metadata() -> Mapping[str, Any]:
    """Metadata that goes with every message to the agent. Override it (session-scoped) to send some."""
    return {}


@pytest.fixture
def conformance_check(request: pytest.FixtureRequest, _a2a_check: ItemCheck, _a2a_subject: Subject) -> Judgement:
    """The verdict on this item's requirement: passed, findings, result."""
    from pytest_a2a_bench.plugin.conformance import verdicts

    run = state.of(request.config)
    if _a2a_check.suite == "card":
        result = verdicts.judge_card(_a2a_check, _a2a_subject)
    else:
        judge: Judge = request.getfixturevalue("_a2a_judge")
        result = verdicts.judge_protocol(_a2a_check, _a2a_subject, judge)
    return verdicts.receive(request.node, result, run)


@pytest.fixture(scope="session")
def card_findings(_a2a_subject: Subject) -> list[Finding]:
    """What is wrong with the agent's card: a list of findings with rule, severity, pointer, found, expected, fix."""
    return list(_a2a_subject.findings)


@pytest.fixture(scope="session")
def conformance_findings(_a2a_subject: Subject, _a2a_judge: Judge) -> list[Finding]:
    """What the whole agent does wrong, its card and its protocol: every check is made, once, for all tests."""
    planned = [] if _a2a_subject.problem else _a2a_subject.plan()
    _a2a_judge.start(planned)
    found = [finding for p in planned for finding in _a2a_judge.result(p).findings]
    return [*_a2a_subject.findings, *found]


@pytest.fixture
def a2a_wire(
    request: pytest.FixtureRequest, _a2a_subject: Subject, a2a_client_config: ClientConfig
) -> Iterator[RawWire]:
    """Raw exchanges with the agent: ``a2a_wire.call("GetTask", {"id": "x"}).error`` is what came, unread by any SDK."""
    from pytest_a2a_bench.conformance.judging import RawWire
    from pytest_a2a_bench.plugin.conformance import verdicts

    wire = RawWire(verdicts.targets_of(state.of(request.config), _a2a_subject, a2a_client_config))
    yield wire
    wire.close()


@pytest.fixture
def _a2a_check(request: pytest.FixtureRequest) -> ItemCheck:
    found: ItemCheck = request.param
    return found


@pytest.fixture(scope="session")
def _a2a_subject(_a2a_endpoint: BenchRun) -> Subject:
    from pytest_a2a_bench.plugin.conformance import verdicts

    return verdicts.subject_of(_a2a_endpoint)


@pytest.fixture(scope="session")
def _a2a_judge(
    request: pytest.FixtureRequest, _a2a_endpoint: BenchRun, _a2a_subject: Subject, a2a_client_config: ClientConfig
) -> Judge:
    from pytest_a2a_bench.plugin.conformance import verdicts

    return verdicts.start_judge(request.session, _a2a_endpoint, _a2a_subject, a2a_client_config)


@pytest.fixture
def _a2a_key(request: pytest.FixtureRequest) -> ItemTrial:
    found: ItemTrial = request.param
    return found


@pytest.fixture(scope="session")
def _a2a_endpoint(request: pytest.FixtureRequest) -> BenchRun:
    run = state.of(request.config)
    run.used = True
    if run.endpoint is None:
        from pytest_a2a_bench.plugin.trials import outcome

        outcome.fail_without_endpoint(request.config, run)
    return run


@pytest.fixture(scope="session")
def _a2a_connection(_a2a_endpoint: BenchRun, a2a_client_config: ClientConfig) -> Iterator[AgentConnection]:
    from pytest_a2a_bench.plugin import preflight

    connection = preflight.open_connection(_a2a_endpoint, a2a_client_config)
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
    from pytest_a2a_bench.plugin import preflight
    from pytest_a2a_bench.plugin.trials import outcome, telemetry
    from pytest_a2a_bench.plugin.trials.schedule import Schedule
    from pytest_a2a_bench.results.store import Store
    from pytest_a2a_bench.trials.runner import Runner

    run, config = _a2a_endpoint, request.config
    store = Store(run.results)
    runner = Runner(
        dataclasses.replace(run.target, endpoint=run.settings.endpoint),
        lambda: _a2a_connection,
        store,
        run.run_id,
        metadata=a2a_message_metadata,
        agent=run.agent_identity,
        reached=preflight.differences(run, _a2a_connection.config),
        tapes=preflight.tapes(run, _a2a_connection.config.secrets),
        tracing=telemetry.start(run),
        prepare=lambda key, metadata: config.hook.pytest_a2a_bench_prepare_trial(key=key, metadata=metadata),
    )
    ahead = outcome.trials_ahead(request.session, run)
    run.schedule = Schedule(
        runner, run.settings.concurrency, ahead, outcome.ticker(config, run), outcome.suspects(ahead, run, store)
    )
    return run.schedule
