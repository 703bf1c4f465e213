"""How a conversation drives the solver: a pure function of what was said."""

from __future__ import annotations

from crm_trials import MINI
from mini_org.agent import ASK_BACK, listen, next_action
from mini_org.org import build

from pytest_a2a_bench.agents.brain import Conversation
from pytest_a2a_bench.agents.executor import read_part
from pytest_a2a_bench.benchmarks.crmarena.prompt import brief
from pytest_a2a_bench.dialects.base import DecodedRequest
from pytest_a2a_bench.model import AgentSaid, ToolCall, ToolReturned, UserSaid

TASK = MINI["handle_time-00"]


def conversation(*words: str) -> Conversation:
    made = Conversation()
    made.hear(DecodedRequest(brief(TASK, build().schema), tuple(map(UserSaid, words))), {})
    return made


def act(made: Conversation) -> AgentSaid:
    assert made.briefing is not None
    return next_action(made.briefing.policy, made.history)


def test_it_plans_from_the_question() -> None:
    said = act(conversation(TASK.query))

    assert said.calls[0].name == "execute"
    assert str(said.calls[0].arguments["query"]).startswith("SELECT ")


def test_it_asks_back_where_the_question_is_not_there_yet() -> None:
    (call,) = act(conversation("Hello, I have something to find out.")).calls

    assert call.name == "respond"
    assert call.arguments["answer"] in (ASK_BACK,) or "sorry" in call.arguments["answer"]


def test_the_same_conversation_gives_the_same_action() -> None:
    made = conversation(TASK.query)
    first = act(made)
    made.say(first)
    made.history.append(ToolReturned(first.calls[0].id, "execute", "Salesforce instance output: []"))

    second = act(made)

    assert act(made) == second
    assert second.calls[0].arguments != first.calls[0].arguments


def test_results_and_words_are_told_apart_by_what_was_called() -> None:
    ask, say = ToolCall("execute", {"query": "Q"}, "1"), ToolCall("respond", {"answer": "?"}, "2")
    heard = listen(
        [
            UserSaid("one"),
            AgentSaid(calls=(ask,)),
            ToolReturned("1", "", "Salesforce instance output: [{'Id': 'x'}]"),
            AgentSaid(calls=(say,)),
            ToolReturned("", "", "two"),
        ]
    )

    assert (heard.words, heard.found) == (["one", "two"], {"Q": [{"Id": "x"}]})


def test_an_agent_reads_the_metadata_beside_a_part() -> None:
    from a2a.types import Part
    from google.protobuf.json_format import ParseDict

    read = read_part(ParseDict({"text": "x", "metadata": {"a": {"b": [1]}}}, Part()))

    assert read.metadata == {"a": {"b": [1.0]}}
    assert read_part(Part(text="x")).metadata is None
