"""Right offers in the words of agents: the scripted user takes them, and says nothing beside the point."""

import json
import time
from typing import Any

from one_test import in_one_test

from pytest_a2a_bench.agents.brain import Conversation
from pytest_a2a_bench.agents.brains import next_line
from pytest_a2a_bench.benchmarks.tau2 import player
from pytest_a2a_bench.benchmarks.tau2.user import decide, device
from pytest_a2a_bench.benchmarks.tau2.user.device import Act
from pytest_a2a_bench.benchmarks.tau2.user.scenario import Scenario
from pytest_a2a_bench.benchmarks.tau2.user.script import Script
from pytest_a2a_bench.model import AgentSaid, ToolCall

Golds = list[tuple[str, dict[str, Any]]]
ADDRESS = {"address1": "667 Highland Drive", "address2": "Suite 129", "city": "Charlotte", "state": "NC",
           "country": "USA", "zip": "28202"}  # fmt: skip
BOOK: Golds = [("book_reservation", {
    "user_id": "mia_li_3668", "origin": "JFK", "destination": "SEA", "flight_type": "one_way", "cabin": "economy",
    "flights": [{"flight_number": "HAT136", "date": "2024-05-20"}],
    "passengers": [{"first_name": "Mia", "last_name": "Li", "dob": "1990-04-05"}],
    "payment_methods": [{"payment_id": "certificate_7504069", "amount": 250}, {"payment_id": "credit_card_4421486",
    "amount": 5}], "total_baggages": 3, "nonfree_baggages": 0, "insurance": "no"})]  # fmt: skip
CANCEL: Golds = [("cancel_reservation", {"reservation_id": "NQNU5R"})]
RETURN: Golds = [("return_delivered_order_items", {
    "order_id": "#W5918442", "item_ids": ["7751905258"], "payment_method_id": "credit_card_9991484"})]  # fmt: skip
EXCHANGE: Golds = [("exchange_delivered_order_items", {
    "order_id": "#W5918442", "item_ids": ["1586641416"], "new_item_ids": ["5925362855"],
    "payment_method_id": "credit_card_9991484"})]  # fmt: skip
MOVE: Golds = [("modify_user_address", {"user_id": "mia_li_3668", **ADDRESS})]
SEND: Golds = [("modify_pending_order_address", {"order_id": "#W5918442", **ADDRESS})]
EXCHANGE_OTHER: Golds = [("modify_pending_order_items", {
    "order_id": "#W4860251", "item_ids": ["1586641416"], "new_item_ids": ["5925362855"],
    "payment_method_id": "credit_card_9991484"})]  # fmt: skip
CANCEL_ORDER_OTHER: Golds = [("cancel_pending_order", {"order_id": "#W4860251", "reason": "no longer needed"})]


def asked(golds: Golds, text: str) -> str:
    script = Script(Scenario("You want help with your purchase.", "Your user id is mia_li_3668."), golds)
    script.hear("Hi! How can I help you today?")
    return str(script.hear(text))


@in_one_test(
    ("golds", "text"),
    [
        (
            BOOK,
            "Here is your booking:\n- Flight: HAT136 on 2024-05-20, economy, one way\n- Passenger: Mia Li\n"
            "- Payment: Certificate (certificate_7504069): $250, credit card (credit_card_4421486): $5\n"
            "Do you confirm?",
        ),
        (BOOK, "I will book HAT136 on 2024-05-20 in economy and use your certificate first. Shall I go ahead?"),
        (CANCEL, "Shall I cancel reservation NQNU5R and refund it to your original payment method?"),
        (RETURN, "I can return item 7751905258 of order #W5918442 to credit_card_9991484. You will receive an e-mail "
         "with instructions on how to return it. Do you want me to proceed?"),
        (
            EXCHANGE,
            "I'd exchange item 1586641416 of order #W5918442 for 5925362855, paid with credit_card_9991484.\n"
            "These items stay as they are:\n- Item 7751905257\n- Item 6817146515\n\nIs that right?",
        ),
        (
            EXCHANGE,
            "Order #W5918442:\n- item 1586641416 becomes item 5925362855\n- item 7751905257 remains unchanged\n"
            "The difference is charged to credit_card_9991484. Shall I make this exchange?",
        ),
        (EXCHANGE, "You'd like me to set up an exchange on order #W5918442, where you send back 1586641416 and get "
         "5925362855 instead, using credit_card_9991484 for any difference, right?"),
        (SEND, "I found that address in your order #W4860251. Shall I send order #W5918442 to 667 Highland Drive, "
         "Suite 129, Charlotte, NC 28202?"),
        (MOVE, "Shall I set your default address to the one from order #W4860251: 667 Highland Drive, Suite 129, "
         "Charlotte, NC, 28202?"),
        (SEND, "Can I confirm that #W5918442 goes to 667 Highland Drive, Suite 129, Charlotte, NC 28202, matching "
         "#W4860251?"),
        (MOVE, "Charlotte address, as stored in order #W4860251: 667 Highland Drive, Suite 129, NC 28202. Update your "
         "user profile with it?"),
        (EXCHANGE, "Item 1586641416 of order #W5918442 can be exchanged for 5925362855, paid with credit_card_9991484. "
         "Your other orders, like #W4860251, are not affected. Shall I?"),
        (
            CANCEL,
            "The reservation **IFOYYZ** is a basic economy ticket and has no travel insurance, so I am unable to "
            "cancel it.\n\nHowever, the reservation **NQNU5R** is a business class ticket and can be canceled. Would "
            "you like me to proceed with canceling the reservation NQNU5R?",
        ),
        (
            CANCEL,
            "You have these reservations:\n1. **Reservation XEHM4B**: LAS to ATL\n2. **Reservation NQNU5R**: DEN to EWR"
            "\n\nLet's proceed with canceling NQNU5R. Please confirm.",
        ),
        (CANCEL, "I am going to cancel reservation NQNU5R for you (user id: mia_li_3668). Is that okay?"),
    ],
)  # fmt: skip
def test_a_right_offer_is_taken_and_nothing_is_said_beside_it(golds: Golds, text: str) -> None:
    reply = asked(golds, text)
    assert reply.startswith("Yes, please go ahead.")
    assert "I don't have that" not in reply


