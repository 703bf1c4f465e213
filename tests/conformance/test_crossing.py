"""Every rule in further cells: which there are, which a card allows, and that what is broken only there is found."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from faulty import agent
from faulty.catalogue import CROSSED, FAULTS
from mutation import judge
from rotating import rotating

from pytest_a2a_bench.conformance.catalogue import load_requirements, requirement
from pytest_a2a_bench.conformance.finding import VERSIONS, Requirement
from pytest_a2a_bench.conformance.variants import Declared, Variant, allowed, obstacle, variants

EVERYTHING = Declared(
    frozenset({"streaming", "pushNotifications", "extendedAgentCard"}),
    frozenset({"slow", "input", "auth", "task", "fail", "reject"}),
)
BARE = Declared(frozenset(), frozenset({"task"}))
CATALOGUE = [entry for version in VERSIONS for entry in load_requirements(version)]
VARIED: list[Requirement] = [entry for entry in CATALOGUE if list(variants(entry))]


class TestVariants:
    def test_each_is_of_a_requirement_that_has_a_check(self) -> None:
        assert len(VARIED) > 70
        assert all(entry.check for entry in CATALOGUE if entry.is_widened)

    def test_none_is_the_representative_or_there_twice(self) -> None:
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

    def test_what_the_card_does_not_declare_is_not_tried(self) -> None:
        assert {variant.operation for variant in allowed(requirement("VER-001"), BARE)} == {
            "SendMessage",
            "ListTasks",
            "CancelTask",
        }
        assert allowed(requirement("DM-002"), BARE) == [Variant(state="completed")]
        assert len(allowed(requirement("DM-002"), EVERYTHING)) == 7

    def test_an_obstacle_has_its_reason(self) -> None:
        assert (
            obstacle(Variant("SubscribeToTask", "GetTask"), BARE) == "the card does not declare capabilities.streaming"
        )
        assert obstacle(Variant(state="failed"), BARE) == "there is no prompt for the scenario 'fail'"
        assert (
            obstacle(Variant("ListTasks", "GetTask"), Declared(frozenset(), frozenset(), "0.3"))
            == "0.3 has no ListTasks"
        )

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


class TestFaults:
    def test_there_are_five_hundred_and_each_is_in_one_place(self) -> None:
        assert len(FAULTS) >= 500
        for fault in CROSSED.values():
            # Those of 1.0 that 0.3 has, too, are everywhere there.
            is_alone = bool(fault.operations) or bool(fault.states) or len(fault.bindings) == 1
            assert is_alone or fault.name.endswith("@0.3"), fault.name
            assert fault.breaks, fault.name


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
    verdict = asyncio.run(judge(FAULTS["cancel-terminal@FAILED"], ids={"CAN-002"}, breadth="standard"))

    assert verdict.rules == set()


@pytest.mark.slow
def test_faults_in_one_place_are_found_by_their_own_requirement() -> None:
    async def kill() -> list[str]:
        slots = asyncio.Semaphore(3)

        async def one(name: str) -> str:
            async with slots:
                fault = CROSSED[name]
                verdict = await judge(fault, ids=set(fault.breaks))
                return "" if set(fault.breaks) <= verdict.rules else f"{name}: {verdict.lines}"

        found = await asyncio.gather(*map(one, rotating(sorted(CROSSED), 4)))
        return [line for line in found if line]

    assert asyncio.run(kill()) == []
