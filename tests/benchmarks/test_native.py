"""Calls that an agent makes by itself: in which order they are carried out, by which bounds, and how that ends."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.a2a.turn import AgentReply
from pytest_a2a_bench.benchmarks.conversation import Conversation, NativeTurns
from pytest_a2a_bench.errors import AgentOutcomeError, TransportError, TrialTimeoutError
from pytest_a2a_bench.model import (
    AgentSaid,
    Briefing,
    Part,
    ToolAccess,
    ToolCall,
    ToolReturned,
    ToolSpec,
    Usage,
    UserSaid,
)
from pytest_a2a_bench.model.messages import Bounds
from pytest_a2a_bench.tool_door import NOT_YOUR_TURN, OVER, Answer, ToolQueue
from pytest_a2a_bench.tracing import NO_SPAN

ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
IN_TEXT = '{"tool_call": {"name": "add", "arguments": {"n": 9}}}'
SECONDS = 30


class Sender:
    """Sends nothing: the test says when a message is answered, and with what."""

    def __init__(self) -> None:
        self.context_id = "ctx"
        self.is_over = False
        self.turn_span = NO_SPAN
        self.sent: list[str] = []
        self.replies: list[Future[AgentReply]] = []
        self.on_message: Callable[[Sender], object] = lambda sender: None

    def send(self, parts: Sequence[Part], timeout: float | None = None) -> Any:
        raise AssertionError("a turn with native calls is begun, not waited for")

    def begin(self, parts: Sequence[Part], timeout: float | None = None) -> Future[AgentReply]:
        self.sent.append("\n".join(p.text for p in parts))
        self.replies.append(Future())
        self.on_message(self)
        return self.replies[-1]

    def say(self, text: str, usage: Usage | None = None) -> None:
        self.replies[-1].set_result(AgentReply((Part.of_text(text),), "message", usage=usage or Usage()))


class Stage:
    """A conversation whose agent is the test."""

    def __init__(self, bounds: Bounds | None = None, **options: Any) -> None:
        self.bounds = bounds or Bounds()
        self.tool_queue = ToolQueue(ToolAccess("http://here/trials/1/mcp", "t" * 40), self.bounds)
        self.sender = Sender()
        self.conversation = Conversation(
            self.sender,
            Briefing("Be brief.", (ADD,)),
            native=NativeTurns(self.tool_queue, self.sender),  # type: ignore[arg-type]
            **options,
        )

    def during_the_turn(self, act: Callable[[Sender], object]) -> None:
        """Have the agent do something while each message waits for its answer."""
        self.sender.on_message = lambda sender: threading.Timer(0, act, (sender,)).start()

    def call_once_and_say(self, *words: str) -> None:
        """Have the agent call during the first turn, and say these words in turn."""
        left = list(words)

        def act(sender: Sender) -> None:
            if len(sender.sent) == 1:
                self.tool_queue.call("add", {"n": 1}).result(SECONDS)
            sender.say(left.pop(0))

        self.during_the_turn(act)


def test_a_call_is_what_the_agent_says_next_and_its_result_goes_back_to_it() -> None:
    stage = Stage()
    heard: list[Answer] = []

    def act(sender: Sender) -> None:
        heard.append(stage.tool_queue.call("add", {"n": 2.0}).result(SECONDS))
        heard.append(stage.tool_queue.call("add", {"n": "x"}).result(SECONDS))
        sender.say("It is 2.", Usage(10, 3))

    stage.during_the_turn(act)
    conversation = stage.conversation
    # 2.0 is the integer that the tool wants.
    assert conversation.ask([UserSaid("Add.")]) == AgentSaid(calls=(ToolCall("add", {"n": 2}, "call_1"),))
    assert conversation.last_usage == Usage()
    assert conversation.ask([ToolReturned("call_1", "add", "2")]).calls == (ToolCall("add", {"n": "x"}, "call_2"),)
    assert conversation.ask([ToolReturned("call_2", "add", "no number", error=True)]) == AgentSaid("It is 2.")
    assert heard == [Answer("2"), Answer("no number", error=True)]
    assert conversation.last_usage == conversation.usage == Usage(10, 3)
    assert conversation.settled == "mcp"
    assert "http://here/trials/1/mcp" in stage.sender.sent[0]
    # The agent had the results already; the next message has only what is new.
    stage.sender.on_message = lambda sender: threading.Timer(0, sender.say, ("Bye.",)).start()
    assert conversation.ask([UserSaid("Thanks.")]) == AgentSaid("Bye.")
    assert stage.sender.sent[1:] == ["Thanks."]


def test_native_calls_come_before_those_in_the_answer_in_order_of_arrival() -> None:
    stage = Stage()

    def act(sender: Sender) -> None:
        # Several at once, and an answer before any of them has a result.
        for n in range(3):
            stage.tool_queue.call("add", {"n": n})
        sender.say(IN_TEXT)

    stage.during_the_turn(act)
    said = [stage.conversation.ask([UserSaid("Go.")])]
    for n in range(3):
        said.append(stage.conversation.ask([ToolReturned(f"call_{n + 1}", "add", str(n))]))
    assert [s.calls[0].arguments["n"] for s in said] == [0, 1, 2, 9]
    # The result of the call in words is in the next message; those of the native ones are not.
    stage.sender.on_message = lambda sender: sender.say("Done.")
    stage.conversation.ask([ToolReturned("call_4", "add", "nine")])
    assert stage.sender.sent[1] == "Tool Result (add): nine"


@given(st.lists(st.integers(0, 99), max_size=8), st.integers(0, 8))
def test_the_answer_stands_where_it_came(numbers: list[int], place: int) -> None:
    tool_queue = ToolQueue(ToolAccess("http://here", "t"))
    reply: Future[None] = Future()
    tool_queue.begin_turn()
    reply.add_done_callback(tool_queue.note_reply)
    answers = []
    for index, number in enumerate(numbers):
        if index == place:
            reply.set_result(None)
        answers.append(tool_queue.call("add", {"n": number}))
    if not reply.done():
        reply.set_result(None)
    taken = []
    while (native := tool_queue.next_call()) is not None:
        taken.append(native.call.arguments["n"])
    assert taken == numbers[:place]
    # Nobody waits for ever: who came too late is told so.
    assert [a.result(0).text for a in answers[place:]] == [NOT_YOUR_TURN] * len(numbers[place:])
    assert (tool_queue.carried_out, tool_queue.refused) == (len(taken), len(numbers) - len(taken))


def test_an_end_within_a_turn_answers_the_agent_and_waits_for_its_last_words() -> None:
    stage = Stage()
    heard: list[Answer] = []

    def act(sender: Sender) -> None:
        heard.append(stage.tool_queue.call("add", {"n": 1}).result(SECONDS))
        heard.append(stage.tool_queue.call("add", {"n": 2}).result(SECONDS))
        sender.say(IN_TEXT, Usage(5, 1))

    stage.during_the_turn(act)
    stage.conversation.ask([UserSaid("Go.")])
    stage.conversation.close()
    assert heard == [Answer(OVER, is_over=True), Answer(OVER, error=True, is_over=True)]
    assert stage.sender.is_over
    assert stage.conversation.usage == Usage(5, 1)
    assert stage.tool_queue.carried_out == 1


@in_one_test("trouble", [TransportError("gone"), AgentOutcomeError("failed", state="failed")])
def test_a_failed_turn_after_the_end_is_ignored(trouble: Exception) -> None:
    stage = Stage()

    def act(sender: Sender) -> None:
        stage.tool_queue.call("add", {"n": 1}).result(SECONDS)
        sender.replies[-1].set_exception(trouble)

    stage.during_the_turn(act)
    stage.conversation.ask([UserSaid("Go.")])
    stage.conversation.close()
    assert stage.sender.is_over


def test_nobody_waits_for_an_agent_whose_time_is_up() -> None:
    left = [1.0]

    def before_turn() -> float:
        if not left:
            raise TrialTimeoutError("over")
        return left.pop()

    stage = Stage(before_turn=before_turn)
    stage.during_the_turn(lambda sender: stage.tool_queue.call("add", {"n": 1}))
    stage.conversation.ask([UserSaid("Go.")])
    with pytest.raises(TrialTimeoutError):
        stage.conversation.ask([ToolReturned("call_1", "add", "1")])
    stage.conversation.close()
    assert stage.sender.replies[-1].cancelled()


def test_a_canceled_call_is_not_carried_out() -> None:
    stage = Stage()

    def act(sender: Sender) -> None:
        first = stage.tool_queue.call("add", {"n": 1})
        assert stage.tool_queue.call("add", {"n": 2}).cancel()
        first.result(SECONDS)
        sender.say("Done.")

    stage.during_the_turn(act)
    assert stage.conversation.ask([UserSaid("Go.")]).calls[0].arguments == {"n": 1}
    assert stage.conversation.ask([ToolReturned("call_1", "add", "1")]) == AgentSaid("Done.")
    assert stage.tool_queue.carried_out == 1


def test_the_bounds_of_a_reply_are_those_of_a_turn() -> None:
    stage = Stage(Bounds(calls=2, depth=4))
    refused: list[Answer] = []

    def act(sender: Sender) -> None:
        deep: Any = 1
        for _ in range(5):
            deep = [deep]
        refused.append(stage.tool_queue.call("add", {"n": deep}).result(SECONDS))
        for n in range(4):
            answer = stage.tool_queue.call("add", {"n": n}).result(SECONDS)
            refused.extend([answer] if answer.error else [])
        sender.say("Done.")

    stage.during_the_turn(act)
    for _ in range(2):
        assert stage.conversation.ask([UserSaid("Go.")]).calls
    assert stage.conversation.ask([UserSaid("x")]) == AgentSaid("Done.")
    assert [f.rule for f in stage.conversation.findings] == ["limit-depth", "limit-calls"]
    assert [text.split(" (")[1] for text, *_ in refused] == [
        "--a2a-set reply-limits=depth=4)",
        "--a2a-set reply-limits=calls=2)",
        "--a2a-set reply-limits=calls=2)",
    ]


def test_an_agent_that_sends_too_much_has_ended_the_conversation() -> None:
    stage = Stage(Bounds(total=4096))
    stage.during_the_turn(lambda sender: [stage.tool_queue.take(2000) for _ in range(4)])
    with pytest.raises(AgentOutcomeError, match=r"too large together .*total=4096"):
        stage.conversation.ask([UserSaid("Go.")])
    assert [f.rule for f in stage.conversation.findings] == ["limit-total"]


def test_an_empty_answer_is_asked_about_once_also_after_native_calls() -> None:
    stage = Stage()
    stage.call_once_and_say("", "There.")
    stage.conversation.ask([UserSaid("Go.")])
    assert stage.conversation.ask([ToolReturned("call_1", "add", "1")]) == AgentSaid("There.")
    assert "MCP server" in stage.sender.sent[1]


def test_everything_is_sent_again_with_the_calls_that_were_native() -> None:
    stage = Stage(resend=True)
    stage.call_once_and_say("Well.", "Well.")
    stage.conversation.ask([UserSaid("Go.")])
    stage.conversation.ask([ToolReturned("call_1", "add", "one")])
    stage.conversation.ask([UserSaid("And?")])
    called = '"name": "add", "arguments": {"n": 1}'
    for text in ("Be brief.", "<mcp_server>", called, "Tool Result (add): one", "Well.", "And?"):
        assert text in stage.sender.sent[1]