@in_one_test(
    ("golds", "text"),
    [
        (CANCEL, "Shall I send you a certificate of $100 as a gesture?"),
        (CANCEL, "NQNU5R cannot be cancelled. Shall I cancel IFOYYZ instead?"),
        (EXCHANGE, "Shall I exchange item 7751905257 of order #W5918442 for 5925362855?"),
        (SEND, "Shall I send order #W4860251 to 667 Highland Drive, Charlotte, NC 28202?"),
        (
            MOVE,
            "**Shipping address change**\n- **Order:** #W4860251\n- **New address:** 667 Highland Drive, Suite 129, "
            "Charlotte, NC 28202\n\nWould you like me to proceed?",
        ),
        (SEND + EXCHANGE_OTHER, "I'll change the shipping address of order #W4860251 to 1 Main Street, Charlotte. OK?"),
        (SEND + CANCEL_ORDER_OTHER, "667 Highland Drive, Charlotte, NC 28202 it is. Shall I cancel order #W5918442?"),
    ],
)
def test_a_wrong_offer_is_still_refused(golds: Golds, text: str) -> None:
    assert asked(golds, text).startswith("No")


def test_details_in_an_offer_are_not_repeated_by_the_user() -> None:
    text = (
        "Booking: JFK to SEA, one way, 2024-05-20, HAT136, economy, passenger Mia Li, 3 bags, no insurance. Paid with "
        "certificate_7504069 ($250) and credit_card_4421486 ($5). Shall I book it?"
    )
    assert asked(BOOK, text) == "Yes, please go ahead."


# What the scripted user does with a bank's forms: what it was asked for, with what the agent has said of it.


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


@in_one_test(
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


@in_one_test(
    "text",
    [
        "Please apply for the Silver Card, a credit card for business.",
        "The Bronze Card gives the most back.",
        "Please apply for a credit card.",
    ],
)
def test_another_recommendation_is_not_followed(text: str) -> None:
    assert script().hear(text) != APPLY


def test_tools_that_were_unlocked_are_called_with_what_was_said_in_their_order() -> None:
    assert script().hear("Please submit_dispute_0589 for another transaction, which was late.") != DISPUTE
    assert script().hear("Please use submit_dispute_0589 for txn_1: late.") == DISPUTE
    user = script()
    assert "Please make sure that everything is done" in str(user.hear("Everything that can be done for you is done."))
    user = script()
    first = user.hear("Apply for the credit card Bronze Card, then use submit_dispute_0589 for txn_1 (late).")
    assert (first, user.after_action(["ok"])) == (APPLY, DISPUTE)


def test_a_repeated_wish_is_carried_out_on_each_request() -> None:
    insist: tuple[str, dict[str, str]] = ("request_transfer", {})
    user = Script(Scenario(SCENARIO), tools=["request_transfer"], own=[insist] * 8)
    user.hear("Hi! How can I help you today?")
    for _ in range(8):
        assert user.hear("Please use request_transfer.") == insist
        assert "I have done that" in str(user.after_action(["submitted"]))


def test_a_phone_is_no_matter_of_forms_and_arguments_that_are_no_json_are_left_alone() -> None:
    assert device.own_deeds([("reboot_device", {})], ["check_status_bar", "reboot_device"]) == []
    assert device.own_deeds([APPLY, ("other", {})], TOOLS) == [Act(*APPLY)]
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
    assert gold.instructed_after == (1, 2)
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


def test_a_long_text_without_the_end_of_a_sentence_costs_linear_time() -> None:
    def cost(length: int) -> float:
        started = time.thread_time()
        decide.kinds("," * length)
        return time.thread_time() - started

    # Eight times the text; a search from each place would take sixty-four times as long.
    assert cost(64_000) < 24 * max(0.02, min(cost(8_000) for _ in range(3)))
