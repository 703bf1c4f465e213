"""Which brain thinks for which built-in agent, and the one that needs no module of its own: that of ``noop``."""

from __future__ import annotations

from pytest_a2a_bench.agents.brain import Brain, BrainReply, Conversation
from pytest_a2a_bench.agents.crm import GoldSource, Solver, is_crm, respond
from pytest_a2a_bench.agents.llm import LanguageModel
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.agents.oracle import Oracle, without_writes
from pytest_a2a_bench.model import AgentSaid

WORDS = "Thank you for getting in touch. I have noted what you said and will leave everything as it is."


class Noop:
    """Says the same friendly sentence whatever happens. It asks nothing, so that no user has to answer.

    To a CRM task its answer is "None", always.
    """

    description = "Listens politely and does nothing."

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Answer with the sentence."""
        if is_crm(conversation):
            return BrainReply(respond(conversation, "None"))
        return BrainReply(AgentSaid(WORDS))


def make_brain(options: AgentOptions) -> Brain:
    """Return the brain that the options name.

    :raises ConfigurationError: if the options do not say enough for it.
    :raises MissingExtraError: if a library that it needs is not installed.
    """
    # What a brain needs beside this package (LiteLLM, tau2) is imported by the brain itself, once it is made.
    golds = GoldSource(options.crm_data, options.crm_tasks, options.crm_seed)
    match options.name:
        case "noop":
            return Noop()
        case "llm":
            return LanguageModel.from_options(options)
        case "solver":
            return Solver()
        case "readonly":
            return Oracle(without_writes, description="Plays the reference solution but changes nothing.", crm=golds)
        case _:
            return Oracle(crm=golds)
