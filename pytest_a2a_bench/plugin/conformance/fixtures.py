"""The fixtures of tests that judge the protocol.

Registered in every pytest run, so what they need is imported by the one that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.conformance.engine import Judge, RawWire
    from pytest_a2a_bench.conformance.finding import CheckResult, Finding
    from pytest_a2a_bench.conformance.report import Judgement
    from pytest_a2a_bench.conformance.subject import Subject
    from pytest_a2a_bench.plugin.conformance.check_items import ItemCheck
    from pytest_a2a_bench.plugin.run.state import BenchRun


@pytest.fixture
def conformance_check(request: pytest.FixtureRequest, _a2a_check: ItemCheck, _a2a_subject: Subject) -> Judgement:
    """The verdict on this item's requirement: passed, findings, result."""
    from pytest_a2a_bench.plugin.conformance import verdicts
    from pytest_a2a_bench.plugin.run import state

    run = state.of(request.config)
    if _a2a_check.suite == "card":
        result = verdicts.judge_card(_a2a_check, request.getfixturevalue("_a2a_card_results"))
    else:
        judge: Judge = request.getfixturevalue("_a2a_judge")
        result = verdicts.judge_protocol(_a2a_check, _a2a_subject, judge)
    return verdicts.receive(request.node, result, run)


@pytest.fixture(scope="session")
def card_findings(_a2a_subject: Subject) -> list[Finding]:
    """What is wrong with the agent's card: a list of findings with rule, severity, pointer, found, expected, fix."""
    return list(_a2a_subject.findings)


@pytest.fixture(scope="session")
def conformance_findings(request: pytest.FixtureRequest, _a2a_subject: Subject, _a2a_judge: Judge) -> list[Finding]:
    """What the whole agent does wrong, its card and its protocol: every check of the profile is made, once for all."""
    from pytest_a2a_bench.plugin.run import state

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
    """Raw exchanges with the agent: ``a2a_wire.call("GetTask", {"id": "x"}).error`` is what came, unread by any SDK."""
    from pytest_a2a_bench.plugin.conformance import verdicts
    from pytest_a2a_bench.plugin.run import state

    wire = verdicts.open_raw_wire(state.of(request.config), _a2a_subject, a2a_client_config)
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
def _a2a_card_results(
    request: pytest.FixtureRequest, _a2a_endpoint: BenchRun, _a2a_subject: Subject
) -> dict[str, CheckResult]:
    from pytest_a2a_bench.plugin.conformance import verdicts

    return verdicts.card_results(_a2a_subject, _a2a_endpoint, request.session.items)


@pytest.fixture(scope="session")
def _a2a_judge(
    request: pytest.FixtureRequest, _a2a_endpoint: BenchRun, _a2a_subject: Subject, a2a_client_config: ClientConfig
) -> Judge:
    from pytest_a2a_bench.plugin.conformance import verdicts

    return verdicts.start_judge(request.session, _a2a_endpoint, _a2a_subject, a2a_client_config)
