"""An agent that is polite and does nothing: what a benchmark must not reward."""

from __future__ import annotations

from pytest_a2a_bench.agents.brain import Conversation, Reply
from pytest_a2a_bench.agents.crm import is_crm, respond
from pytest_a2a_bench.model import AgentSaid

WORDS = "Thank you for getting in touch. I have noted what you said and will leave everything as it is."


class Noop:
    """Says the same friendly sentence whatever happens. It asks nothing, so that no user has to answer.

    To a CRM task its answer is "None", always.
    """

    description = "Listens politely and does nothing."

    async def reply(self, conversation: Conversation) -> Reply:
        """Answer with the sentence."""
        if is_crm(conversation):
            return Reply(respond(conversation, "None"))
        return Reply(AgentSaid(WORDS))
