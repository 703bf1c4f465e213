"""GetTask, ListTasks and follow-up messages, on a correct server and on one that answers anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from broken_rpc import broken_rpc
from full_agent import full_agent
from judged import faults, judge

from pytest_a2a_bench.conformance.catalogue import load_requirements, requirement
from pytest_a2a_bench.conformance.finding import CheckResult

GROUPS = ("get-task", "list-tasks", "multi-turn")
# a2a-sdk 1.3.0 lists everything for a state that does not exist; protobuf has no form for such a name.
BOGUS_STATUS = {"LIST-013[JSONRPC]": "failed", "LIST-013[HTTP+JSON]": "failed"}


@pytest.fixture(scope="module")
def correct() -> Iterator[dict[str, CheckResult]]:
    with full_agent() as url:
        yield judge(url, groups=GROUPS)


@pytest.mark.slow
def test_a2a_sdk_has_its_one_true_defect(correct: dict[str, CheckResult]) -> None:
    assert faults(correct) == BOGUS_STATUS


def test_every_check_that_applies_was_made(correct: dict[str, CheckResult]) -> None:
    ids = {r.requirement.id for r in correct.values() if r.outcome != "skipped"}
    wanted = {r.id for r in load_requirements("1.0") if r.check and r.id.startswith(("GET-", "LIST-", "MT-"))}
    # Another user's token is needed for LIST-017.
    assert ids == wanted - {"LIST-017"}
    assert requirement("MT-011").uncheckable


DONE = {
    "id": "t-1",
    "contextId": "c-1",
    "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:00Z"},
    "history": [{"messageId": str(n), "role": "ROLE_USER", "parts": [{"text": "x"}]} for n in range(3)],
}


def test_a_server_that_always_says_the_same_fails_what_it_should() -> None:
    with broken_rpc(DONE, []) as url:
        results = judge(url, groups=("get-task", "multi-turn", "cancel"))
    failed = {r.requirement.id for r in results.values() if r.outcome in ("failed", "warned")}
    gets = {"GET-002", "GET-003", "GET-004", "GET-005", "GET-006"}
    assert failed == {*gets, "MT-002", "MT-003", "MT-005", "MT-007", "CAN-002", "CAN-003", "CAN-007"}
    # A SHOULD that is not met is a warning.
    assert {r.requirement.id for r in results.values() if r.outcome == "warned"} == {"GET-003"}


@pytest.mark.parametrize(
    ("task", "broken"),
    [
        ({**DONE, "id": "other"}, set()),
        ({**DONE, "status": {"state": "TASK_STATE_FAILED"}}, set()),
        ({"task": DONE}, {"GET-001"}),
    ],
)
def test_get_must_return_the_task_itself(task: dict[str, Any], broken: set[str]) -> None:
    with broken_rpc(task, []) as url:
        results = judge(url, ids=["GET-001"])
    assert {r.requirement.id for r in results.values() if r.outcome == "failed"} == broken
