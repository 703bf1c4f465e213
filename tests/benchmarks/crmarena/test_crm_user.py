"""The users of interactive conversations: the script, and a model behind a real HTTP server."""

import dataclasses
from dataclasses import replace
from pathlib import Path

import pytest
from crm import MINI, keys, measured, one_of_each, settings
from fake_llm import FakeLLM, say, status
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test
from trials import RunTrials, run_against
from user_agents import Speaker, heard, served_brain

from pytest_a2a_bench.agents.brain import BrainError, Conversation, bench_task_key
from pytest_a2a_bench.benchmarks.crmarena.prompt import ScriptedUser, asks_back, split_query, write_instructions
from pytest_a2a_bench.benchmarks.crmarena.score import asked
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.benchmarks.models import STOP, ModelUser
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import LLMError
from pytest_a2a_bench.model import ToolCall, ToolReturned, TrialResult, UserSaid

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
    assert "customer" not in opening
    assert heard == ["I look at last month.", "Which agent was fastest?", "Give me the Id.", None]
    assert "customer" in ScriptedUser(replace(TASK, category="knowledge_qa", metric="fuzzy_match")).open()


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


@given(st.text(max_size=200))
def test_the_pieces_of_a_question_are_the_question(query: str) -> None:
    pieces = split_query(query)
    assert len(pieces) <= 3
    assert "".join("".join(pieces).split()) == "".join(query.split())


@in_one_test(
    ("text", "expected"), [("Which one?", True), ('Is it "A"? ', True), ("**Really?**", True), ("A? No, B.", False)]
)
def test_asking_back_is_ending_in_a_question(text: str, expected: bool) -> None:
    assert asks_back(text) is expected


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


def test_a_model_that_says_nothing_fails_or_asks_nothing_is_trouble() -> None:
    with FakeLLM([say(""), say("Hi.")]) as llm:
        assert model_user(llm).open() == "Hi."
    with FakeLLM([say("")] * 3) as llm, pytest.raises(LLMError, match="empty answer 3 times"):
        model_user(llm).open()
    with FakeLLM([status(500)] * 5) as llm, pytest.raises(LLMError, match="user simulator's model 'openai/scripted'"):
        model_user(llm).open()
    with FakeLLM([say(STOP)]) as llm, pytest.raises(LLMError, match="before it asked"):
        model_user(llm).open()


# An A2A agent that plays the user of an interactive CRM task.


class Personas:
    """CRMArena's scripted users: each conversation has that of the task that its messages are tagged with."""

    def __init__(self) -> None:
        self._users: dict[int, tuple[Conversation, ScriptedUser]] = {}

    def __call__(self, conversation: Conversation) -> str:
        (event,) = heard(conversation)
        assert isinstance(event, UserSaid)
        if id(conversation) in self._users:
            return self._users[id(conversation)][1].hear(event.text) or f"Thank you. {STOP}"
        task_id = str(bench_task_key(conversation.metadata)).split("/", 2)[2]
        user = ScriptedUser(asked(MINI[task_id], settings()))
        self._users[id(conversation)] = (conversation, user)
        return user.open()


@pytest.mark.slow
def test_the_same_user_behind_a2a_comes_to_the_same(run_trials: RunTrials) -> None:
    every = keys("mini_interactive", one_of_each(step=4))
    speaker = Speaker(Personas())
    scripted = run_trials("solver", settings(), every)
    with served_brain(speaker) as url:
        played = run_trials("solver", dataclasses.replace(settings(), user=f"a2a:{url}"), every)
    for one, other in zip(scripted, played, strict=True):
        assert (other.status, other.error) == ("evaluated", None)
        assert (other.reward_info, other.termination_reason) == (one.reward_info, one.termination_reason)
        assert [(t.role, t.text) for t in other.transcript] == [(t.role, t.text) for t in one.transcript]
        (party,) = other.parties
        # Its last word, the stop, is no part of the conversation.
        assert party.turns - measured(other, "user_turns") in (0, 1)
        assert (other.provenance["user"], other.user) == ("a2a", other.provenance["user_agent"])
    briefing = speaker.conversations[0].briefing
    assert briefing is not None
    assert STOP in briefing.policy
    assert briefing.tools == ()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (STOP, "it stopped before it asked anything"),
        pytest.param(ToolCall("execute", {"query": "SELECT Id FROM Case"}), "has no tools", marks=pytest.mark.slow),
        pytest.param(None, "empty", marks=pytest.mark.slow),
    ],
)
def test_nonsense_is_an_error_of_its_own(run_trials: RunTrials, said: str | ToolCall | None, message: str) -> None:
    with served_brain(Speaker.always(said)) as url:
        every = keys("mini_interactive", one_of_each()[:1])
        (result,) = run_trials("solver", dataclasses.replace(settings(), user=f"a2a:{url}"), every)
    assert (result.status, result.blame) == ("infrastructure_error", "user")
    assert message in str(result.error)


