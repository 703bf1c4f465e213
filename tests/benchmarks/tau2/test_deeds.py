"""What the scripted user does with a bank's forms: what it was asked for, with what the agent has said of it."""

from __future__ import annotations

import json

import pytest

from pytest_a2a_bench.agents.brain import Conversation
from pytest_a2a_bench.agents.brains import next_line
from pytest_a2a_bench.benchmarks.tau2 import player
from pytest_a2a_bench.benchmarks.tau2.user import device
from pytest_a2a_bench.benchmarks.tau2.user.device import Act
from pytest_a2a_bench.benchmarks.tau2.user.scenario import Scenario
from pytest_a2a_bench.benchmarks.tau2.user.script import Script
from pytest_a2a_bench.model import AgentSaid, ToolCall

SCENARIO = "You are Ann Lee and earn $120,000 a year. You want a card for a truck and have no subscription."
APPLY = (
    "apply_for_credit_card",
    {"card_type": "Bronze Card", "customer_name": "Ann Lee", "annual_income": 120000.0, "subscription": False},
)
DISPUTE = (
    "call_discoverable_user_tool",
    {
        "discoverable_tool_name": "submit_dispute_0589",
        "arguments": json.dumps({"id": "txn_1", "why": ["late"], "n": None}),
    },
)
TOOLS = ("apply_for_credit_card", "call_discoverable_user_tool")


def script() -> Script:
    made = Script(Scenario(SCENARIO), tools=TOOLS, own=[APPLY, DISPUTE])
    made.hear("Hi! How can I help you today?")
    return made


@pytest.mark.parametrize(
    "text",
    [
        "I recommend the Bronze Card. Please apply for that credit card now.",
        'Please use apply_for_credit_card with card_type "Bronze Card".',
        "You can apply for the **Bronze Card**, our credit card for business.",
    ],
)
def test_a_form_is_filled_in_when_the_agent_has_said_which(text: str) -> None:
    user = script()
    assert user.hear(text) == APPLY
    # Once.
    assert user.hear("Please apply for the credit card Bronze Card again.") != APPLY


@pytest.mark.parametrize(
    "text",
    [
        "Please apply for the Silver Card, a credit card for business.",
        "The Bronze Card gives the most back.",
        "Please apply for a credit card.",
    ],
)
def test_another_recommendation_is_not_followed(text: str) -> None:
    assert script().hear(text) != APPLY


def test_a_tool_that_was_unlocked_is_called_with_what_was_said() -> None:
    assert script().hear("Please submit_dispute_0589 for another transaction, which was late.") != DISPUTE
    assert script().hear("Please use submit_dispute_0589 for txn_1: late.") == DISPUTE


def test_several_at_once_in_their_order() -> None:
    user = script()
    first = user.hear("Apply for the credit card Bronze Card, then use submit_dispute_0589 for txn_1 (late).")
    assert (first, user.after_action(["ok"])) == (APPLY, DISPUTE)


def test_what_is_wanted_often_is_done_as_often_as_it_is_asked_for() -> None:
    insist: tuple[str, dict[str, str]] = ("request_transfer", {})
    user = Script(Scenario(SCENARIO), tools=["request_transfer"], own=[insist] * 8)
    user.hear("Hi! How can I help you today?")
    for _ in range(8):
        assert user.hear("Please use request_transfer.") == insist
        assert "I have done that" in str(user.after_action(["submitted"]))


def test_it_waits_for_what_is_still_to_do() -> None:
    user = script()
    assert "Please make sure that everything is done" in str(user.hear("Everything that can be done for you is done."))


def test_a_phone_is_no_matter_of_forms() -> None:
    assert device.own_deeds([("reboot_device", {})], ["check_status_bar", "reboot_device"]) == []
    assert device.own_deeds([APPLY, ("other", {})], TOOLS) == [Act(*APPLY)]


def test_arguments_that_are_no_json_are_left_alone() -> None:
    odd = Act("submit_form", {"arguments": "{not json", "amount": 5, "nothing": None})
    assert device.asked_for("Submit the form for 5.", [odd], "") == (odd,)
    assert device.asked_for("Submit the form for 6.", [odd], "") == ()


def test_the_oracle_tells_the_user_its_part_where_the_gold_has_it() -> None:
    actions = [
        {"name": "unlock", "arguments": {}},
        {"name": "use_it", "arguments": {}, "requestor": "user"},
        {"name": "close", "arguments": {}},
        {"name": "sign", "arguments": {}, "requestor": "user"},
    ]
    gold = player.read_gold({"evaluation_criteria": {"actions": actions}})
    assert gold.told_after == (1, 2)
    said: list[AgentSaid] = []
    for _ in range(5):
        said.append(next_line(gold, Conversation(own=list(said))))
    assert [line.text or [c.name for c in line.calls] for line in said] == [
        ["unlock"],
        "Please use use_it.",
        ["close"],
        "Please use sign.",
        "Everything that can be done for you is done.",
    ]
    assert isinstance(said[0].calls[0], ToolCall)
