"""The interface of an agent's logic, without A2A: from a conversation to its next reply."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.registry import Player, match_call
from pytest_a2a_bench.dialects.base import DecodedRequest
from pytest_a2a_bench.model import AgentSaid, Briefing, Event, ToolCall, ToolReturned, Usage, UserSaid

TAG = "a2a_bench"
"""The metadata key under which ``--a2a-set tag-trials=on`` names the benchmark task."""


class RefusalError(Exception):
    """The agent will not do this at all: its A2A task is rejected, with the message as the reason."""


class BrainError(Exception):
    """The agent could not think (its model did not answer): an internal error on the wire, not a bad answer."""


@dataclass(slots=True)
class Conversation:
    """One context as the agent knows it.

    :param history: everything said so far, the agent's own words included.
    :param own: what this server itself said in this context; survives a client that sends the history again.
    :param dialect: the dialect in which the context was opened.
    :param last_message_id: the last request answered, so that a client's retry of it gets the same answer.
    """

    metadata: dict[str, Any] = field(default_factory=dict)
    briefing: Briefing | None = None
    history: list[Event] = field(default_factory=list)
    own: list[AgentSaid] = field(default_factory=list)
    dialect: str = "tool_call"
    last_message_id: str = ""
    last_reply: BrainReply | None = None

    def hear(self, request: DecodedRequest, metadata: Mapping[str, Any]) -> None:
        """Take in one request. A briefing starts the history anew: with it the client sends all that was said."""
        self.metadata.update(metadata)
        if request.briefing is not None:
            self.briefing = request.briefing
            self.history = []
        for event in request.events:
            self.history.append(self._as_result(event))

    def say(self, said: AgentSaid) -> None:
        """Record the agent's own words."""
        self.history.append(said)
        self.own.append(said)

    def unanswered(self) -> list[ToolCall]:
        """Return the agent's calls that no result has answered yet, in order."""
        waiting: list[ToolCall] = []
        for event in self.history:
            if isinstance(event, AgentSaid):
                waiting = list(event.calls)
            elif isinstance(event, ToolReturned) and waiting:
                waiting.remove(match_call(event, waiting))
        return waiting

    def _as_result(self, event: Event) -> Event:
        """Read a user's words as a tool's where a call is open.

        Some dialects send a single result as bare text. The environment always answers a call before the user speaks
        again, so the first text after a call can be nothing else.
        """
        if isinstance(event, UserSaid):
            waiting = self.unanswered()
            if waiting:
                return ToolReturned(waiting[0].id, waiting[0].name, event.text)
        return event


def number_calls(said: AgentSaid, conversation: Conversation) -> AgentSaid:
    """Return what is said with an id for each call that has none."""
    made = sum(len(own.calls) for own in conversation.own)
    calls = tuple(c if c.id else replace(c, id=f"call_{made + n}") for n, c in enumerate(said.calls, 1))
    return AgentSaid(said.text, calls)


def find_player(conversation: Conversation) -> Player | None:
    """Return the player of a conversation's benchmark: by its tools, else by the trial's tag."""
    if conversation.briefing is not None and conversation.briefing.tools:
        tools = conversation.briefing.tools
        recognising = next((player for _, player in registry.players() if player.recognises(tools)), None)
        if recognising is not None:
            return recognising
    suite = (bench_task_key(conversation.metadata) or "").partition("/")[0]
    return dict(registry.players()).get(suite)


@dataclass(frozen=True, slots=True)
class BrainReply:
    """What a brain answers with, and what the answer cost (None where it cost nothing to speak of)."""

    said: AgentSaid
    usage: Usage | None = None


class Brain(Protocol):
    """An agent's mind. One instance serves every conversation; all its memory is in the conversation.

    ``description`` is one sentence for the agent card.
    """

    description: str

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Answer the last thing said.

        :raises RefusalError: if the agent will not do this at all.
        :raises BrainError: if it cannot think just now.
        """
        ...


class Memory:
    """The conversations of one server by context id; the least recently used is forgotten first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: OrderedDict[str, Conversation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def recall(self, context_id: str) -> Conversation | None:
        """Return a context's conversation, or None if it is new or forgotten."""
        found = self._known.get(context_id)
        if found is not None:
            self._known.move_to_end(context_id)
        return found

    def open(self, context_id: str, dialect: str) -> Conversation:
        """Start a context's conversation."""
        conversation = self._known[context_id] = Conversation(dialect=dialect)
        while len(self._known) > self._limit:
            self._known.popitem(last=False)
        return conversation


def is_noisy(metadata: Mapping[str, Any]) -> bool:
    """Return whether the trial is one of a run with noise, in which answers of tools need not be right."""
    tag = metadata.get(TAG)
    return isinstance(tag, Mapping) and tag.get("noise") is True


def bench_task_key(metadata: Mapping[str, Any]) -> str | None:
    """Return the task that the trial is tagged with, such as ``tau2/airline/12``, or None."""
    tag = metadata.get(TAG)
    task = tag.get("task") if isinstance(tag, Mapping) else None
    return task if isinstance(task, str) and task else None
