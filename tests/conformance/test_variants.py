"""Every rule in further cells: which there are, which a card allows, and that what is broken only there is found."""

import asyncio
import dataclasses
import itertools
from collections.abc import Container

import pytest
from a2a import types
from faulty import agent
from faulty.catalogue import FAULTS
from faulty.fault import HTTP, Fault, FaultyCall, Json, Packet
from mutation import judge

from pytest_a2a_bench.conformance.catalogue import load_requirements, requirement
from pytest_a2a_bench.conformance.finding import VERSIONS, Requirement
from pytest_a2a_bench.conformance.protocol.payloads import is_known, is_misspelt
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.variants import Variant, allowed, is_possible, variants

BARE = Target("", {}, "1.0", "JSONRPC", "", breadth="full")
EVERYTHING = dataclasses.replace(
    BARE,
    card={"capabilities": dict.fromkeys(("streaming", "pushNotifications", "extendedAgentCard"), True)},
    scenarios=Scenarios(dict.fromkeys(("slow", "input", "auth", "task", "fail", "reject"), "a prompt")),
)
CATALOGUE = [entry for version in VERSIONS for entry in load_requirements(version)]
VARIED: list[Requirement] = [entry for entry in CATALOGUE if list(variants(entry))]


class TestVariants:
    def test_each_is_of_a_checked_requirement_and_none_is_the_representative_or_there_twice(self) -> None:
        assert len(VARIED) > 70
        assert all(entry.check for entry in CATALOGUE if entry.is_widened)
        for entry in VARIED:
            found = list(variants(entry))
            assert found
            assert Variant() not in found
            assert len(set(found)) == len(found)

    def test_a_rule_is_crossed_with_operation_and_state(self) -> None:
        found = set(variants(requirement("SEND-007")))
        assert Variant(state="failed") in found
        assert Variant("SendStreamingMessage", "SendMessage", "rejected") in found
        assert len(found) == 8

    def test_undeclared_capabilities_are_not_tried(self) -> None:
        operations = {variant.operation for variant in allowed(requirement("VER-001"), BARE)}
        assert operations == {"SendMessage", "ListTasks", "CancelTask"}
        assert allowed(requirement("DM-002"), BARE) == [Variant(state="completed")]
        assert len(allowed(requirement("DM-002"), EVERYTHING)) == 7

    def test_a_variant_needs_its_capability_prompt_and_operation(self) -> None:
        listing = Variant("ListTasks", "GetTask")
        for variant in (Variant("SubscribeToTask", "GetTask"), Variant(state="failed")):
            assert is_possible(variant, EVERYTHING)
            assert not is_possible(variant, BARE)
        assert is_possible(listing, BARE)
        assert not is_possible(listing, dataclasses.replace(BARE, version="0.3"))

    def test_another_operation_is_asked_about_the_same_task(self) -> None:
        asked = Variant("CreateTaskPushNotificationConfig", "GetTask").asked("GetTask", {"id": "t", "tenant": "n"})
        sent = Variant("SendMessage", "GetTask").asked("GetTask", {"id": "t"})
        broken = Variant("SendStreamingMessage", "SendMessage").asked("SendMessage", {"message": {"parts": "x"}})
        assert asked[1]["taskId"] == "t"
        assert asked[1]["tenant"] == "n"
        assert sent[1]["message"]["taskId"] == "t"
        assert broken == ("SendStreamingMessage", {"message": {"parts": "x"}})
        assert Variant("CancelTask", "GetTask").asked("ListTasks", {}) == ("ListTasks", {})

    def test_near_ids_are_others(self) -> None:
        assert Variant(near="prefix").unknown("task-12") == "task-1"
        assert Variant(near="longer").unknown("task-12") == "task-120"


def test_a_fault_in_one_place_is_found_there() -> None:
    verdict = asyncio.run(judge(FAULTS["cancel-terminal@FAILED"], ids={"CAN-002"}))
    assert verdict.rules == {"CAN-002"}
    assert "a task that is failed" in verdict.lines[0]


