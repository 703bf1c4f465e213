"""The reference solver as an agent: it sees what every agent sees, and asks the org in SOQL and SOSL only.

A test offers it by ``pytest_a2a_bench_agents`` as ``mini_org.agent:make``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mini_org.solve import choose_steps
from mini_org.solve.task import AgentTask, Record, read_observation
from pytest_a2a_bench.agents.brain import BrainReply, Conversation, number_calls
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.benchmarks.crmarena.actions import EXECUTE
from pytest_a2a_bench.benchmarks.crmarena.player import respond
from pytest_a2a_bench.benchmarks.registry import match_call
from pytest_a2a_bench.model import AgentSaid, Event, ToolCall, ToolReturned, UserSaid


class Solver:
    """Answers with the plans of the reference solver."""

    description = "Answers with fixed plans, without a language model."

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Make the next query, or answer."""
        # Not in a thread: Python 3.11's ast, which reads observations, cannot be used by two threads at once.
        policy = conversation.briefing.policy if conversation.briefing else ""
        return BrainReply(number_calls(next_action(policy, conversation.history), conversation))


def make(options: AgentOptions) -> Solver:
    """Return the agent."""
    return Solver()


ASK_BACK = "What exactly do you want to know?"


@dataclass(slots=True)
class Heard:
    """What a conversation came to.

    :param words: what the user has said, in order.
    :param found: the records of each query that was made, whatever the user had said by then.
    """

    words: list[str] = field(default_factory=list)
    found: dict[str, list[Record]] = field(default_factory=dict)


def next_action(policy: str, history: Sequence[Event]) -> AgentSaid:
    """Return what to do next: a pure function of the conversation, so that a client that resends it all is no trouble.

    The plan is played from its beginning with everything found so far; the first query not made yet is what to do.
    """
    heard = listen(history)
    try:
        steps = choose_steps(AgentTask(" ".join(heard.words), policy))
        query = next(steps)
        while query in heard.found:
            query = steps.send(heard.found[query])
    except StopIteration as end:
        return AgentSaid(calls=(respond(str(end.value)),))
    except (ValueError, LookupError):
        # The plans need what the question names (a day, an id); a question told in pieces may not have it yet.
        return AgentSaid(calls=(respond(ASK_BACK),))
    return AgentSaid(calls=(ToolCall(EXECUTE, {"query": query}),))


def listen(history: Sequence[Event]) -> Heard:
    """Sort a history into the user's words and the org's answers."""
    heard = Heard()
    waiting: list[ToolCall] = []
    for event in history:
        match event:
            case AgentSaid():
                waiting = list(event.calls)
            case ToolReturned() if waiting:
                call = match_call(event, waiting)
                waiting.remove(call)
                if call.name == EXECUTE:
                    heard.found[str(call.arguments.get("query"))] = read_observation(event.content)
                else:
                    heard.words.append(event.content)
            case UserSaid() | ToolReturned():
                heard.words.append(event.text if isinstance(event, UserSaid) else event.content)
    return heard
