"""Make the brain of a built-in agent; ``noop`` and ``echo`` need no module of their own."""

from __future__ import annotations

from typing import cast

from pytest_a2a_bench import extensions
from pytest_a2a_bench.agents.brain import Brain, BrainReply, Conversation, find_player, number_calls
from pytest_a2a_bench.agents.llm import LanguageModel
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.agents.oracle import Oracle
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.model import AgentSaid, ToolReturned
from pytest_a2a_bench.settings import BUILTIN_AGENTS, Settings

WORDS = "Thank you for getting in touch. I have noted what you said and will leave everything as it is."


class Noop:
    """Says the same friendly sentence whatever happens, or what a benchmark takes for it (``Player.idle``).

    It asks nothing, so that no user has to answer.
    """

    description = "Listens politely and does nothing."

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Answer with the sentence."""
        player = find_player(conversation)
        said = player.idle if player is not None and player.idle is not None else AgentSaid(WORDS)
        return BrainReply(number_calls(said, conversation))


class Echo:
    """Repeats the last thing that it was sent."""

    description = "Repeats what it is sent."

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Answer with the last text of the user or of a tool."""
        last = conversation.history[-1] if conversation.history else None
        text = last.content if isinstance(last, ToolReturned) else last.text if last else None
        return BrainReply(AgentSaid(text or "(nothing)"))


def make_brain(options: AgentOptions) -> Brain:
    """Return the brain that the options name.

    :raises ConfigurationError: if the options do not say enough for it.
    :raises MissingExtraError: if a library that it needs is not installed.
    """
    # What a brain needs beside this package (LiteLLM, tau2) is imported by the brain itself, once it is made.
    registry.register_players(options.players)
    match options.name:
        case "noop":
            return Noop()
        case "echo":
            return Echo()
        case "llm":
            return LanguageModel.from_options(options)
        case "oracle" | "readonly":
            settings = Settings(benchmark_options=dict(options.benchmark_options))
            return Oracle(settings, read_only=options.name == "readonly")
        case own:
            return cast("Brain", extensions.load("agents", own, BUILTIN_AGENTS)(options))
