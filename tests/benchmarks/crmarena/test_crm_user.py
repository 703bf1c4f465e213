"""The users of interactive conversations: the script, and a model behind a real HTTP server."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_llm import FakeLLM, say, status
from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.benchmarks.crmarena.prompt import ScriptedUser, asks_back, split_query, write_instructions
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.benchmarks.models import STOP, ModelUser
from pytest_a2a_bench.errors import LLMError

TASK = CrmTask(
    "handle_time-00",
    "handle_time",
    "I look at last month. Which agent was fastest? Give me the Id.",
    "exact_match",
    answers=("005GOLD",),
    persona="You like short sentences.",
    required="- Today's date: 2024-01-15",
    interactive=True,
)


def test_the_scripted_user_tells_the_question_in_pieces_then_stops_at_an_answer() -> None:
    user = ScriptedUser(TASK)

    opening = user.open()
    heard = [user.hear("How can I help?"), user.hear("None"), user.hear("Sure?"), user.hear("005X")]

    assert "agent" not in opening
    assert heard == ["I look at last month.", "Which agent was fastest?", "Give me the Id.", None]


def test_the_scripted_user_answers_what_is_asked_back_with_fixed_lines() -> None:
    user = ScriptedUser(TASK)
    for _ in range(3):
        user.hear("yes")

    first, second, third = (user.hear("Which month do you mean?") for _ in range(3))

    assert first is not None
    assert TASK.query in first
    assert second is not None
    assert second == third
    assert user.hear("It was 005X.") is None


def test_a_customer_greets_as_one() -> None:
    assert "customer" in ScriptedUser(replace(TASK, category="knowledge_qa", metric="fuzzy_match")).open()
    assert "customer" not in ScriptedUser(TASK).open()


@given(st.text(max_size=200))
def test_the_pieces_of_a_question_are_the_question(query: str) -> None:
    pieces = split_query(query)

    assert len(pieces) <= 3
    assert "".join("".join(pieces).split()) == "".join(query.split())


@pytest.mark.parametrize(
    ("text", "expected"), [("Which one?", True), ('Is it "A"? ', True), ("**Really?**", True), ("A? No, B.", False)]
)
def test_asking_back_is_ending_in_a_question(text: str, expected: bool) -> None:
    assert asks_back(text) is expected


def test_the_model_knows_its_role_and_not_the_gold() -> None:
    told = write_instructions(TASK)

    assert TASK.query in told
    assert TASK.persona in told
    assert STOP in told
    assert "005GOLD" not in told


def model_user(llm: FakeLLM) -> ModelUser:
    return ModelUser(
        write_instructions(TASK), "openai/scripted", {"api_base": llm.api_base, "api_key": "k", "num_retries": 0}
    )


def test_a_model_plays_the_user_until_it_stops() -> None:
    with FakeLLM([say("Hi."), say("Which agent?"), say(f"{STOP}")]) as llm:
        user = model_user(llm)

        assert (user.open(), user.hear("Yes?"), user.hear("005X")) == ("Hi.", "Which agent?", None)

    system, *said = llm.requests[-1]["messages"]
    assert system["role"] == "system"
    assert [m["content"] for m in said[1:]] == ["Hi.", "Yes?", "Which agent?", "005X"]
    assert user.usage.input_tokens == 300


def test_a_model_that_says_nothing_is_asked_again_then_blamed() -> None:
    with FakeLLM([say(""), say("Hi.")]) as llm:
        assert model_user(llm).open() == "Hi."
    with FakeLLM([say("")] * 3) as llm, pytest.raises(LLMError, match="empty answer 3 times"):
        model_user(llm).open()


def test_a_model_that_fails_is_trouble_of_the_infrastructure() -> None:
    with FakeLLM([status(500)] * 5) as llm, pytest.raises(LLMError, match="user simulator's model 'openai/scripted'"):
        model_user(llm).open()


def test_a_model_that_stops_at_once_has_asked_nothing() -> None:
    with FakeLLM([say(STOP)]) as llm, pytest.raises(LLMError, match="before it asked"):
        model_user(llm).open()
