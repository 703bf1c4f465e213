"""The fixtures that tests use: ``trial``, ``bench_task``, ``agent_card``, ``a2a_client``, and those to override.

Registered in every pytest run, so each fixture imports its own needs when it is requested.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.card import AgentCard
    from pytest_a2a_bench.a2a.client import AgentConnection
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.conformance.clients.observed import ObservedAgent
    from pytest_a2a_bench.conformance.engine import Judge
    from pytest_a2a_bench.conformance.finding import CheckResult, Finding
    from pytest_a2a_bench.conformance.raw import RawWire
    from pytest_a2a_bench.conformance.report import CheckRow
    from pytest_a2a_bench.conformance.subject import Subject
    from pytest_a2a_bench.dialects import Dialect
    from pytest_a2a_bench.model import BenchTask, TrialResult
    from pytest_a2a_bench.plugin.check_items import ItemCheck
    from pytest_a2a_bench.plugin.schedule import Schedule
    from pytest_a2a_bench.plugin.state import BenchRun, ItemTrial


@pytest.fixture
def trial(request: pytest.FixtureRequest, _a2a_key: ItemTrial, _a2a_schedule: Schedule) -> TrialResult:
    """The finished conversation of this item's task: success, reward, turns, latency, tokens, cost, transcript."""
    from pytest_a2a_bench.plugin import schedule, state

    return schedule.receive(request.node, _a2a_key.key, _a2a_schedule, state.of(request.config))


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
def a2a_dialect(request: pytest.FixtureRequest) -> Dialect:
    """The dialect of ``--a2a-dialect``: writes messages to an agent and reads its answers; needs no agent."""
    from pytest_a2a_bench import dialects
    from pytest_a2a_bench.plugin import options, state

    is_usual = options.is_resting(request.config)
    return dialects.get("auto" if is_usual else state.of(request.config).plan.settings.dialect)


@pytest.fixture(scope="session")
def a2a_message_metadata() -> Mapping[str, Any]:
    """Metadata that goes with every message to the agent. Override it (session-scoped) to send some."""
    return {}


@pytest.fixture
def _a2a_key(request: pytest.FixtureRequest) -> ItemTrial:
    found: ItemTrial = request.param
    return found


def _refuse(fixture: str, wanted: str, found: object) -> NoReturn:
    pytest.fail(f"the fixture {fixture} must return {wanted}; it returned {found!r}", pytrace=False)


@pytest.fixture(scope="session")
def _a2a_endpoint(request: pytest.FixtureRequest) -> BenchRun:
    from pytest_a2a_bench.plugin import state

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
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.plugin.schedule import connect_each

    if not isinstance(a2a_client_config, ClientConfig):
        _refuse("a2a_client_config", "a ClientConfig", a2a_client_config)
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
    from pytest_a2a_bench.plugin import schedule

    try:
        wrong = any(not isinstance(name, str) for name in a2a_message_metadata)
        json.dumps(dict(a2a_message_metadata))
    except (TypeError, ValueError):
        wrong = True
    if wrong:
        _refuse("a2a_message_metadata", "a dict of JSON", a2a_message_metadata)
    return schedule.start_schedule(request.session, _a2a_endpoint, _a2a_connections, a2a_message_metadata)


# --- tests that judge the protocol ---


@pytest.fixture
def conformance_check(request: pytest.FixtureRequest, _a2a_check: ItemCheck, _a2a_subject: Subject) -> CheckRow:
    """The verdict on this item's requirement: passed, status, findings."""
    from pytest_a2a_bench.plugin import state, verdicts

    run = state.of(request.config)
    if _a2a_check.suite == "card":
        result = verdicts.judge_card(_a2a_check, request.getfixturevalue("_a2a_card_results"))
    else:
        judge: Judge = request.getfixturevalue("_a2a_judge")
        result = verdicts.judge_protocol(_a2a_check, _a2a_subject, judge)
    return verdicts.receive(request.node, result, run)


@pytest.fixture(scope="session")
def card_findings(_a2a_subject: Subject) -> list[Finding]:
    """The findings about the agent's card: a list with rule, severity, pointer, found, expected, fix."""
    return list(_a2a_subject.findings)


@pytest.fixture(scope="session")
def conformance_findings(request: pytest.FixtureRequest, _a2a_subject: Subject, _a2a_judge: Judge) -> list[Finding]:
    """The findings about the whole agent, card and protocol: every check of the profile is made, once per session."""
    from pytest_a2a_bench.plugin import state

    profile = state.of(request.config).settings.conformance_profile
    every = [] if _a2a_subject.problem else _a2a_subject.plan()
    planned = [p for p in every if p.requirement.is_in(profile)]
    _a2a_judge.start(planned)
    results = [_a2a_judge.result(p) for p in planned]
    # What another finding explains is no defect of its own.
    found = [finding for result in results if result.outcome != "explained" for finding in result.findings]
    return [*_a2a_subject.findings, *found]


@pytest.fixture
def a2a_wire(
    request: pytest.FixtureRequest, _a2a_subject: Subject, a2a_client_config: ClientConfig
) -> Iterator[RawWire]:
    """Raw exchanges with the agent: ``a2a_wire.call("GetTask", {"id": "x"}).error`` is the error as received."""
    from pytest_a2a_bench.plugin import state, verdicts

    wire = verdicts.open_raw_wire(state.of(request.config), _a2a_subject, a2a_client_config)
    yield wire
    wire.close()


@pytest.fixture
def a2a_observed_agent() -> Iterator[ObservedAgent]:
    """A correct agent that judges its client, for tests of your own: ``url``, ``at()``, ``report()``, ``findings``."""
    from pytest_a2a_bench.conformance.clients.observed import ObservedAgent

    with ObservedAgent() as agent:
        yield agent


@pytest.fixture
def _a2a_check(request: pytest.FixtureRequest) -> ItemCheck:
    found: ItemCheck = request.param
    return found


@pytest.fixture(scope="session")
def _a2a_subject(_a2a_endpoint: BenchRun) -> Subject:
    from pytest_a2a_bench.plugin import verdicts

    return verdicts.subject_of(_a2a_endpoint)


@pytest.fixture(scope="session")
def _a2a_card_results(
    request: pytest.FixtureRequest, _a2a_endpoint: BenchRun, _a2a_subject: Subject
) -> dict[str, CheckResult]:
    from pytest_a2a_bench.plugin import verdicts

    return verdicts.card_results(_a2a_subject, _a2a_endpoint, request.session.items)


@pytest.fixture(scope="session")
def _a2a_judge(
    request: pytest.FixtureRequest, _a2a_endpoint: BenchRun, _a2a_subject: Subject, a2a_client_config: ClientConfig
) -> Judge:
    from pytest_a2a_bench.plugin import verdicts

    return verdicts.start_judge(request.session, _a2a_endpoint, _a2a_subject, a2a_client_config)
