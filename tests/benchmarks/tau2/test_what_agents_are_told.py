"""What tau2's own ``llm_agent`` tells its model, and what an agent over A2A is told: the same, domain by domain.

Left out on purpose, because only one of the two has it: the channel for tools (OpenAI's ``tools`` there, a list and a
sentence about answering here), and the ids of calls, which here are the benchmark's own unless the agent gives some.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from typing import Any

import pytest

from pytest_a2a_bench import dialects
from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.tau2 import upstream
from pytest_a2a_bench.benchmarks.tau2.agent import make_agent, system_prompt, tool_specs
from pytest_a2a_bench.benchmarks.tau2.benchmark import BENCHMARK
from pytest_a2a_bench.model import Briefing, Part, TrialKey, TrialResult, Usage
from pytest_a2a_bench.results.baseline import Measured, differences, measured_by

DOMAINS = ["mock", "airline", "retail", "telecom"]


@dataclasses.dataclass
class Reply:
    parts: list[Part]
    usage: Usage | None = None
    elsewhere: str = ""


@dataclasses.dataclass
class Session:
    """Answers from a list, and keeps what it was sent."""

    answers: list[str]
    sent: list[list[Part]] = dataclasses.field(default_factory=list)
    context_id: str | None = "c"

    def send(self, parts: Any, timeout: float | None = None) -> Reply:
        self.sent.append(list(parts))
        return Reply([Part.of_text(self.answers[len(self.sent) - 1])])


def conversation_with(tau2: upstream.Tau2, domain: str) -> tuple[list[Any], list[Any], list[list[Part]]]:
    """Return what upstream's agent and ours are told in a short conversation: messages, tools, and parts sent."""
    environment = tau2.registry.get_env_constructor(domain)()
    tools, policy = environment.get_tools(), environment.get_policy()
    call = {"name": tools[0].name, "arguments": {}}
    session = Session([json.dumps({"tool_call": call}), "It is done."])
    conversation = Conversation(session, Briefing(system_prompt(policy), tool_specs(tools)), dialect="tool_call")
    ours = make_agent(tau2, tools, policy, conversation)
    theirs = importlib.import_module("tau2.agent.llm_agent").LLMAgent(tools=tools, domain_policy=policy, llm="none")
    greeting = importlib.import_module("tau2.orchestrator.orchestrator").DEFAULT_FIRST_AGENT_MESSAGE
    told = theirs.get_init_state([greeting])
    state = ours.get_init_state([greeting])
    messages = tau2.messages
    heard = messages.UserMessage(role="user", content="Hello, it is about my order.")
    said, state = ours.generate_next_message(heard, state)
    result = messages.ToolMessage(role="tool", id=said.tool_calls[0].id, content="found", requestor="assistant")
    ours.generate_next_message(result, state)
    return [*told.system_messages, *told.messages, heard, said, result], tools, session.sent


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_agent_is_told_what_llm_agents_model_is_told(domain: str) -> None:
    messages, tools, (first, second) = conversation_with(upstream.load(), domain)
    system, greeting, user, said, result = messages
    text = first[0].text
    assert text.startswith(f"{system.content}\n\n<available_tools>\n")
    assert "<instructions>" in text
    assert "<policy>" in text
    listing, _, rest = text.partition("<available_tools>\n")[2].partition("\n</available_tools>")
    assert json.loads(listing) == [tool.openai_schema for tool in tools]
    assert rest.endswith(f"\n\nAssistant: {greeting.content}\n\nUser: {user.content}")
    assert second[0].text == f"Tool Result ({said.tool_calls[0].name}): {result.content}"
    assert said.tool_calls[0].id not in second[0].text


@pytest.mark.parametrize("domain", DOMAINS)
def test_frame_and_greeting_are_in_every_dialect_that_can_have_them(domain: str) -> None:
    policy = upstream.load().registry.get_env_constructor(domain)().get_policy()
    briefing = Briefing(system_prompt(policy), greeting="Hi! How can I help you today?")
    for name in ("auto", "tool_call", "data", "agentbeats", "sierra", "mcp"):
        (part,) = dialects.get(name).encode_request(briefing, [])
        told = part.text or json.dumps(part.data)
        assert "<instructions>" in told, name
        # The formats of others have the lines that their agents look for, and no place for a greeting.
        assert ("How can I help you today?" in told) is (name not in ("agentbeats", "sierra")), name


def test_numbers_of_another_prompt_are_not_comparable() -> None:
    bare, told = dialects.form("auto", Briefing("")), dialects.form("auto", BENCHMARK.prompt)
    assert len({bare, told, dialects.form("sierra", BENCHMARK.prompt)}) == 3

    def measured(**provenance: str) -> Measured:
        key = TrialKey("tau2", "mock", "create_task_1")
        return measured_by([TrialResult(key, "evaluated", "run", provenance=provenance)])

    assert list(differences(measured(prompt=told), measured(prompt=told))) == []
    assert list(differences(measured(user="llm"), measured(user="llm", prompt=told))) == [
        f"tau2/mock: prompt was none and is {told}"
    ]