def test_beside_short_ids_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    # Counted ids of one character: what is beside one is another task's, or nothing at all.
    numbers = itertools.count(1)
    monkeypatch.setattr(agent, "new_id", lambda: str(next(numbers)))
    verdict = asyncio.run(judge(None, "full", ids={"GET-002", "CAN-003", "SUB-004", "PUSH-009"}))
    assert verdict.rules == set(), verdict.lines
    assert verdict.checked == {"GET-002", "CAN-003", "SUB-004", "PUSH-009"}


def test_only_the_whole_breadth_finds_it() -> None:
    verdict = asyncio.run(judge(FAULTS["task-id-of-context@SendStreamingMessage"], ids={"MT-003"}, breadth="standard"))
    assert verdict.rules == set()


# What agents may do although few of them do: a correct agent that takes a liberty has no findings.


LISTS = {f"LIST-{n:03}" for n in range(1, 17)}
GUARDED = {"XCARD-003", "AUTH-001", "AUTH-002", "AUTH-003", "AUTH-004", "AUTH-005", "AUTH-009"}


def _with_own_binding(card: Json) -> Json:
    own = {"url": "mqtt:agents/odd", "protocolBinding": "https://odd.example/bindings/mqtt", "protocolVersion": "1.0"}
    return {**card, "supportedInterfaces": [*card["supportedInterfaces"], own]}


def _at_v1(card: Json) -> Json:
    for interface in card["additionalInterfaces"]:
        interface["url"] += "/v1" if interface["transport"] == "HTTP+JSON" else ""
    return card


def _without_body(_: FaultyCall, packet: Packet) -> Packet:
    if packet.status != 401:
        return packet
    return Packet(401, {"www-authenticate": packet.headers["www-authenticate"]}, b"")


# gRPC has no way to write what the others may.
ALONE = {entry.id for entry in load_requirements("1.0") if not entry.id.startswith("EQ-")}

LIBERTIES: dict[str, tuple[Fault, set[str]]] = {
    # Section 5.7: unknown members are ignored; RFC 8259 and HTML's event streams say how else the same may be written.
    "odd writing": (Fault(bindings=HTTP, switches=frozenset({"odd-writing"})), ALONE),
    # Section 3.3.2 names the status 401, and for JSON-RPC no code: whoever guards the door need not speak JSON-RPC.
    "bare refusal": (Fault(variant="guarded", bindings=HTTP, packet=_without_body), GUARDED),
    # a2a.proto on page_size: "The service may return fewer than this value".
    "pages of two": (Fault(switches=frozenset({"short-pages"})), {*LISTS, "HJ-004", "HJ-005"}),
    # Section 4.3.3: "duplicate deliveries may occur".
    "notifies twice": (Fault(switches=frozenset({"notifies-twice"})), {f"PUSH-{n:03}" for n in range(11, 18)}),
    # Section 3.5.1: notifications are sent "when task state changes".
    "notifies of states": (
        Fault(delivery=lambda packet: None if b"artifactUpdate" in packet.body else packet),
        {"PUSH-011", "PUSH-017"},
    ),
    # Sections 3.1.2 and 3.1.6 have a stream end with the task, 11.7 on interrupted states, too.
    "stream open at input": (Fault(switches=frozenset({"open-input"})), {"STREAM-005", "STREAM-006", "STREAM-015"}),
    # Section 3.3.1: a task may be "canceled and purged".
    "forgets canceled": (
        Fault(switches=frozenset({"forgets-canceled"})),
        {"SEND-007", "SUB-003", "GET-001", "GET-007", "CAN-002", "CAN-005", "LIST-011"},
    ),
    # Section 8.3.2 has the tenant in every request, and so it may be looked at first.
    "tenant first": (Fault(variant="tenant", switches=frozenset({"tenant-first"})), {"ERR-012", "ERR-014"}),
    # Sections 5.3 and 11.3.2 have POST, the proto file has GET.
    "subscribes by GET": (Fault(subscribing=("GET",)), {"HJ-001", "SUB-001", "SUB-002", "SUB-007"}),
    # Of 0.3, where section 7 writes HTTP+JSON with the objects of the schema, and the proto file with its own; /v1 is
    # in the paths, and in an example of the URL before them.
    "kinds over HTTP+JSON": (
        Fault(version="0.3", switches=frozenset({"kinds-over-http"}), card=_at_v1),
        {entry.id for entry in load_requirements("0.3") if "HTTP+JSON" in entry.bindings and entry.check}
        - {"V03-AUTH-001", "V03-AUTH-002", "V03-XCARD-002", "V03-STREAM-004", "V03-PUSH-004"},
    ),
    # Section 12.7: a binding of its own has a URL of its own.
    "binding of its own": (Fault(card=_with_own_binding), {"CARD-007"}),
}


