"""A colleague that the agent under test may ask: the question reaches it, and its trouble is its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crm_trials import MINI, keys, measured, settings
from trials import run_against
from user_agents import Speaker, heard, served_brain

from pytest_a2a_bench.agents.brain import BrainError, Conversation
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import ToolCall, ToolReturned, TrialResult, UserSaid

TASK = next(t for t in MINI.values() if t.metric == "exact_match" and t.answers and t.answers[0] != "None")


class Asking:
    """An agent that asks its colleague some questions and answers with the last thing that it heard."""

    def __init__(self, questions: int, name: str = "ann") -> None:
        self._questions = questions
        self._name = name

    def __call__(self, conversation: Conversation) -> ToolCall:
        returned = [e for e in conversation.history if isinstance(e, ToolReturned)]
        if len(returned) < self._questions:
            return ToolCall("ask_agent", {"name": self._name, "question": f"number {len(returned)}?"})
        return ToolCall("respond", {"answer": returned[-1].content})


def knowing(conversation: Conversation) -> str:
    return ", ".join(TASK.answers)


def run(tested: Asking, colleague: Speaker, tmp_path: Path, **options: object) -> TrialResult:
    with served_brain(Speaker(tested)) as url, served_brain(colleague) as other:
        with_colleague: Settings = dataclasses.replace(settings(), colleague={"ann": other}, **options)  # type: ignore[arg-type]
        (result,) = run_against(url, with_colleague, keys(tasks=[TASK.task_id]), tmp_path)
    return result


@pytest.mark.parametrize(
    "options", [{}, *(pytest.param(o, marks=pytest.mark.slow) for o in ({"dialect": "data"}, {"tools": "mcp"}))]
)
def test_what_the_colleague_says_is_what_the_tool_returns(tmp_path: Path, options: dict[str, str]) -> None:
    colleague = Speaker(knowing)
    result = run(Asking(2), colleague, tmp_path, **options)
    assert (result.status, result.reward, result.error) == ("evaluated", 1.0, None)
    assert (measured(result, "turns"), measured(result, "questions"), measured(result, "question_errors")) == (3, 2, 0)
    (party,) = result.parties
    assert (party.name, party.role, party.turns, party.usage.input_tokens) == ("ann", "colleague", 2, 22)
    answers = [turn for turn in result.transcript if turn.tool == "ask_agent"]
    assert [(turn.party, turn.error, turn.text) for turn in answers] == [("ann", False, ", ".join(TASK.answers))] * 2
    questions = [event.text for event in colleague.conversations[0].history if isinstance(event, UserSaid)]
    assert "You are ann" in questions[0]
    assert questions[0].endswith("number 0?")
    assert questions[1] == "number 1?"
    assert result.agent_usage.input_tokens == 33
    assert result.provenance.get("native_calls", 3) == 3


def test_questions_are_counted(tmp_path: Path) -> None:
    result = run(Asking(3), Speaker(knowing), tmp_path, colleague_turns=1)
    answers = [turn for turn in result.transcript if turn.tool == "ask_agent"]
    assert [turn.error for turn in answers] == [False, True, True]
    assert "answers no more questions" in str(answers[1].text)
    assert result.parties[0].turns == 1


@pytest.mark.slow
def test_whoever_is_not_there_is_not_asked(tmp_path: Path) -> None:
    result = run(Asking(1, name="bob"), Speaker(knowing), tmp_path)
    (answer,) = [turn for turn in result.transcript if turn.tool == "ask_agent"]
    assert (answer.error, answer.text) == (True, "There is no colleague 'bob'; there is ann.")


@pytest.mark.parametrize(
    "options", [{}, *(pytest.param(o, marks=pytest.mark.slow) for o in ({"dialect": "data"}, {"tools": "mcp"}))]
)
def test_of_several_the_agent_says_whom_it_asks(tmp_path: Path, options: dict[str, str]) -> None:
    whom = ["bob", "ann", "bob", "", "eve", "ann"]

    def asking(conversation: Conversation) -> ToolCall:
        returned = [e.content for e in conversation.history if isinstance(e, ToolReturned)]
        if len(returned) == len(whom):
            return ToolCall("respond", {"answer": returned[1]})
        return ToolCall("ask_agent", {"name": whom[len(returned)], "question": f"number {len(returned)}?"})

    ann, bob = Speaker(knowing), Speaker(lambda conversation: "I am bob.")
    tested = Speaker(asking)
    with served_brain(tested) as url, served_brain(ann, token="of-ann") as first, served_brain(bob) as second:
        environ = pytest.MonkeyPatch()
        environ.setenv("TOKEN_ANN", "of-ann")  # bob wants none
        with_both: Settings = dataclasses.replace(
            settings(),
            colleague={"ann": first, "bob": second},
            colleague_auth_env="TOKEN",
            colleague_turns=3,
            **options,  # type: ignore[arg-type]
        )
        (result,) = run_against(url, with_both, keys(tasks=[TASK.task_id]), tmp_path)
        environ.undo()
    assert (result.status, result.reward) == ("evaluated", 1.0), result.error
    answers = [turn for turn in result.transcript if turn.tool == "ask_agent"]
    assert [(turn.party, turn.error) for turn in answers[:3]] == [("bob", False), ("ann", False), ("bob", False)]
    assert [(turn.party, turn.error) for turn in answers[3:]] == [(None, True)] * 3
    told = [str(turn.text) for turn in answers[3:]]
    assert told[:2] == [f"There is no colleague {name!r}; there are ann and bob." for name in ("", "eve")]
    assert "been asked 3 times" in told[2]
    assert [(p.name, p.role, p.turns) for p in result.parties] == [("ann", "colleague", 1), ("bob", "colleague", 2)]
    # Each has a conversation of its own.
    (heard_by_bob,) = bob.conversations
    questions = [event.text for event in heard_by_bob.history if isinstance(event, UserSaid)]
    assert [question.splitlines()[-1] for question in questions] == ["number 0?", "number 2?"]
    assert (measured(result, "questions"), measured(result, "question_errors")) == (3, 0)
    assert set(result.provenance["colleague"]) == {"ann", "bob"}
    briefing = tested.conversations[0].briefing
    assert briefing is not None
    (tool,) = [tool for tool in briefing.tools if tool.name == "ask_agent"]
    assert tool.parameters["properties"]["name"]["enum"] == ["ann", "bob"]
    assert "ann and bob" in briefing.policy


def silent(conversation: Conversation) -> None:
    return None


def broken(conversation: Conversation) -> str:
    raise BrainError("no model")


def once_broken() -> Iterator[str]:
    yield ""
    while True:
        yield ", ".join(TASK.answers)


@pytest.mark.parametrize("say", [silent, pytest.param(broken, marks=pytest.mark.slow)])
def test_its_trouble_is_told_and_its_own(tmp_path: Path, say: Callable[[Conversation], str | None]) -> None:
    result = run(Asking(1), Speaker(say), tmp_path)
    assert (result.status, result.reward, result.blame) == ("evaluated", 0.0, None)
    (answer,) = [turn for turn in result.transcript if turn.tool == "ask_agent"]
    assert (answer.error, answer.text) == (True, "ann did not answer.")
    (party,) = result.parties
    assert "no-answer" in {finding.rule for finding in party.findings}
    assert result.findings == ()
    assert measured(result, "question_errors") == 1


@pytest.mark.slow
def test_after_trouble_it_may_be_asked_again(tmp_path: Path) -> None:
    says = once_broken()
    result = run(Asking(2), Speaker(lambda conversation: next(says)), tmp_path)
    assert (result.reward, measured(result, "question_errors")) == (1.0, 1)


@pytest.mark.slow
def test_one_that_is_gone_ends_no_trial(tmp_path: Path) -> None:
    with served_brain(Speaker(Asking(1))) as url:
        gone = dataclasses.replace(settings(), colleague={"ann": "http://127.0.0.1:9"})
        (result,) = run_against(url, gone, keys(tasks=[TASK.task_id]), tmp_path)
    assert (result.status, result.reward) == ("evaluated", 0.0)
    assert result.parties[0].findings[0].rule == "no-answer"


def test_without_a_colleague_there_is_no_such_tool(tmp_path: Path) -> None:
    tested = Speaker(Asking(1))
    with served_brain(tested) as url:
        (result,) = run_against(url, settings(), keys(tasks=[TASK.task_id]), tmp_path)
    briefing = tested.conversations[0].briefing
    assert briefing is not None
    assert "ask_agent" not in {tool.name for tool in briefing.tools}
    (answer,) = [turn for turn in result.transcript if turn.tool == "ask_agent"]
    assert answer.error
    assert "colleague" not in result.provenance
    assert heard(tested.conversations[0]) == []
