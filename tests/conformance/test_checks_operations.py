"""GetTask, ListTasks and follow-up messages, on a correct server and on one that answers anything."""

from collections.abc import Iterator
from typing import Any

import pytest
from broken_rpc import broken_rpc
from judged import SCRIPTED, faults, judge, passed
from one_test import in_one_test
from scripted import Features, full_agent

from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.finding import BINDINGS
from pytest_a2a_bench.conformance.session.health import Pace


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """URL of a correct agent, on a2a-sdk's own server."""
    with full_agent() as found:
        yield found


HTTP = ("JSONRPC", "HTTP+JSON")
# What a2a-sdk 1.3.0 gets wrong, each read against the specification by hand.
DEFECTS = {
    # A state that does not exist lists everything; protobuf has no form for such a name.
    ("LIST-013", "failed"): HTTP,
    # Notifications are application/json, their addresses are not looked at, and a slow webhook is waited for.
    ("PUSH-013", "warned"): BINDINGS,
    ("PUSH-018", "warned"): BINDINGS,
    ("PUSH-019", "warned"): BINDINGS,
    # Any media type is accepted unless the agent's author switches the check on.
    ("SEND-009", "warned"): BINDINGS,
    # A part without any content is accepted.
    ("VAL-006", "failed"): BINDINGS,
    # protobuf's JSON reader for Python skips characters that are no base64.
    ("VAL-010", "failed"): HTTP,
    # Only the major version is compared, and gRPC does not look at it at all.
    ("VER-004", "failed"): BINDINGS,
    ("VER-001", "failed"): ("GRPC",),
    ("VER-002", "failed"): ("GRPC",),
    ("VER-007", "failed"): ("GRPC",),
    ("GR-002", "failed"): ("GRPC",),
}
# It takes any media type, has push notifications and an extended card, and demands no extension.
NEVER_ANSWERED = {
    *(
        f"ERR-{binding}-{name}"
        for binding in ("JSON", "HTTP", "GRPC")
        for name in (
            *("ContentTypeNotSupported", "PushNotificationNotSupported"),
            *("ExtendedAgentCardNotConfigured", "ExtensionSupportRequired"),
        )
    ),
    "ERR-GRPC-VersionNotSupported",
}
BASIC = ("send", "validation", "errors", "versioning", "data-model", "data-parts", "binding")


@pytest.mark.parametrize(
    ("groups", "unmade"),
    [
        (("streaming", "subscribe", "cancel"), {"STREAM-012", "SUB-005"}),
        # Another user's token is needed for LIST-017.
        pytest.param(("get-task", "list-tasks", "multi-turn"), {"LIST-017"}, marks=pytest.mark.slow),
        pytest.param(("push",), {"PUSH-008"}, marks=pytest.mark.slow),
        pytest.param(BASIC, {"PART-007", "PART-008", "VER-005", "VER-006"} | NEVER_ANSWERED, marks=pytest.mark.slow),
    ],
    ids=lambda value: "",
)
def test_every_check_finds_a2a_sdks_true_defects(url: str, groups: tuple[str, ...], unmade: set[str]) -> None:
    # What is to be cancelled must still run when it is, however busy the machine.
    prompts = {**SCRIPTED, "slow": "slow 3 done", "crash": "crash boom", "large": "task "}
    results = judge(url, groups=groups, prompts=prompts, versions=["1.0"], timeout=60)
    entries = {r.id: r for r in load_requirements("1.0") if r.check and r.group in groups}
    known = {f"{id}[{b}]": outcome for (id, outcome), bindings in DEFECTS.items() if id in entries for b in bindings}
    found = faults(results)
    # On a busy machine an answer may take as long without a webhook: its delay is not seen then, or not every time.
    delays = {name: outcome for name, outcome in known.items() if name.startswith("PUSH-019")}
    assert {found.get(name) for name in delays} <= {None, "inconclusive", *delays.values()}
    assert found | delays == known
    idle = set(entries) - {r.requirement.id for r in results.values() if r.outcome != "skipped"}
    assert idle == unmade


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


# Streams, subscriptions and cancelling: a correct server, one without streaming, and broken ones.


def test_streams_that_our_own_limit_cuts_show_nothing(url: str) -> None:
    ids = ["STREAM-017", "STREAM-018", "SUB-002", "SUB-006", "EQ-004"]
    results = judge(url, ids=ids, prompts={**SCRIPTED, "slow": "slow 4 done"}, timeout=1)
    assert {r.outcome for r in results.values()} == {"skipped"}, faults(results)
    assert {"the time was up"} == {r.reason[:15] for r in results.values() if r.requirement.id == "SUB-002"}


@pytest.mark.parametrize(
    ("lacking", "groups", "refused"),
    [
        (Features(streaming=False), ("streaming", "subscribe"), {"STREAM-012", "SUB-005"}),
        (Features(push=False), ("push",), {"PUSH-008"}),
    ],
)
def test_what_is_no_capability_is_refused(lacking: Features, groups: tuple[str, ...], refused: set[str]) -> None:
    with full_agent(lacking) as url:
        results = judge(url, groups=groups)
    assert faults(results) == {}
    assert passed(results) == refused


def test_without_prompts_the_summary_says_which_to_give(url: str) -> None:
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
        ({"last": "[DONE]"}, {"STREAM-001", "STREAM-005"}),
        pytest.param({"linger": 60.0}, {"STREAM-005"}, marks=pytest.mark.slow),
    ],
)
def test_broken_transports_fail_their_checks(options: dict[str, Any], broken: set[str]) -> None:
    with broken_rpc(TASK, [START, END], **options) as url:
        results = judge(url, ids=CHECKED, timeout=3.0)
    # How long a stream stays open cannot be judged on a machine that is too busy, which the check says then.
    unjudged = {r.requirement.id for r in results.values() if "too busy" in r.reason}
    assert unjudged <= {"STREAM-005"}
    assert {r.requirement.id for r in results.values() if r.outcome == "failed"} == broken - unjudged
    assert not [r.reason for r in results.values() if "the stream did not work" in r.reason], "its events are read"


# Push notifications: a correct server notifies a real webhook; one without the capability refuses.


def test_a_slow_webhook_is_asked_about_alone_on_a_busy_agent(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "slowest", property(lambda pace: 0.0 if pace.is_alone else 1.0))
    results = judge(url, ids=["PUSH-019"], timeout=60)
    assert {"skipped"}.isdisjoint(r.outcome for r in results.values())


def test_agents_elsewhere_cannot_reach_the_webhook() -> None:
    card = {
        "supportedInterfaces": [
            {"url": "http://192.0.2.1:9/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
        "capabilities": {"pushNotifications": True},
    }
    results = judge("http://192.0.2.1:9", ids=["PUSH-016"], card=card, timeout=1)
    (result,) = results.values()
    assert result.outcome == "skipped"
    assert "192.0.2.1 cannot reach" in result.reason
