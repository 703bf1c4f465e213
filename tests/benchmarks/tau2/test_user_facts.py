"""Facts about a model that plays the user: read from structure, each with its turn."""

from typing import Any

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


ASKED = "Please turn off airplane mode."
OFFER = "Could you please tell me your user id, so that I can find your order?"


@in_one_test(
    ("turns", "facts"),
    [
        # Words of a user.
        (["Hi, I am emma_kim_9957 and want to return the lamp of order #W2611340."], []),
        (["It is W2611340, bought on 2024-05-10."], []),
        (["I'd rather not. PLEASE CANCEL it!"], []),
        (["Could you STOP asking? ###STOP###"], []),
        (["Agent, could you look that up?"], []),
        # An id that nobody gave.
        (["My order is #W9876543.", "I do not find #W9876543.", "Then #W9876543 it is."], [("unknown_id", 1)]),
        (["My order is #W9876543.", "Which one?", "It is #W9876543."], [("unknown_id", 1)]),
        (["Hello", "I see the orders #W9876543 and #W2611340.", "The first, #W9876543."], []),
        (["Hello", Turn("tool", "SIM 8911223344", requestor="user"), Turn("user", "It shows 8911223344.")], []),
        (
            ["Hello", Turn("tool", "#W9876543", requestor="agent"), Turn("user", "It is #W9876543.")],
            [("unknown_id", 3)],
        ),
        # An instruction that is answered in words alone.
        (["Hello", ASKED, "I have turned it off."], [("no_call", 3)]),
        (["Hello", ASKED, "Where do I find that?"], []),
        (["Hello", ASKED, Turn("user", calls=(ToolCall("toggle_airplane_mode", {}),))], []),
        (["Hello", "What is your name?", "I have turned it off."], []),
        # A role marker, and a text of the agent's own.
        (["Agent: Your order is returned."], [("spoke_as_agent", 1)]),
        (["**Assistant:** Sure!"], [("spoke_as_agent", 1)]),
        (["Thanks.\nAGENT: Bye."], [("spoke_as_agent", 1)]),
        (["Hello", OFFER, OFFER], [("spoke_as_agent", 3)]),
        (["Hello", "Thank you!", "Thank you!"], []),
        # A call in the text, which is read as an agent's would be.
        (['{"tool_call": {"name": "reseat_sim_card", "arguments": {}}}'], [("calls_as_text", 1)]),
        (["reseat_sim_card()"], [("calls_as_text", 1)]),
        (["get_order_details(order_id='1')"], [("calls_as_text", 1)]),
        # A token that is none.
        *(
            ([said], [("misspelt_stop", 1)])
            for said in ("[STOP]", "Bye! ### STOP ###", "##TRANSFER##", "###out of scope###", "<STOP>")
        ),
    ],
)
def test_facts_and_their_turns(turns: list[Turn | str], facts: list[tuple[str, int]]) -> None:
    assert found(*turns) == facts


@in_one_test(
    ("answer", "evidence"),
    [
        ({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}, []),
        (
            {"choices": [{"message": {"refusal": "I cannot help"}, "finish_reason": "stop"}]},
            [UserFault("refusal", "I cannot help")],
        ),
        ({"message": {"content": ""}, "finish_reason": "content_filter"}, [UserFault("refusal", "content_filter")]),
        ({"message": {"content": "Please m"}, "finish_reason": "length"}, [UserFault("cut_off", "Please m")]),
        ({}, []),
    ],
)
def test_what_a_provider_marks_is_a_fact(answer: dict[str, Any], evidence: list[UserFault]) -> None:
    assert list(llm.marks(answer)) == evidence