HTTP_ONLY = {"HJ-001", "HJ-004", "V03-REST-001"}
LONG = {"pages of two", "notifies twice", "kinds over HTTP+JSON"}
"""Liberties that need so many calls that they are for the night alone."""
DAILY = {name: ids for name, (_, ids) in LIBERTIES.items() if name not in LONG and ids is not ALONE}


# On one binding where nothing is particular to another; on all, and a whole judgement, at night.
@pytest.mark.parametrize(
    ("liberty", "transport"),
    [
        *((name, "all" if HTTP_ONLY & ids else "jsonrpc") for name, ids in DAILY.items()),
        *(pytest.param(name, "all", marks=pytest.mark.slow) for name in LIBERTIES),
    ],
)
def test_a_liberty_is_none_that_is_found(liberty: str, transport: str) -> None:
    fault, ids = LIBERTIES[liberty]
    verdict = asyncio.run(judge(fault, ids=ids, transport=transport))
    assert verdict.lines == []
    assert ids is ALONE or verdict.checked >= ids - {"CAN-005"}


@pytest.mark.parametrize(("sizes", "outcome"), [((-1,), "failed"), ((0,), "failed"), ((101,), "warned")])
def test_a_page_size_above_the_maximum_is_a_warning(sizes: Container[int], outcome: str) -> None:
    def accepted(call: FaultyCall, params: Json) -> Json:
        return {**params, "pageSize": 100} if params.get("pageSize") in sizes and params["pageSize"] != 1 else params

    verdict = asyncio.run(judge(Fault(operations=("ListTasks",), request=accepted), ids={"LIST-009"}))

    assert verdict.lines
    assert {line.partition(":")[0].partition(" ")[2] for line in verdict.lines} == {outcome}


def test_a_message_that_names_no_context_is_a_warning() -> None:
    # Section 3.4.1 forbids another contextId; whether a message must name its own is contradictory.
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}
    verdict = asyncio.run(judge(Fault(reply=lambda *_: {"message": message}), ids={"MT-002"}, transport="jsonrpc"))
    assert [line.partition(":")[0] for line in verdict.lines] == ["1.0/MT-002[JSONRPC] warned"]


def test_an_agent_whose_answers_are_called_html_is_there() -> None:
    def called_html(_: FaultyCall, packet: Packet) -> Packet:
        return Packet(packet.status, {**packet.headers, "content-type": "text/html"}, packet.body)

    verdict = asyncio.run(judge(Fault(packet=called_html), ids={"CARD-007", "JR-001"}, transport="jsonrpc"))

    assert verdict.rules == {"JR-001"}


def test_a_slash_in_a_path_is_a_warning() -> None:
    verdict = asyncio.run(judge(Fault(switches=frozenset({"slashes-separate"})), ids={"HJ-006"}))
    assert [line.partition(":")[0] for line in verdict.lines] == ["1.0/HJ-006[HTTP+JSON] warned"]


# Those of what operations answer with; a name that is forgotten would not be judged.
MESSAGES = (
    *(types.Task, types.TaskStatus, types.Message, types.Part, types.Artifact, types.TaskStatusUpdateEvent),
    *(types.TaskArtifactUpdateEvent, types.ListTasksResponse, types.StreamResponse, types.SendMessageResponse),
    *(types.TaskPushNotificationConfig, types.ListTaskPushNotificationConfigsResponse, types.AuthenticationInfo),
)


def test_every_member_of_an_answer_is_known() -> None:
    names = {field.json_name for message in MESSAGES for field in message.DESCRIPTOR.fields}
    assert {name for name in names if not is_known(name)} == set()
    assert not any(is_misspelt(name) for name in names)
    assert is_misspelt("context_id")
    assert is_misspelt("ContextId")
    assert not is_misspelt("x_note")
