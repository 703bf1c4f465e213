"""The ``llm`` agent end to end: our client, a real agent, LiteLLM, and a scripted model over HTTP."""

from collections.abc import Callable
from typing import Any

import pytest
from connections import Connect
from fake_llm import call, say, status
from llm_agent import agents_model

from pytest_a2a_bench import dialects
from pytest_a2a_bench.errors import InfrastructureError
from pytest_a2a_bench.model import Briefing, Part, ToolReturned, ToolSpec, UserSaid

pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM warns about much, in threads of its own

CUSTOMER = ToolSpec(
    "get_customer_by_phone",
    "Find a customer.",
    {"type": "object", "properties": {"phone_number": {"type": "string"}}, "required": ["phone_number"]},
)
REFUEL = ToolSpec(
    "refuel_data",
    "Add data to a line.",
    {
        "type": "object",
        "properties": {
            "customer_id": {"type": "string"},
            "line_id": {"type": "string"},
            "gb_amount": {"type": "number"},
        },
        "required": ["customer_id", "line_id", "gb_amount"],
    },
)
BRIEFING = Briefing("Help with phones.", (CUSTOMER, REFUEL))
SPOKEN = dialects.get("tool_call")


@pytest.fixture
def agent(builtin: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of the agent whose model the tests tell what to say."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    return builtin(agents_model().spec)


def test_a_conversation_with_tools(agent: str, connect: Connect) -> None:
    usage = {"prompt_tokens": 40, "completion_tokens": 7}
    steps = [
        call("get_customer_by_phone", {"phone_number": "555"}, usage=usage),
        call("refuel_data", {"customer_id": "C1", "line_id": "L1", "gb_amount": 2}),
        say("You have two gigabytes more."),
    ]
    llm = agents_model().play(steps)
    session = connect(agent, timeout=60).session()

    first = session.send(SPOKEN.encode_request(BRIEFING, [UserSaid("My data is used up.")]))
    asked = SPOKEN.decode_reply(first.parts, BRIEFING.tools).calls[0]
    assert (asked.name, asked.arguments) == ("get_customer_by_phone", {"phone_number": "555"})
    assert (first.usage.input_tokens, first.usage.output_tokens) == (40, 7)

    found = ToolReturned(asked.id, asked.name, '{"customer_id": "C1"}')
    second = session.send(SPOKEN.encode_request(None, [found]))
    asked = SPOKEN.decode_reply(second.parts, BRIEFING.tools).calls[0]
    assert asked.arguments == {"customer_id": "C1", "line_id": "L1", "gb_amount": 2}

    third = session.send(SPOKEN.encode_request(None, [ToolReturned(asked.id, asked.name, "done")]))
    assert third.text == "You have two gigabytes more."

    last = llm.requests[-1]
    assert [m["role"] for m in last["messages"]] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert "Help with phones." in last["messages"][0]["content"]
    assert last["messages"][3]["content"] == '{"customer_id": "C1"}'
    assert last["messages"][3]["tool_call_id"] == last["messages"][2]["tool_calls"][0]["id"]
    assert [t["function"]["name"] for t in last["tools"]] == ["get_customer_by_phone", "refuel_data"]
    assert last["tools"][1]["function"]["parameters"] == REFUEL.parameters
    assert (last["model"], last["temperature"]) == ("scripted", 0.25)
    assert llm.headers[-1]["authorization"] == "Bearer test-key"


@pytest.mark.parametrize("dialect", ["agentbeats", "sierra", "data"])
def test_results_are_reported_from_users_in_every_dialect(agent: str, connect: Connect, dialect: str) -> None:
    spoken = dialects.get(dialect)
    steps = [call("get_customer_by_phone", {"phone_number": "1"}), say("Found you."), say("Bye.")]
    llm = agents_model().play(steps)
    session = connect(agent, timeout=60).session()
    reply = session.send(spoken.encode_request(BRIEFING, [UserSaid("Hello.")]))
    asked = spoken.decode_reply(reply.parts, BRIEFING.tools).calls[0]
    session.send(spoken.encode_request(None, [ToolReturned(asked.id, asked.name, "customer C1")]))
    reply = session.send(spoken.encode_request(None, [UserSaid("Bye then.")]))

    assert spoken.decode_reply(reply.parts, BRIEFING.tools).text == "Bye."
    messages = llm.requests[-1]["messages"]
    assert [(m["role"], m["content"]) for m in messages[3:]] == [
        ("tool", "customer C1"),
        ("assistant", "Found you."),
        ("user", "Bye then."),
    ]


@pytest.mark.parametrize(
    ("transport", "step"),
    [
        ("jsonrpc", status(500)),
        ("rest", status(429)),
        ("grpc", status(401)),
        ("jsonrpc", call("get_customer_by_phone", "{oops")),
    ],
)
def test_a_failing_model_is_infrastructure_trouble(agent: str, connect: Connect, step: Any, transport: str) -> None:
    llm = agents_model().play([step, say("Here again.")])
    session = connect(agent, transport=transport, timeout=60).session()
    with pytest.raises(InfrastructureError, match="the model openai/scripted did not answer"):
        session.send(SPOKEN.encode_request(BRIEFING, [UserSaid("Hello.")]))
    # The agent itself is well.
    assert session.send(SPOKEN.encode_request(BRIEFING, [UserSaid("Hello.")])).text == "Here again."
    assert [m["content"] for m in llm.requests[-1]["messages"][1:]] == ["Hello."]


@pytest.mark.usefixtures("agent")
def test_as_a_task_it_reports_usage_and_failure_too(builtin: Callable[[str], str], connect: Connect) -> None:
    session = connect(builtin(f"{agents_model().spec}&reply=task"), timeout=60).session()
    agents_model().play([say("Hello.", usage={"prompt_tokens": 11, "completion_tokens": 2}), status(500)])
    reply = session.send(SPOKEN.encode_request(BRIEFING, [UserSaid("Hi.")]))
    assert (reply.kind, reply.usage.input_tokens, reply.usage.output_tokens) == ("task", 11, 2)
    with pytest.raises(InfrastructureError, match="did not answer"):
        session.send(SPOKEN.encode_request(None, [UserSaid("Again.")]))


def test_without_tools_none_are_offered(agent: str, connect: Connect) -> None:
    llm = agents_model().play([say("Hello.")])
    connect(agent, timeout=60).session().send([Part.of_text("just a word")])
    assert "tools" not in llm.requests[-1]
