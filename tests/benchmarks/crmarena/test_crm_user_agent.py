"""An A2A agent that plays the user of an interactive CRM task."""

from __future__ import annotations

import dataclasses

import pytest
from crm_trials import MINI, keys, measured, one_of_each, settings
from trials import RunTrials
from user_agents import Speaker, heard, served_brain

from pytest_a2a_bench.agents.brain import Conversation, bench_task_key
from pytest_a2a_bench.benchmarks.crmarena.evaluation import asked
from pytest_a2a_bench.benchmarks.crmarena.prompt import ScriptedUser
from pytest_a2a_bench.benchmarks.models import STOP
from pytest_a2a_bench.model import ToolCall, UserSaid


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
    ("said", "told"),
    [
        (STOP, "it stopped before it asked anything"),
        pytest.param(ToolCall("execute", {"query": "SELECT Id FROM Case"}), "has no tools", marks=pytest.mark.slow),
        pytest.param(None, "empty", marks=pytest.mark.slow),
    ],
)
def test_nonsense_is_an_error_of_its_own(run_trials: RunTrials, said: str | ToolCall | None, told: str) -> None:
    with served_brain(Speaker(lambda conversation: said)) as url:
        every = keys("mini_interactive", one_of_each()[:1])
        (result,) = run_trials("solver", dataclasses.replace(settings(), user=f"a2a:{url}"), every)
    assert (result.status, result.blame) == ("infrastructure_error", "user")
    assert told in str(result.error)
