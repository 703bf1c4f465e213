"""An agent that plays the reference solution: what a benchmark must reward in full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache

from pytest_a2a_bench.agents.brain import BrainReply, Conversation, RefusalError, bench_task_key
from pytest_a2a_bench.agents.crm import is_crm, respond
from pytest_a2a_bench.agents.crm.gold import GoldSource, gold_answer
from pytest_a2a_bench.agents.gold import Gold, load_gold
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.model import AgentSaid, ToolCall

FAREWELL = "Thank you for your patience. All of it is settled."

UNTAGGED = (
    "this agent replays the reference solution and has to know which task it is asked: "
    "message metadata has no a2a_bench.task; run pytest with --a2a-tag-trials"
)


class Oracle:
    """Makes the reference calls one a turn, then says once what the user must hear, then only bids farewell.

    It never asks anything, so that a scripted user has nothing to answer. To a CRM task it responds with the gold.

    :param revise: changes the gold before it is played (see :func:`.gold.without_writes`); CRM tasks have nothing to
        change.
    :param crm: where it finds the golds of CRM tasks.
    """

    def __init__(
        self,
        revise: Callable[[Gold], Gold] | None = None,
        description: str = "Plays the reference solution of the task.",
        crm: GoldSource | None = None,
    ) -> None:
        self.description = description
        self._revise = revise
        self._crm = crm or GoldSource()
        # Keyed by task: all trials and turns of a task share one reading of the (up to 14 MB) data file.
        self._gold = lru_cache(maxsize=4096)(self._load)

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Say the next line of the play."""
        key = bench_task_key(conversation.metadata)
        if key is None:
            raise RefusalError(UNTAGGED)
        try:
            if is_crm(conversation):
                answer = await asyncio.to_thread(gold_answer, key, self._crm)
                return BrainReply(respond(conversation, answer))
            gold = await asyncio.to_thread(self._gold, key)
        except (A2ABenchError, LookupError) as error:
            raise RefusalError(f"no reference solution for {key}: {error}") from error
        return BrainReply(next_line(gold, conversation))

    def _load(self, key: str) -> Gold:
        gold = load_gold(key)
        return self._revise(gold) if self._revise else gold


def next_line(gold: Gold, conversation: Conversation) -> AgentSaid:
    """Return what to say, given what was said: a pure function of the conversation."""
    plan = gold.plan(conversation.briefing)
    done = max(_played(plan, conversation), sum(len(said.calls) for said in conversation.own))
    if done < len(plan):
        call = plan[done]
        return AgentSaid(calls=(ToolCall(call.name, call.arguments, id=f"call_{done + 1}"),))
    if gold.closing not in _spoken(conversation):
        return AgentSaid(gold.closing)
    return AgentSaid(FAREWELL)


def _played(plan: tuple[ToolCall, ...], conversation: Conversation) -> int:
    """Count the calls of the plan that the history shows, for a client that sends it all and keeps no context.

    Calls that are not the plan's (a history that the task began with) do not count.
    """
    done = 0
    for event in conversation.history:
        for call in event.calls if isinstance(event, AgentSaid) else ():
            if done < len(plan) and (call.name, call.arguments) == (plan[done].name, plan[done].arguments):
                done += 1
    return done


def _spoken(conversation: Conversation) -> set[str]:
    remembered = [event for event in conversation.history if isinstance(event, AgentSaid)]
    return {said.text for said in (*remembered, *conversation.own) if said.text}