# A colleague that the agent under test may ask: the question reaches it, and its trouble is its own.


TASK_COLLEAGUE = next(t for t in MINI.values() if t.metric == "exact_match" and t.answers and t.answers[0] != "None")


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


KNOWN = ", ".join(TASK_COLLEAGUE.answers)


def run(tested: Asking, colleague: Speaker, tmp_path: Path, **options: object) -> TrialResult:
    with served_brain(Speaker(tested)) as url, served_brain(colleague) as other:
        with_colleague: Settings = dataclasses.replace(settings(), colleague={"ann": other}, **options)  # type: ignore[arg-type]
        (result,) = run_against(url, with_colleague, keys(tasks=[TASK_COLLEAGUE.task_id]), tmp_path)
    return result


@pytest.mark.parametrize(
    "options", [{}, *(pytest.param(o, marks=pytest.mark.slow) for o in ({"dialect": "data"}, {"tools": "mcp"}))]
)
def test_the_colleagues_answer_is_the_tools_result(tmp_path: Path, options: dict[str, str]) -> None:
    colleague = Speaker.always(KNOWN)
    result = run(Asking(2), colleague, tmp_path, **options)
    assert (result.status, result.reward, result.error) == ("evaluated", 1.0, None)
    assert (measured(result, "turns"), measured(result, "questions"), measured(result, "question_errors")) == (3, 2, 0)
    (party,) = result.parties
    assert (party.name, party.role, party.turns, party.usage.input_tokens) == ("ann", "colleague", 2, 22)
    answers = [turn for turn in result.transcript if turn.tool == "ask_agent"]
    assert [(turn.party, turn.error, turn.text) for turn in answers] == [("ann", False, KNOWN)] * 2
    questions = [event.text for event in colleague.conversations[0].history if isinstance(event, UserSaid)]
    assert "You are ann" in questions[0]
    assert questions[0].endswith("number 0?")
    assert questions[1] == "number 1?"
    assert result.agent_usage.input_tokens == 33
    assert result.provenance.get("native_calls", 3) == 3


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

    ann, bob = Speaker.always(KNOWN), Speaker.always("I am bob.")
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
        (result,) = run_against(url, with_both, keys(tasks=[TASK_COLLEAGUE.task_id]), tmp_path)
        environ.undo()
    assert (result.status, result.reward) == ("evaluated", 1.0), result.error
    answers = [turn for turn in result.transcript if turn.tool == "ask_agent"]
    assert [(turn.party, turn.error) for turn in answers[:3]] == [("bob", False), ("ann", False), ("bob", False)]
    assert [(turn.party, turn.error) for turn in answers[3:]] == [(None, True)] * 3
    message = [str(turn.text) for turn in answers[3:]]
    assert message[:2] == [f"There is no colleague {name!r}; there are ann and bob." for name in ("", "eve")]
    assert "been asked 3 times" in message[2]
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


@pytest.mark.parametrize("says", [None, pytest.param(BrainError("no model"), marks=pytest.mark.slow)])
def test_its_trouble_is_reported_and_its_own(tmp_path: Path, says: BrainError | None) -> None:
    result = run(Asking(1), Speaker.always(says), tmp_path)
    assert (result.status, result.reward, result.blame) == ("evaluated", 0.0, None)
    (answer,) = [turn for turn in result.transcript if turn.tool == "ask_agent"]
    assert (answer.error, answer.text) == (True, "ann did not answer.")
    (party,) = result.parties
    assert "no-answer" in {finding.rule for finding in party.findings}
    assert result.findings == ()
    assert measured(result, "question_errors") == 1


@pytest.mark.slow
def test_one_that_is_gone_ends_no_trial(tmp_path: Path) -> None:
    with served_brain(Speaker(Asking(1))) as url:
        gone = dataclasses.replace(settings(), colleague={"ann": "http://127.0.0.1:9"})
        (result,) = run_against(url, gone, keys(tasks=[TASK_COLLEAGUE.task_id]), tmp_path)
    assert (result.status, result.reward) == ("evaluated", 0.0)
    assert result.parties[0].findings[0].rule == "no-answer"


def test_without_a_colleague_there_is_no_such_tool(tmp_path: Path) -> None:
    tested = Speaker(Asking(1))
    with served_brain(tested) as url:
        (result,) = run_against(url, settings(), keys(tasks=[TASK_COLLEAGUE.task_id]), tmp_path)
    briefing = tested.conversations[0].briefing
    assert briefing is not None
    assert "ask_agent" not in {tool.name for tool in briefing.tools}
    (answer,) = [turn for turn in result.transcript if turn.tool == "ask_agent"]
    assert answer.error
    assert "colleague" not in result.provenance
    assert heard(tested.conversations[0]) == []
