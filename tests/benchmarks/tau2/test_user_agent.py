"""An A2A agent that plays tau2's user: worth the same as the same user in this process, blamed for its own doing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from rotating import rotating
from trials import RunTrials
from user_agents import ScriptedUsers, Speaker, served_brain

from pytest_a2a_bench.agents.brain import BrainError, Conversation
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import ToolCall, TrialKey, TrialResult

SCRIPTED = Settings(tag_trials=True, concurrency=4)
STOP_WORDS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")


def keys(domain: str, count: int | None = None) -> list[TrialKey]:
    every = index.load_tasks(domain)
    step = max(1, len(every) // count) if count else 1
    return [TrialKey("tau2", domain, task.task_id) for task in every[::step][:count]]


def played_by(url: str, **options: Any) -> Settings:
    return dataclasses.replace(SCRIPTED, user=f"a2a:{url}", **options)


def said(result: TrialResult) -> list[Any]:
    return [
        (turn.role, turn.text, turn.tool, turn.error, turn.requestor, [(c.name, c.arguments) for c in turn.calls])
        for turn in result.transcript
    ]


@pytest.fixture(scope="module")
def users() -> Iterator[tuple[str, Speaker]]:
    speaker = Speaker(ScriptedUsers())
    with served_brain(speaker) as url:
        yield url, speaker


def compare(run_trials: RunTrials, url: str, spec: str, every: list[TrialKey]) -> list[TrialResult]:
    here, there = run_trials(spec, SCRIPTED, every), run_trials(spec, played_by(url), every)
    for one, other in zip(here, there, strict=True):
        assert (one.status, other.status) == ("evaluated", "evaluated"), other.error
        assert (other.reward_info, other.termination_reason) == (one.reward_info, one.termination_reason)
        assert said(other) == said(one)
        assert (other.turns, other.wire.requests) == (one.turns, one.wire.requests)
        assert other.fingerprint != one.fingerprint
    return there


@pytest.mark.parametrize(("domain", "count"), [("mock", 1), pytest.param("telecom", 2, marks=pytest.mark.slow)])
def test_the_same_user_behind_a2a_comes_to_the_same(
    run_trials: RunTrials, users: tuple[str, Speaker], domain: str, count: int
) -> None:
    url, speaker = users
    for result in compare(run_trials, url, "oracle", keys(domain, count)):
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


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["mock", "airline", "retail", "telecom"])
def test_the_same_user_behind_a2a_comes_to_the_same_on_every_base_task(
    run_trials: RunTrials, users: tuple[str, Speaker], domain: str
) -> None:
    # Without A2A_BENCH_FUZZ_SEED that is every one; docs/guides/users.md has the table that -s prints.
    found = compare(run_trials, users[0], "oracle", rotating(keys(domain), 10))
    passed, turns = sum(result.success for result in found), sum(result.turns for result in found)
    print(f"| {domain} | {len(found)} | {passed} | {turns} | 0 |")


def silent(conversation: Conversation) -> None:
    return None


def broken(conversation: Conversation) -> str:
    raise BrainError("no model")


def garbled(conversation: Conversation) -> str:
    return '{"tool_call": {"name": "run_speed_test", "arguments": '


def wrong_tool(conversation: Conversation) -> ToolCall:
    return ToolCall("no_such_tool", {})


@pytest.mark.parametrize(
    ("say", "domain", "told"),
    [
        (silent, "mock", "empty"),
        (broken, "mock", "the agent that plays the user"),
        pytest.param(garbled, "telecom", "cannot be read", marks=pytest.mark.slow),
        pytest.param(wrong_tool, "telecom", "10 of its tool calls failed", marks=pytest.mark.slow),
    ],
)
def test_a_user_that_talks_nonsense_is_an_error_of_its_own(
    run_trials: RunTrials, say: Any, domain: str, told: str
) -> None:
    with served_brain(Speaker(say)) as url:
        (result,) = run_trials("oracle", played_by(url), keys(domain, 1))
    assert result.status == "infrastructure_error"
    assert told in str(result.error)
    assert str(result.error).startswith("the agent that plays the user: ")
    assert (result.blame, result.reward_info) == ("user", None)


def test_a_user_that_is_not_there_is_an_error_of_its_own(run_trials: RunTrials) -> None:
    (result,) = run_trials("oracle", played_by("http://127.0.0.1:9"), keys("mock", 1))
    assert (result.status, result.blame) == ("infrastructure_error", "user")
    assert str(result.error).startswith("the agent that plays the user: ")


@pytest.mark.parametrize("word", STOP_WORDS)
def test_each_stop_word_ends_the_conversation(run_trials: RunTrials, word: str) -> None:
    with served_brain(Speaker(lambda conversation: f"Thank you. {word}")) as url:
        (result,) = run_trials("noop", played_by(url), keys("mock", 1))
    assert (result.status, result.termination_reason) == ("evaluated", "user_stop")


def test_the_users_agent_gets_its_own_token_and_no_other(
    run_trials: RunTrials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2A_AUTH_TOKEN", "of-the-tested")
    monkeypatch.setenv("USERS_TOKEN", "of-the-user")
    with served_brain(Speaker(lambda conversation: "###STOP###"), token="of-the-user") as url:
        (refused,) = run_trials("noop", played_by(url), keys("mock", 1))
        (result,) = run_trials("noop", played_by(url, user_auth_env="USERS_TOKEN"), keys("mock", 1))
    assert (refused.error_type, refused.blame) == ("AuthenticationError", "user")
    assert "user-auth-env" in str(refused.error)
    assert result.status == "evaluated"
