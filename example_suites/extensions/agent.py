"""A built-in agent of our own: ``--a2a-endpoint builtin:clerk`` serves it, in a process of its own."""

from __future__ import annotations

from pytest_a2a_bench.agents.brain import BrainReply, Conversation
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.model import AgentSaid, UserSaid


class Clerk:
    """Knows where every order is."""

    description = "Says where orders are."

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Answer the last thing said."""
        last = conversation.history[-1]
        asked = last.text if isinstance(last, UserSaid) else ""
        return BrainReply(AgentSaid("Order A1 is on its way." if "A1" in asked else "You are welcome."))


def make(options: AgentOptions) -> Clerk:
    """Make the agent; what follows the question mark of ``builtin:clerk?latency=0.1`` is in the options."""
    return Clerk()
