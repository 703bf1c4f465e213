"""The agent's side of a trial: what is sent, what is said once, what is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.tau2 import upstream
from pytest_a2a_bench.benchmarks.tau2.agent import GREETING, make_agent, to_events
from pytest_a2a_bench.errors import AgentOutcomeError, TrialCancelledError
from pytest_a2a_bench.model import AgentSaid, Briefing, Part, ToolCall, ToolReturned, ToolSpec, Usage, UserSaid

TOOL = ToolSpec("add", "Add.", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
BRIEFING = Briefing("Be brief.", (TOOL,))


@dataclass
class Answer:
    parts: Sequence[Part]
    usage: Usage | None = None
    elsewhere: str = ""


@dataclass
class Scripted:
    """A session that answers from a list and keeps what it was sent."""

    answers: list[str | Sequence[Part]]
    context_id: str | None = "ctx"
    sent: list[str] = field(default_factory=list)
    usage: Usage | None = None

    def send(self, parts: Sequence[Part], timeout: float | None = None) -> Answer:
        self.sent.append("\n".join(p.text or str(p.data) for p in parts))
        answer = self.answers.pop(0)
        return Answer((Part.of_text(answer),) if isinstance(answer, str) else answer, self.usage)


def talk(*answers: str | Sequence[Part], **options: object) -> tuple[Conversation, Scripted]:
    session = Scripted(list(answers), **{k: v for k, v in options.items() if k in ("context_id", "usage")})  # type: ignore[arg-type]
    rest = {k: v for k, v in options.items() if k not in ("context_id", "usage")}
    return Conversation(session, BRIEFING, **rest), session  # type: ignore[arg-type]


CALL = '{"tool_call": {"name": "add", "arguments": {"n": 2}}}'


def test_the_briefing_is_sent_once() -> None:
    conversation, session = talk(CALL, "It is 3.")
    said = conversation.ask([UserSaid("Add two.")])
    assert said == AgentSaid(calls=(ToolCall("add", {"n": 2}, "call_1"),))
    assert conversation.ask([ToolReturned("call_1", "add", "3")]) == AgentSaid("It is 3.")
    assert "Be brief." in session.sent[0]
    assert "Add two." in session.sent[0]
    assert "Be brief." not in session.sent[1]
    assert "Add two." not in session.sent[1]
    assert "3" in session.sent[1]


@pytest.mark.parametrize("options", [{"resend": True}, {"context_id": None}], ids=["full", "no-context-id"])
def test_everything_is_sent_again(options: dict[str, object]) -> None:
    conversation, session = talk(CALL, "It is 3.", **options)
    conversation.ask([UserSaid("Add two.")])
    conversation.ask([ToolReturned("call_1", "add", "3")])
    for text in ("Be brief.", "Add two.", "add", "3"):
        assert text in session.sent[1]


def test_a_call_that_may_only_be_considered_is_asked_about_once_and_then_spoken() -> None:
    doubtful = f"Shall I add them?\n{CALL}"
    conversation, session = talk(doubtful, doubtful, doubtful)
    assert conversation.ask([UserSaid("x")]) == AgentSaid(doubtful)
    assert len(session.sent) == 2
    assert "nothing was executed" in session.sent[1]
    assert conversation.ask([UserSaid("y")]) == AgentSaid(doubtful)
    assert [f.rule for f in conversation.findings] == ["ambiguous-call"] * 3


def test_a_call_that_is_quoted_is_spoken_at_once() -> None:
    quoted = f"<think>{CALL}</think>I would run `{CALL}` only if you confirm."
    conversation, session = talk(quoted)
    assert conversation.ask([UserSaid("x")]) == AgentSaid(quoted)
    assert len(session.sent) == 1


def test_an_unreadable_call_is_told_the_format_once_and_recorded() -> None:
    broken = '{"tool_call": {"name": "add", "arguments": {"n": }}'
    conversation, session = talk(broken, CALL, "ok", broken)
    assert conversation.ask([UserSaid("x")]).calls[0].name == "add"
    assert len(session.sent) == 2
    assert '"tool_call"' in session.sent[1]
    [finding] = conversation.findings
    assert (finding.rule, finding.turn) == ("unreadable-call", 1)
    assert broken in finding.raw
    conversation.ask([ToolReturned("call_1", "add", "3")])
    # The second time it is recorded, and the user hears what the agent wrote.
    assert conversation.ask([UserSaid("y")]).calls == ()
    assert [f.rule for f in conversation.findings] == ["unreadable-call", "unreadable-call"]
    assert len(session.sent) == 4


def test_an_empty_answer_twice_is_the_agents_failure() -> None:
    conversation, session = talk("", "  ")
    with pytest.raises(AgentOutcomeError, match="empty"):
        conversation.ask([UserSaid("x")])
    assert len(session.sent) == 2


def test_auto_settles_on_what_the_agent_answers_in() -> None:
    conversation, session = talk('{"name": "add", "arguments": {"n": 2}}', "thanks")
    conversation.ask([UserSaid("x")])
    assert conversation.settled == "agentbeats"
    conversation.ask([ToolReturned("call_1", "add", "3")])
    # The agentbeats dialect sends a tool's content raw.
    assert session.sent[1] == "3"


def test_floats_from_the_wire_become_the_integers_of_the_schema() -> None:
    data = Part.of_data({"tool_calls": [{"id": "a", "name": "add", "arguments": {"n": 2.0}}]})
    conversation, _ = talk((data,), dialect="data")
    [call] = conversation.ask([UserSaid("x")]).calls
    assert call.arguments == {"n": 2}
    assert type(call.arguments["n"]) is int


def test_usage_adds_up() -> None:
    conversation, _ = talk("a", "b", usage=Usage(10, 2, 0.5))
    conversation.ask([UserSaid("x")])
    conversation.ask([UserSaid("y")])
    assert conversation.usage == Usage(20, 4, 1.0)
    assert conversation.last_usage == Usage(10, 2, 0.5)


def test_a_stopping_run_sends_nothing_more() -> None:
    def stop() -> float:
        raise TrialCancelledError("stopping")

    conversation, session = talk("a", before_turn=stop)
    with pytest.raises(TrialCancelledError):
        conversation.ask([UserSaid("x")])
    assert session.sent == []


@pytest.fixture(scope="module")
def tau2() -> upstream.Tau2:
    return upstream.load()


def agent_of(tau2: upstream.Tau2, *answers: str) -> tuple[Callable[..., object], Conversation, Scripted]:
    conversation, session = talk(*answers)
    return make_agent(tau2, [], "policy", conversation), conversation, session


def test_tau2_gets_text_or_calls_never_both(tau2: upstream.Tau2) -> None:
    agent, conversation, _ = agent_of(tau2, f"Let me see. {CALL}", "Done.")
    state = agent.get_init_state([tau2.messages.AssistantMessage(role="assistant", content=GREETING)])  # type: ignore[attr-defined]
    user = tau2.messages.UserMessage(role="user", content="hi")
    message, state = agent.generate_next_message(user, state)  # type: ignore[attr-defined]
    message.validate()
    assert (message.content, message.tool_calls[0].name, message.cost) == (None, "add", 0.0)
    tool = tau2.messages.ToolMessage(role="tool", id="call_1", content="3", requestor="assistant", error=False)
    message, state = agent.generate_next_message(tool, state)  # type: ignore[attr-defined]
    assert (message.content, message.tool_calls) == ("Done.", None)
    assert conversation.events == [
        UserSaid("hi"),
        AgentSaid(calls=(ToolCall("add", {"n": 2}, "call_1"),)),
        ToolReturned("call_1", "add", "3"),
        AgentSaid("Done."),
    ]


def test_history_before_the_first_turn_is_sent(tau2: upstream.Tau2) -> None:
    m = tau2.messages
    history = [
        m.UserMessage(role="user", content="Make a task."),
        m.AssistantMessage(role="assistant", tool_calls=[m.ToolCall(id="c9", name="make", arguments={"t": 1})]),
        m.ToolMessage(role="tool", id="c9", content="made", requestor="assistant", error=False),
        m.AssistantMessage(role="assistant", content="I made it."),
    ]
    assert to_events(history)[2] == ToolReturned("c9", "make", "made")
    agent, _, session = agent_of(tau2, "Fine.")
    state = agent.get_init_state(history)  # type: ignore[attr-defined]
    agent.generate_next_message(m.UserMessage(role="user", content="Close it."), state)  # type: ignore[attr-defined]
    for text in ("Make a task.", "make", "made", "I made it.", "Close it."):
        assert text in session.sent[0]


def test_upstreams_registry_accepts_the_class(tau2: upstream.Tau2) -> None:
    agent, _, _ = agent_of(tau2)
    assert isinstance(agent, tau2.agent_base)
