"""Streams, subscriptions and cancelling: a correct server, one without streaming, and broken ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from broken_rpc import broken_rpc
from full_agent import Features, full_agent
from judged import SCRIPTED, faults, judge, passed
from one_test import in_one_test

from pytest_a2a_bench.conformance.finding import CheckResult


@pytest.fixture(scope="module")
def correct() -> Iterator[dict[str, CheckResult]]:
    with full_agent() as url:
        # What is to be cancelled must still run when it is, however busy the machine.
        longer = {**SCRIPTED, "slow": "slow 3 done"}
        streams = judge(url, groups=("streaming", "subscribe"))
        yield streams | judge(url, groups=("cancel",), prompts=longer, timeout=60)


def test_a_correct_server_has_only_the_faults_of_its_executor(correct: dict[str, CheckResult]) -> None:
    # The scripted executor never marks the last chunk.
    assert faults(correct) == {}


def test_every_check_that_applies_was_made(correct: dict[str, CheckResult]) -> None:
    ids = {r.requirement.id for r in correct.values() if r.outcome != "skipped"}
    streams = {f"STREAM-{n:03}" for n in range(1, 21)} - {"STREAM-012"}
    subscriptions = {f"SUB-{n:03}" for n in range(1, 8)} - {"SUB-005"}
    assert ids == streams | subscriptions | {f"CAN-{n:03}" for n in range(1, 8)}


def test_without_the_capability_streaming_is_refused() -> None:
    with full_agent(Features(streaming=False)) as url:
        results = judge(url, groups=("streaming", "subscribe"))
    assert faults(results) == {}
    assert passed(results) == {"STREAM-012", "SUB-005"}


def test_without_prompts_the_summary_says_which_to_give() -> None:
    with full_agent() as url:
        results = judge(url, ids=["STREAM-013", "CAN-001"], prompts={"task": "task hi"})
    assert {r.outcome for r in results.values()} == {"skipped"}
    assert all("slow" in r.reason and "--a2a-scenarios" in r.reason for r in results.values())


TASK = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}
START = {"task": {**TASK, "status": {"state": "TASK_STATE_WORKING"}}}
IDS = {"taskId": "t-1", "contextId": "c-1"}
END = {"statusUpdate": {**IDS, "status": {"state": "TASK_STATE_COMPLETED"}}}
WORKING = {"statusUpdate": {**IDS, "status": {"state": "TASK_STATE_WORKING"}}}
ARTIFACT = {"artifactUpdate": {**IDS, "artifact": {"artifactId": "a", "parts": [{"text": "x"}]}}}
MESSAGE = {"message": {"messageId": "m", "contextId": "c-1", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}}
CHECKED = [f"STREAM-{number:03}" for number in (1, 2, 4, 5, 7, 8, 9, 15, 16)]


@in_one_test(
    ("events", "broken"),
    [
        ([START, WORKING, END], set()),
        ([START, WORKING, END, {"task": TASK}], set()),
        ([WORKING, END], {"STREAM-002"}),
        ([START, MESSAGE, END], {"STREAM-004"}),
        ([START, WORKING], {"STREAM-005", "STREAM-016"}),
        ([START, {**WORKING, **ARTIFACT}, END], {"STREAM-007"}),
        ([START, {}, END], {"STREAM-007"}),
        ([START, {"statusUpdate": {**END["statusUpdate"], "taskId": "t-2"}}], {"STREAM-008"}),
        ([START, END, WORKING], {"STREAM-005", "STREAM-015", "STREAM-016"}),
        ([START, ARTIFACT, END], {"STREAM-016"}),
    ],
)
def test_broken_streams_fail_their_checks(events: list[Any], broken: set[str]) -> None:
    with broken_rpc(TASK, events) as url:
        results = judge(url, ids=CHECKED)
    assert {r.requirement.id for r in results.values() if r.outcome == "failed"} == broken
    for result in results.values():
        for finding in result.findings:
            assert finding.exchanges
            assert "SendStreamingMessage" in finding.exchanges[0].request


@pytest.mark.parametrize(
    ("options", "broken"),
    [
        ({"media_type": "application/json-seq"}, {"STREAM-001"}),
        ({"rpc_id": "someone-else"}, {"STREAM-009"}),
        # Longer than anything is waited for, however busy the machine is.
        pytest.param({"linger": 60.0}, {"STREAM-005"}, marks=pytest.mark.slow),
    ],
)
def test_broken_transports_fail_their_checks(options: dict[str, Any], broken: set[str]) -> None:
    with broken_rpc(TASK, [START, END], **options) as url:
        results = judge(url, ids=CHECKED, timeout=3.0)
    assert {r.requirement.id for r in results.values() if r.outcome == "failed"} == broken


def test_findings_are_json() -> None:
    with broken_rpc(TASK, [END]) as url:
        results = judge(url, ids=["STREAM-002"])
    (finding,) = results["1.0/STREAM-002[JSONRPC]"].findings
    assert json.loads(json.dumps(finding.to_json()))["pointer"] == "/0"
