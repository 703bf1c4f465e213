"""A2A agents that play users and colleagues: a brain of a test's own, served over real HTTP in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from builtin_server import on_loop
from faulty_server import serve_app

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.agents.brain import BrainError, BrainReply, Conversation, bench_task_key
from pytest_a2a_bench.agents.card import Addresses
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.agents.server import start_brain
from pytest_a2a_bench.benchmarks.tau2 import upstream
from pytest_a2a_bench.benchmarks.tau2.user.script import Script, make_script
from pytest_a2a_bench.model import AgentSaid, Event, ToolCall, ToolReturned, Usage, UserSaid

USAGE = Usage(11, 3, 0.25)


class Speaker:
    """Says what a function makes of the conversation.

    :param say: is given the conversation; a text, a call, or None for silence.
    :ivar heard: every first message's briefing, by context.
    """

    description = "Says what a test wants."

    def __init__(self, say: Callable[[Conversation], str | ToolCall | None], usage: Usage | None = USAGE) -> None:
        self._say = say
        self._usage = usage
        self.conversations: list[Conversation] = []

    @classmethod
    def always(cls, said: str | ToolCall | BrainError | None) -> Speaker:
        """Return one that says the same to everything, or breaks."""

        def say(conversation: Conversation) -> str | ToolCall | None:
            if isinstance(said, BrainError):
                raise said
            return said

        return cls(say)

    async def reply(self, conversation: Conversation) -> BrainReply:
        if not any(known is conversation for known in self.conversations):
            self.conversations.append(conversation)
        said = await asyncio.to_thread(self._say, conversation)
        if isinstance(said, ToolCall):
            return BrainReply(AgentSaid(calls=(said,)), self._usage)
        return BrainReply(AgentSaid(said or ""), self._usage)


class ScriptedUsers:
    """tau2's scripted users: each conversation has the script of the task that its messages are tagged with."""

    def __init__(self) -> None:
        self._scripts: dict[int, tuple[Conversation, Script]] = {}

    def __call__(self, conversation: Conversation) -> str | ToolCall:
        _, script = self._scripts.get(id(conversation)) or (None, self._begin(conversation))
        self._scripts[id(conversation)] = (conversation, script)
        new = heard(conversation)
        results = [event.content for event in new if isinstance(event, ToolReturned)]
        words = "".join(event.text for event in new if isinstance(event, UserSaid))
        reaction = script.after_action(results) if results else script.hear(words)
        if reaction is None:
            return "###STOP###"
        return reaction if isinstance(reaction, str) else ToolCall(*reaction)

    def _begin(self, conversation: Conversation) -> Script:
        _, domain, task_id = str(bench_task_key(conversation.metadata)).split("/", 2)
        tau2 = upstream.load()
        assert conversation.briefing is not None
        return make_script(upstream.read_task(tau2, domain, task_id), [t.name for t in conversation.briefing.tools])


def heard(conversation: Conversation) -> list[Event]:
    """Return what was said since the agent itself spoke last."""
    new: list[Event] = []
    for event in reversed(conversation.history):
        if isinstance(event, AgentSaid):
            break
        new.insert(0, event)
    return new


@contextlib.contextmanager
def served_brain(brain: Any, token: str | None = None) -> Iterator[str]:
    """Serve a brain on the loop thread of the client, and give its URL."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await found[0](scope, receive, send)

    found: list[Any] = []
    with on_loop(serve_app(app)) as url:
        found.append(loop.run(start_brain(brain, AgentOptions("noop"), Addresses(url), token, None)))
        yield url
