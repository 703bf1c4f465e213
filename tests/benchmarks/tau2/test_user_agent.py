"""An A2A agent that plays tau2's user: worth the same as the same user in this process, blamed for its own doing."""

import contextlib
import dataclasses
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builtin_server import served
from trials import RunTrials, said, some_keys
from user_agents import ScriptedUsers, Speaker, served_brain

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.agents.brain import Brain, BrainError, BrainReply, Conversation, number_calls
from pytest_a2a_bench.agents.brains import Noop, Oracle
from pytest_a2a_bench.benchmarks.base import FurtherAgent
from pytest_a2a_bench.benchmarks.participants import WELCOME
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import AgentSaid, ToolCall, ToolReturned, TrialKey, TrialResult, Usage
from pytest_a2a_bench.reports import protocol_metrics
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.trials.runner import Runner
from pytest_a2a_bench.trials.trial import Client

SCRIPTED = Settings(tag_trials=True, concurrency=4)
STOP_WORDS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")


def played_by(url: str, **options: Any) -> Settings:
    return dataclasses.replace(SCRIPTED, user=f"a2a:{url}", **options)


@pytest.mark.slow
@pytest.mark.parametrize(("domain", "count"), [("mock", 1), ("telecom", 2)])
def test_the_same_user_behind_a2a(run_trials: RunTrials, domain: str, count: int) -> None:
    every, speaker = some_keys(domain, count), Speaker(ScriptedUsers())
    here = run_trials("oracle", SCRIPTED, every)
    with served_brain(speaker) as url:
        there = run_trials("oracle", played_by(url), every)
    for one, result in zip(here, there, strict=True):
        assert (one.status, result.status) == ("evaluated", "evaluated"), result.error
        assert (result.reward_info, result.termination_reason) == (one.reward_info, one.termination_reason)
        assert said(result) == said(one)
        assert (result.turns, result.wire.requests) == (one.turns, one.wire.requests)
        assert result.fingerprint != one.fingerprint
        (party,) = result.parties
        spoken = [turn for turn in result.transcript if turn.role == "user"]
        assert {turn.party for turn in spoken} == {"user"}
        assert (party.name, party.role, party.turns) == ("user", "user", len(spoken))
        assert len(party.turn_latencies) == len(spoken)
        assert (party.usage.input_tokens, party.usage.cost_usd) == (11 * len(spoken), 0.25 * len(spoken))
        # Nothing of it is the agent's under test.
        assert (result.agent_usage.input_tokens, result.user_usage.input_tokens) == (None, None)
        assert result.cost == party.usage.cost_usd
        assert result.provenance["user"] == "a2a"
        assert "noop" in result.provenance["user_agent"] == result.user
    briefing = speaker.conversations[-1].briefing
    assert briefing is not None
    assert "<scenario>" in briefing.policy
    assert all(word in briefing.policy for word in STOP_WORDS)
    assert bool(briefing.tools) == (domain == "telecom")


GONE = "nobody is there"
GARBLED = '{"tool_call": {"name": "run_speed_test", "arguments": '


@pytest.mark.parametrize(
    ("says", "domain", "message"),
    [
        (None, "mock", "empty"),
        (GONE, "mock", "127.0.0.1:9"),
        (BrainError("no model"), "mock", "the agent that plays the user"),
        pytest.param(GARBLED, "telecom", "cannot be read", marks=pytest.mark.slow),
        pytest.param(ToolCall("no_such_tool", {}), "telecom", "10 of its tool calls failed", marks=pytest.mark.slow),
    ],
)
def test_a_user_that_talks_nonsense_or_is_not_there_is_an_error_of_its_own(
    run_trials: RunTrials, says: str | ToolCall | BrainError | None, domain: str, message: str
) -> None:
    with served_brain(Speaker.always(says)) as url:
        (result,) = run_trials("oracle", played_by("http://127.0.0.1:9" if says == GONE else url), some_keys(domain, 1))
    assert (result.status, result.blame, result.reward_info) == ("infrastructure_error", "user", None)
    assert message in str(result.error)
    assert str(result.error).startswith("the agent that plays the user: ")


@pytest.mark.parametrize("word", STOP_WORDS)
def test_each_stop_word_ends_the_conversation(run_trials: RunTrials, word: str) -> None:
    with served_brain(Speaker.always(f"Thank you. {word}")) as url:
        (result,) = run_trials("noop", played_by(url), some_keys("mock", 1))
    assert (result.status, result.termination_reason) == ("evaluated", "user_stop")


