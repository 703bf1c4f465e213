"""The agent's side of a trial: what is sent, what is said once, what is recorded."""

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from one_test import in_one_test
from raw_agent import Request, raw_agent, response
from trials import run_against

from pytest_a2a_bench import dialects
from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.tau2 import upstream
from pytest_a2a_bench.benchmarks.tau2.agent import GREETING, Translator, make_agent, system_prompt, tool_specs
from pytest_a2a_bench.benchmarks.tau2.benchmark import BENCHMARK
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.dialects.scan import RAW_LIMIT
from pytest_a2a_bench.errors import AgentOutcomeError, TrialCancelledError
from pytest_a2a_bench.model import (
    AgentSaid,
    Briefing,
    Part,
    ToolCall,
    ToolReturned,
    ToolSpec,
    TrialKey,
    TrialResult,
    Usage,
    UserSaid,
)
from pytest_a2a_bench.results.baseline import Measured, differences, measured_by

TOOL = ToolSpec("add", "Add.", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
BRIEFING = Briefing("Be brief.", (TOOL,))
COST = Usage(10, 2, 0.5)


@dataclass
class Answer:
    parts: Sequence[Part]
    usage: Usage = COST
    elsewhere: str = ""


@dataclass
class Scripted:
    """A session that answers from a list and keeps what it was sent."""

    answers: list[str | Sequence[Part]]
    context_id: str | None = "ctx"
    sent: list[str] = field(default_factory=list)

    def send(self, parts: Sequence[Part], timeout: float | None = None) -> Answer:
        self.sent.append("\n".join(p.text or str(p.data) for p in parts))
        answer = self.answers.pop(0)
        return Answer((Part.of_text(answer),) if isinstance(answer, str) else answer)


def talk(*answers: str | Sequence[Part], **options: object) -> tuple[Conversation, Scripted]:
    session = Scripted(list(answers), options.pop("context_id", "ctx"))  # type: ignore[arg-type]
    return Conversation(session, BRIEFING, **options), session  # type: ignore[arg-type]


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


@in_one_test("options", [{"resend": True}, {"context_id": None}], ids=["full", "no-context-id"])
def test_everything_is_sent_again(options: dict[str, object]) -> None:
    conversation, session = talk(CALL, "It is 3.", **options)
    conversation.ask([UserSaid("Add two.")])
    conversation.ask([ToolReturned("call_1", "add", "3")])
    for text in ("Be brief.", "Add two.", "add", "3"):
        assert text in session.sent[1]


def test_a_call_that_may_only_be_considered_is_asked_about_once_and_a_quoted_one_is_spoken() -> None:
    doubtful = f"Shall I add them?\n{CALL}"
    conversation, session = talk(doubtful, doubtful, doubtful)
    assert conversation.ask([UserSaid("x")]) == AgentSaid(doubtful)
    assert len(session.sent) == 2
    assert "nothing was executed" in session.sent[1]
    assert conversation.ask([UserSaid("y")]) == AgentSaid(doubtful)
    assert [f.rule for f in conversation.findings] == ["ambiguous-call"] * 3
    quoted = f"<think>{CALL}</think>I would run `{CALL}` only if you confirm."
    conversation, session = talk(quoted)
    assert conversation.ask([UserSaid("x")]) == AgentSaid(quoted)
    assert len(session.sent) == 1


def test_an_unreadable_call_is_reported_the_format_once_and_recorded() -> None:
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


def test_an_empty_answer_is_asked_about_once_and_counts_among_the_costs() -> None:
    conversation, session = talk("", "Hello.", " ")
    assert conversation.ask([UserSaid("x")]) == AgentSaid("Hello.")
    assert conversation.usage == COST + COST
    with pytest.raises(AgentOutcomeError, match="empty"):
        conversation.ask([UserSaid("y")])
    assert len(session.sent) == 3


def test_auto_settles_on_what_the_agent_answers_in() -> None:
    conversation, session = talk('{"name": "add", "arguments": {"n": 2}}', "thanks")
    conversation.ask([UserSaid("x")])
    assert conversation.settled == "agentbeats"
    conversation.ask([ToolReturned("call_1", "add", "3")])
    # The agentbeats dialect sends a tool's content raw.
    assert session.sent[1] == "3"


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
    assert (message.content, message.tool_calls[0].name, message.cost) == (None, "add", 0.5)
    tool = tau2.messages.ToolMessage(role="tool", id="call_1", content="3", requestor="assistant", error=False)
    message, state = agent.generate_next_message(tool, state)  # type: ignore[attr-defined]
    assert (message.content, message.tool_calls) == ("Done.", None)
    assert conversation.events == [
        UserSaid("hi"),
        AgentSaid(calls=(ToolCall("add", {"n": 2}, "call_1"),)),
        ToolReturned("call_1", "add", "3"),
        AgentSaid("Done."),
    ]
    assert isinstance(agent, tau2.agent_base)


def test_history_before_the_first_turn_is_sent(tau2: upstream.Tau2) -> None:
    m = tau2.messages
    history = [
        m.UserMessage(role="user", content="Make a task."),
        m.AssistantMessage(role="assistant", tool_calls=[m.ToolCall(id="c9", name="make", arguments={"t": 1})]),
        m.ToolMessage(role="tool", id="c9", content="made", requestor="assistant", error=False),
        m.AssistantMessage(role="assistant", content="I made it."),
    ]
    assert Translator(m, "assistant").events(*history)[2] == ToolReturned("c9", "make", "made")
    agent, _, session = agent_of(tau2, "Fine.")
    state = agent.get_init_state(history)  # type: ignore[attr-defined]
    agent.generate_next_message(m.UserMessage(role="user", content="Close it."), state)  # type: ignore[attr-defined]
    for text in ("Make a task.", "make", "made", "I made it.", "Close it."):
        assert text in session.sent[0]


# What an agent cannot do by writing hostile replies: break us, hang us, or be excused for it.


KEY = TrialKey("tau2", "mock", "create_task_1", 0)
DEEP = 5_000
"""Far deeper than anything in Python goes; the deeper, the longer the texts that are searched in vain."""


def nested(depth: int, inner: str = "1", kind: str = "[]") -> str:
    """Write JSON of so many levels as text; nothing here could build or dump the value itself."""
    if kind == "[]":
        return "[" * depth + inner + "]" * depth
    return '{"a": ' * depth + inner + "}" * depth


def call(arguments: str, name: str = "create_task") -> str:
    return f'{{"tool_calls": [{{"name": "{name}", "arguments": {arguments}}}]}}'


def text_part(text: str) -> str:
    return json.dumps({"text": text})


def data_part(data: str) -> str:
    return f'{{"data": {data}}}'


def hold(folder: Path, parts: list[str], *, metadata: str = "{}", max_steps: int = 12, **options: Any) -> TrialResult:
    """Hold one trial with an agent that always answers with some parts, written as JSON text."""
    message = f'{{"messageId": "m", "role": "ROLE_AGENT", "parts": [{", ".join(parts)}], "metadata": {metadata}}}'

    def answer(request: Request) -> bytes:
        return response(
            f'{{"jsonrpc": "2.0", "id": {json.dumps(request.json["id"])}, "result": {{"message": {message}}}}}'
        )

    with raw_agent(answer) as agent:
        [result] = run_against(agent.url, Settings(timeout=60, max_steps=max_steps, **options), [KEY], folder)
    return result


def rules(result: TrialResult) -> set[str]:
    return {f.rule for f in result.findings}


HOSTILE = {
    "text": text_part(nested(DEEP)),
    "call in text": text_part(call(f'{{"title": {nested(DEEP)}}}')),
    "data of 70": data_part(nested(70)),
    "arguments as text": data_part(call(json.dumps(nested(DEEP, kind="{}")))),
    "wrappers": data_part('{"tool_call": ' * 70 + "{}" + "}" * 70),
    "part metadata": f'{{"text": "hello", "metadata": {nested(900, kind="{}")}}}',
    "infinite": data_part(call('{"title": 1e999}')),
}


@in_one_test("what", HOSTILE)
def test_nesting_is_the_agents_error(what: str, tmp_path: Path) -> None:
    result = hold(tmp_path / what, [HOSTILE[what]])
    assert (result.status, result.reward, result.error) == ("evaluated", 0, None)
    assert result.termination_reason in ("user_stop", "agent_error")
    # Brackets alone look like no call: they are words, however many.
    assert what == "text" or rules(result) & {"limit-depth", "unreadable-call"}
    assert what != "data of 70" or "limit-depth" in rules(result)
    assert all(len(f.message) < 2_000 and len(f.raw) <= RAW_LIMIT for f in result.findings)


def test_deep_metadata_of_a_message_is_the_agents_error(tmp_path: Path) -> None:
    result = hold(tmp_path, [text_part("hello")], metadata=nested(900, kind="{}"))
    assert (result.status, result.termination_reason, rules(result)) == ("evaluated", "agent_error", {"limit-depth"})
    [finding] = result.findings
    assert "--a2a-set reply-limits=depth=64" in finding.message


def create(title: str) -> str:
    """Write arguments with a title of some JSON."""
    return f'{{"user_id": "user_1", "title": {title}}}'


STRANGE = {
    "a number of 4,000 digits": create("9" * 4_000),
    "a number of 5,000 digits": create("9" * 5_000),
    "a half surrogate": r'{"user_id": "user_1", "title": "\ud800"}',
    "a half surrogate as a name": r'{"user_id": "user_1", "title": "x", "\udfff": 1}',
    "a zero character": r'{"user_id": "user_1", "title": "\u0000"}',
    "names of the method's own arguments": '{"self": 1, "tool_name": "x", "requestor": "user"}',
    "as deep as may be": create(nested(60)),
    "a large float": '{"user_id": "user_1", "title": "x", "description": 1e308}',
    "a list for a name": '{"user_id": ["user_1"], "title": {}}',
    "a long text": create(json.dumps("x" * 300_000)),
}


@in_one_test("what", STRANGE)
def test_strange_arguments_reach_the_tools_and_upstreams_hashes(what: str, tmp_path: Path) -> None:
    result = hold(tmp_path / what, [data_part(call(STRANGE[what]))], max_steps=6)
    assert (result.status, result.error) == ("evaluated", None)
    if what == "a number of 5,000 digits":  # Python itself reads none so large
        assert "unreadable-call" in rules(result)
    else:
        assert result.tool_calls


def test_not_more_calls_than_allowed_are_carried_out(tmp_path: Path) -> None:
    one = {"name": "create_task", "arguments": {"user_id": "user_1", "title": "x"}}
    result = hold(
        tmp_path, [json.dumps({"data": {"tool_calls": [one] * 1_000}})], max_steps=6, reply_limits={"calls": 3}
    )
    assert {len(t.calls) for t in result.transcript if t.role == "agent"} <= {0, 3}
    [finding] = [f for f in result.findings if f.rule == "limit-calls"][:1]
    assert (finding.turn, finding.message) == (
        1,
        "the reply has 1000 calls; only the first 3 are carried out (--a2a-set reply-limits=calls=3)",
    )
    assert (result.status, result.error) == ("evaluated", None)


# What tau2's own ``llm_agent`` tells its model, and what an agent over A2A is told: the same, domain by domain.


DOMAINS = ["mock", "airline", "retail", "telecom"]


def conversation_with(tau2: upstream.Tau2, domain: str) -> tuple[list[Any], list[Any], list[str]]:
    """Return what upstream's agent and ours are told in a short conversation: messages, tools, and parts sent."""
    environment = tau2.registry.get_env_constructor(domain)()
    tools, policy = environment.get_tools(), environment.get_policy()
    call = {"name": tools[0].name, "arguments": {}}
    session = Scripted([json.dumps({"tool_call": call}), "It is done."])
    conversation = Conversation(session, Briefing(system_prompt(policy), tool_specs(tools)), dialect="tool_call")
    ours = make_agent(tau2, tools, policy, conversation)
    theirs = importlib.import_module("tau2.agent.llm_agent").LLMAgent(tools=tools, domain_policy=policy, llm="none")
    greeting = importlib.import_module("tau2.orchestrator.orchestrator").DEFAULT_FIRST_AGENT_MESSAGE
    expected = theirs.get_init_state([greeting])
    state = ours.get_init_state([greeting])
    messages = tau2.messages
    heard = messages.UserMessage(role="user", content="Hello, it is about my order.")
    said, state = ours.generate_next_message(heard, state)
    result = messages.ToolMessage(role="tool", id=said.tool_calls[0].id, content="found", requestor="assistant")
    ours.generate_next_message(result, state)
    return [*expected.system_messages, *expected.messages, heard, said, result], tools, session.sent


@in_one_test("domain", DOMAINS)
def test_an_agent_is_reported_what_llm_agents_model_is_reported_in_every_dialect(domain: str) -> None:
    messages, tools, (first, second) = conversation_with(upstream.load(), domain)
    system, greeting, user, said, result = messages
    assert first.startswith(f"{system.content}\n\n<available_tools>\n")
    assert "<instructions>" in first
    assert "<policy>" in first
    listing, _, rest = first.partition("<available_tools>\n")[2].partition("\n</available_tools>")
    assert json.loads(listing) == [tool.openai_schema for tool in tools]
    assert rest.endswith(f"\n\nAssistant: {greeting.content}\n\nUser: {user.content}")
    assert second == f"Tool Result ({said.tool_calls[0].name}): {result.content}"
    assert said.tool_calls[0].id not in second
    policy = upstream.load().registry.get_env_constructor(domain)().get_policy()
    briefing = Briefing(system_prompt(policy), greeting="Hi! How can I help you today?")
    for name in ("auto", "tool_call", "data", "agentbeats", "sierra", "mcp"):
        (part,) = dialects.get(name).encode_request(briefing, [])
        expected = part.text or json.dumps(part.data)
        assert "<instructions>" in expected, name
        # The formats of others have the lines that their agents look for, and no place for a greeting.
        assert ("How can I help you today?" in expected) is (name not in ("agentbeats", "sierra")), name


def test_numbers_of_another_prompt_are_not_comparable() -> None:
    bare, expected = dialects.form("auto", Briefing("")), dialects.form("auto", BENCHMARK.prompt)
    assert len({bare, expected, dialects.form("sierra", BENCHMARK.prompt)}) == 3

    def measured(**provenance: str) -> Measured:
        key = TrialKey("tau2", "mock", "create_task_1")
        return measured_by([TrialResult(key, "evaluated", "run", provenance=provenance)])

    assert list(differences(measured(prompt=expected), measured(prompt=expected))) == []
    assert list(differences(measured(user="llm"), measured(user="llm", prompt=expected))) == [
        f"tau2/mock: prompt was none and is {expected}"
    ]
