import json
from types import SimpleNamespace
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.agents.brain import read_response, write_messages
from pytest_a2a_bench.agents.brains import make_brain
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import AgentSaid, Briefing, Event, ToolCall, ToolReturned, UserSaid

IDS = st.sampled_from(["", "c1", "c2", "c3"])
CALLS = st.builds(ToolCall, name=st.sampled_from(["look", "book"]), id=IDS)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(UserSaid, text=st.text(max_size=5)),
    st.builds(AgentSaid, text=st.text(max_size=5)),
    st.builds(AgentSaid, calls=st.lists(CALLS, min_size=1, max_size=3, unique_by=lambda c: c.id or id(c)).map(tuple)),
    st.builds(ToolReturned, call_id=IDS, name=st.sampled_from(["look", "book", ""]), content=st.text(max_size=5)),
)


@given(st.lists(EVENTS, max_size=12))
@settings(max_examples=examples(200))
def test_every_call_is_followed_by_exactly_its_result_and_nothing_that_was_said_is_lost(history: list[Event]) -> None:
    messages = write_messages(Briefing("p"), history)
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
            continue
        assert open_calls == []
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
        assert all(open_calls)
        assert len(set(open_calls)) == len(open_calls)
    assert open_calls == []
    contents = "\n".join(str(m["content"]) for m in messages)
    texts = [e.text or "" if isinstance(e, UserSaid | AgentSaid) else e.content for e in history]
    assert [text for text in texts if text not in contents] == []


def test_results_go_to_the_call_that_they_name() -> None:
    calls = (ToolCall("look", {"a": 1}, "x"), ToolCall("book", {}, "y"))
    history: list[Event] = [AgentSaid(calls=calls), ToolReturned("y", "book", "Y"), ToolReturned("x", "look", "X")]
    _, asked, second, first = write_messages(Briefing("p"), history)
    assert json.loads(asked["tool_calls"][0]["function"]["arguments"]) == {"a": 1}
    assert (second["tool_call_id"], second["content"]) == ("y", "Y")
    assert (first["tool_call_id"], first["content"]) == ("x", "X")


def test_the_policy_is_the_system_prompt() -> None:
    system = write_messages(Briefing("Never refund."), [])[0]
    assert system["role"] == "system"
    assert "<policy>\nNever refund.\n</policy>" in system["content"]


def response(content: str | None, *calls: tuple[str, str]) -> Any:
    made = [
        SimpleNamespace(id=f"i{n}", function=SimpleNamespace(name=name, arguments=arguments))
        for n, (name, arguments) in enumerate(calls)
    ]
    message = SimpleNamespace(content=content, tool_calls=made or None)
    usage = SimpleNamespace(prompt_tokens=3, completion_tokens=4)
    return SimpleNamespace(choices=[SimpleNamespace(message=message)], usage=usage)


class TestReading:
    def test_calls_win_over_words(self) -> None:
        reply = read_response(response("Let me see.", ("look", '{"id": 1}'), ("book", "")), None)
        assert reply.said == AgentSaid(calls=(ToolCall("look", {"id": 1}, "i0"), ToolCall("book", {}, "i1")))

    @in_one_test("nothing", [None, "", "  \n"])
    def test_saying_nothing_is_asking_again(self, nothing: str | None) -> None:
        assert read_response(response(nothing), None).said.text

    @in_one_test("arguments", ["{", "[1]", "3"])
    def test_unreadable_arguments_are_an_error(self, arguments: str) -> None:
        with pytest.raises(ValueError, match=r".+"):
            read_response(response(None, ("look", arguments)), None)

    def test_an_answer_without_choices_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="no choices"):
            read_response(SimpleNamespace(choices=[]), None)


def test_without_a_model_it_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A2A_AGENT_LLM", raising=False)
    with pytest.raises(ConfigurationError, match=r"--model MODEL .* or set A2A_AGENT_LLM"):
        make_brain(AgentOptions("llm"))
