"""``transfer``: a conversation goes on with another agent, whose doing is told apart, over real HTTP."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from builtin_server import served

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.agents.brain import Brain, BrainReply, Conversation, number_calls
from pytest_a2a_bench.agents.brains import Noop, Oracle
from pytest_a2a_bench.benchmarks.participants import WELCOME, FurtherAgent
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import AgentSaid, ToolCall, ToolReturned, TrialKey, TrialResult, Usage
from pytest_a2a_bench.reports import protocol_metrics
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.trials.runner import Runner
from pytest_a2a_bench.trials.trial import Client

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
        self.told: list[object] = []
        self.policy = ""

    async def reply(self, conversation: Conversation) -> BrainReply:
        if not self.told:
            self.told = list(conversation.history)
            self.policy = conversation.briefing.policy if conversation.briefing else ""
        answer = await self.brain.reply(conversation)
        return BrainReply(answer.said, Usage(100, 10, 2.0))


@contextlib.contextmanager
def connected(brain: Brain) -> Iterator[AgentConnection]:
    with served("noop", brain) as found, AgentConnection(ClientConfig(found.url)) as connection:
        yield connection


def hold(first: AgentConnection, second: AgentConnection, folder: Path, **options: object) -> TrialResult:
    settings = Settings(transfer="b", tag_trials=True, redeliver=0, **options)  # type: ignore[arg-type]
    further = FurtherAgent("b", "transfer", lambda: second, "B 1.0, A2A 1.0 jsonrpc", "http://b")
    runner = Runner(settings, Client(first, further=(further,)), Store(folder), uuid.uuid4().hex)
    return runner.run(KEY)


def test_the_other_agent_goes_on_with_all_that_was_said(tmp_path: Path) -> None:
    hands_over, other = HandsOver(), Remembers(Oracle())
    with connected(hands_over) as first, connected(other) as second:
        result = hold(first, second, tmp_path)
    assert (result.status, result.reward, result.blame) == ("evaluated", 1.0, None)
    assert hands_over.asked == 1
    # The call that transferred stays in the trajectory, for upstream's evaluator, and is the first agent's.
    assert [c.name for c in result.tool_calls] == ["transfer_to_human_agents"]
    agents = [(turn.party, [c.name for c in turn.calls]) for turn in result.transcript if turn.role == "agent"]
    assert agents[:3] == [(None, []), (None, ["transfer_to_human_agents"]), ("b", ["create_task"])]
    assert {party for party, _ in agents[2:]} == {"b"}
    # It was told policy, what the user wants, the call and its result, and only it that it is the one who goes on.
    assert other.policy
    assert any(isinstance(event, AgentSaid) and event.calls for event in other.told)
    results = [event.content for event in other.told if isinstance(event, ToolReturned)]
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
    with connected(HandsOver()) as first, connected(Noop()) as second:
        result = hold(first, second, tmp_path)
    assert (result.status, result.reward, result.blame) == ("evaluated", 0.0, "b")
    assert result.provenance["transfer"] == "b"


def test_trouble_of_the_other_agent_is_not_the_first_ones(tmp_path: Path) -> None:
    gone = ClientConfig("http://127.0.0.1:1", max_retries=0)
    with connected(HandsOver()) as first, AgentConnection(gone) as second:
        result = hold(first, second, tmp_path)
    assert (result.status, result.blame) == ("infrastructure_error", "b")
    assert result.error_type == "EndpointUnreachableError"
    assert result.wire.errors == 0


def test_a_call_that_fails_transfers_nothing(tmp_path: Path) -> None:
    hands_over = HandsOver(nonsense="x")
    with connected(hands_over) as first, connected(Noop()) as second:
        result = hold(first, second, tmp_path, max_errors=2)
    assert (result.parties, result.blame) == ((), None)
    assert hands_over.asked > 1


def test_with_nobody_to_go_on_it_ends_as_ever(tmp_path: Path) -> None:
    with connected(HandsOver()) as first:
        settings = Settings(tag_trials=True, max_steps=12)
        result = Runner(settings, Client(first), Store(tmp_path), uuid.uuid4().hex).run(KEY)
    assert result.parties == ()
    assert "parties" not in (tmp_path / "trials" / os.listdir(tmp_path / "trials")[0]).read_text()