def test_the_users_agent_gets_its_own_token_alone(run_trials: RunTrials, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_AUTH_TOKEN", "of-the-tested")
    monkeypatch.setenv("USERS_TOKEN", "of-the-user")
    with served_brain(Speaker.always("###STOP###"), token="of-the-user") as url:
        (refused,) = run_trials("noop", played_by(url), some_keys("mock", 1))
        (result,) = run_trials("noop", played_by(url, user_auth_env="USERS_TOKEN"), some_keys("mock", 1))
    assert (refused.error_type, refused.blame) == ("AuthenticationError", "user")
    assert "user-auth-env" in str(refused.error)
    assert result.status == "evaluated"


# ``transfer``: a conversation goes on with another agent, whose doing is told apart, over real HTTP.


KEY = TrialKey("tau2", "mock", "create_task_1", agent="a")


class HandsOver:
    """Says something, and transfers as soon as it hears back; afterwards nobody should ask it anything."""

    description = "Transfers every conversation."

    def __init__(self, **arguments: str) -> None:
        self.asked = 0
        self.arguments = arguments or {"summary": "They want a task."}

    async def reply(self, conversation: Conversation) -> BrainReply:
        self.asked += 1
        said = AgentSaid(calls=(ToolCall("transfer_to_human_agents", self.arguments),))
        return BrainReply(number_calls(said, conversation), Usage(10, 1, 0.5))


class Remembers:
    """Lets another brain answer, and keeps what that was told first."""

    def __init__(self, brain: Brain) -> None:
        self.description = brain.description
        self.brain = brain
        self.message: list[object] = []
        self.policy = ""

    async def reply(self, conversation: Conversation) -> BrainReply:
        if not self.message:
            self.message = list(conversation.history)
            self.policy = conversation.briefing.policy if conversation.briefing else ""
        answer = await self.brain.reply(conversation)
        return BrainReply(answer.said, Usage(100, 10, 2.0))


@contextlib.contextmanager
def connected(brain: Brain) -> Iterator[AgentConnection]:
    with served("noop", brain) as found, AgentConnection(ClientConfig(found.url)) as connection:
        yield connection


def hold(brain: Brain, other: Brain, folder: Path, **options: object) -> TrialResult:
    """Hold a trial with an agent, and another one that the conversation may be transferred to."""
    settings = Settings(transfer="b", tag_trials=True, redeliver=0, **options)  # type: ignore[arg-type]
    with connected(brain) as first, connected(other) as second:
        return hold_with(first, second, settings, folder)


def hold_with(first: AgentConnection, second: AgentConnection, settings: Settings, folder: Path) -> TrialResult:
    further = FurtherAgent("b", "transfer", second, "B 1.0, A2A 1.0 jsonrpc", "http://b")
    return Runner(settings, Client(first, further=(further,)), Store(folder), uuid.uuid4().hex).run(KEY)


def test_the_other_agent_goes_on_with_all_that_was_said(tmp_path: Path) -> None:
    hands_over, other = HandsOver(), Remembers(Oracle())
    result = hold(hands_over, other, tmp_path)
    assert (result.status, result.reward, result.blame) == ("evaluated", 1.0, None)
    assert hands_over.asked == 1
    # The call that transferred stays in the trajectory, for upstream's evaluator, and is the first agent's.
    assert [c.name for c in result.tool_calls] == ["transfer_to_human_agents"]
    agents = [(turn.party, [c.name for c in turn.calls]) for turn in result.transcript if turn.role == "agent"]
    assert agents[:3] == [(None, []), (None, ["transfer_to_human_agents"]), ("b", ["create_task"])]
    assert {party for party, _ in agents[2:]} == {"b"}
    # It was told policy, what the user wants, the call and its result, and only it that it is the one who goes on.
    assert other.policy
    assert any(isinstance(event, AgentSaid) and event.calls for event in other.message)
    results = [event.content for event in other.message if isinstance(event, ToolReturned)]
    assert [WELCOME in content for content in results] == [True]
    assert not any(WELCOME in (turn.text or "") for turn in result.transcript)
    # Each has numbers of its own.
    (party,) = result.parties
    assert (party.name, party.role, party.turns) == ("b", "transfer", len(agents) - 2)
    assert (len(result.metrics), result.agent_usage) == (1, Usage(10, 1, 0.5))
    assert party.usage == Usage(100 * party.turns, 10 * party.turns, 2.0 * party.turns)
    assert result.cost == pytest.approx(0.5 + party.turns * 2)
    assert (len(result.turn_latencies), len(party.turn_latencies)) == (1, party.turns)
    assert party.context_id not in (None, result.context_id)
    exported = protocol_metrics.of_trial(result)
    assert (exported["summary"]["total_requests"], exported["parties"][0]["summary"]["total_requests"]) == (
        1,
        len(party.metrics),
    )
    # And so have the files.
    stored = Store(tmp_path).read(KEY)
    assert stored is not None
    assert (stored.parties, stored.blame, stored.transcript) == (result.parties, None, result.transcript)


def test_a_miss_after_the_transfer_is_whose_who_had_the_last_word(tmp_path: Path) -> None:
    result = hold(HandsOver(), Noop(), tmp_path)
    assert (result.status, result.reward, result.blame) == ("evaluated", 0.0, "b")
    assert result.provenance["transfer"] == "b"


def test_trouble_of_the_other_agent_is_not_the_first_ones(tmp_path: Path) -> None:
    gone = ClientConfig("http://127.0.0.1:1", max_retries=0)
    with connected(HandsOver()) as first, AgentConnection(gone) as second:
        result = hold_with(first, second, Settings(transfer="b", tag_trials=True, redeliver=0), tmp_path)
    assert (result.status, result.blame) == ("infrastructure_error", "b")
    assert result.error_type == "EndpointUnreachableError"
    assert result.wire.errors == 0


def test_a_call_that_fails_transfers_nothing(tmp_path: Path) -> None:
    hands_over = HandsOver(nonsense="x")
    result = hold(hands_over, Noop(), tmp_path, max_errors=2)
    assert (result.parties, result.blame) == ((), None)
    assert hands_over.asked > 1


def test_with_nobody_to_go_on_it_ends_as_ever(tmp_path: Path) -> None:
    with connected(HandsOver()) as first:
        settings = Settings(tag_trials=True, max_steps=12)
        result = Runner(settings, Client(first), Store(tmp_path), uuid.uuid4().hex).run(KEY)
    assert result.parties == ()
    assert "parties" not in (tmp_path / "trials" / os.listdir(tmp_path / "trials")[0]).read_text()
