"""An agent that is polite and does nothing: what a benchmark must not reward."""

from __future__ import annotations

from pytest_a2a_bench.agents.brain import Conversation, Reply
from pytest_a2a_bench.model import AgentSaid

WORDS = "Thank you for getting in touch. I have noted what you said and will leave everything as it is."


class Noop:
    """Says the same friendly sentence whatever happens. It asks nothing, so that no user has to answer."""

    description = "Listens politely and does nothing."

    async def reply(self, conversation: Conversation) -> Reply:
        """Answer with the sentence."""
        return Reply(AgentSaid(WORDS))
