"""Facts about a model that plays the user: read from structure, each with its turn."""

from __future__ import annotations

from typing import Any

import pytest
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.tau2 import llm
from pytest_a2a_bench.benchmarks.tau2.agent import GREETING
from pytest_a2a_bench.model import ToolCall, ToolSpec, Turn, UserFault

GIVEN = "You are Emma Kim, user id emma_kim_9957. You want to return the lamp of order #W2611340."
PHONE = (ToolSpec("toggle_airplane_mode", "", {}), ToolSpec("reseat_sim_card", "", {}))
DESK = (ToolSpec("get_order_details", "", {"properties": {"order_id": {"type": "string"}}}),)


def found(*turns: Turn | str) -> list[tuple[str, int | None]]:
    """Kinds and turns of what the user did: texts are by turns the user's and the agent's, after the greeting."""
    conversation: list[Turn] = [Turn("agent", GREETING)]
    for turn in turns:
        role = "agent" if conversation[-1].role == "user" else "user"
        conversation.append(turn if isinstance(turn, Turn) else Turn(role, turn))  # type: ignore[arg-type]
    return [(fact.kind, fact.turn) for fact in llm.find(conversation, GIVEN, PHONE, DESK)]


@pytest.mark.parametrize(
    "said",
    [
        "Hi, I am emma_kim_9957 and want to return the lamp of order #W2611340.",
        "It is W2611340, bought on 2024-05-10.",
        "I'd rather not. PLEASE CANCEL it!",
        "Could you STOP asking? ###STOP###",
        "Agent, could you look that up?",
    ],
)
def test_words_of_a_user_are_no_fact(said: str) -> None:
    assert found(said) == []


def test_an_id_that_nobody_gave_is_named() -> None:
    assert found("My order is #W9876543.", "I do not find #W9876543.", "Then #W9876543 it is.") == [("unknown_id", 1)]
    assert found("Hello", "I see the orders #W9876543 and #W2611340.", "The first, #W9876543.") == []
    own = Turn("tool", "SIM 8911223344", requestor="user")
    assert found("Hello", own, Turn("user", "It shows 8911223344.")) == []
    of_agent = Turn("tool", "#W9876543", requestor="agent")
    assert found("Hello", of_agent, Turn("user", "It is #W9876543.")) == [("unknown_id", 3)]


def test_an_instruction_that_is_answered_in_words_alone() -> None:
    asked = "Please turn off airplane mode."
    assert found("Hello", asked, "I have turned it off.") == [("no_call", 3)]
    assert found("Hello", asked, "Where do I find that?") == []
    assert found("Hello", asked, Turn("user", calls=(ToolCall("toggle_airplane_mode", {}),))) == []
    assert found("Hello", "What is your name?", "I have turned it off.") == []


@pytest.mark.parametrize("said", ["Agent: Your order is returned.", "**Assistant:** Sure!", "Thanks.\nAGENT: Bye."])
def test_a_role_marker_speaks_as_the_agent(said: str) -> None:
    assert found(said) == [("spoke_as_agent", 1)]


def test_a_text_of_the_agents_is_the_agents() -> None:
    said = "Could you please tell me your user id, so that I can find your order?"
    assert found("Hello", said, said) == [("spoke_as_agent", 3)]
    assert found("Hello", "Thank you!", "Thank you!") == []


@pytest.mark.parametrize(
    "said",
    [
        '{"tool_call": {"name": "reseat_sim_card", "arguments": {}}}',
        "reseat_sim_card()",
        "get_order_details(order_id='1')",
    ],
)
def test_a_call_in_the_text_is_read_as_an_agents_would_be(said: str) -> None:
    assert found(said) == [("calls_as_text", 1)]


@pytest.mark.parametrize("said", ["[STOP]", "Bye! ### STOP ###", "##TRANSFER##", "###out of scope###", "<STOP>"])
def test_a_token_that_is_none(said: str) -> None:
    assert found(said) == [("misspelt_stop", 1)]


@in_one_test(
    ("answer", "evidence"),
    [
        ({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}, ()),
        ({"choices": [{"message": {"refusal": "I cannot help"}, "finish_reason": "stop"}]}, ("I cannot help",)),
        ({"message": {"content": ""}, "finish_reason": "content_filter"}, ("content_filter",)),
        ({}, ()),
    ],
)
def test_a_refusal_of_the_model(answer: dict[str, Any], evidence: tuple[str, ...]) -> None:
    assert list(llm.refusal(answer)) == [UserFault("refusal", each) for each in evidence]
