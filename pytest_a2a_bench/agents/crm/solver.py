"""An agent without a language model that answers CRM tasks by asking the org in SOQL and SOSL only.

It sees what every agent sees: the briefing, the question and what the org said. How it thinks is
:mod:`pytest_a2a_bench.benchmarks.crmarena.solve`; here is only how a conversation drives that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_a2a_bench.agents.brain import BrainReply, Conversation, RefusalError, match_call
from pytest_a2a_bench.agents.crm import execute, is_crm, respond
from pytest_a2a_bench.benchmarks.crmarena.solve import choose_steps
from pytest_a2a_bench.benchmarks.crmarena.solve.task import AgentTask, Record, read_observation
from pytest_a2a_bench.model import AgentSaid, Event, ToolCall, ToolReturned, UserSaid

ASK_BACK = "What exactly do you want to know?"
_NO_CRM = "this agent answers CRM tasks only: it needs the tools execute and respond"


class Solver:
    """Plans its queries from the words of the question and answers from what they find."""

    description = "Answers CRM tasks with fixed plans of SOQL queries, without a language model."

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Make the next query, or answer."""
        if not is_crm(conversation):
            raise RefusalError(_NO_CRM)
        # Not in a thread: Python 3.11's ast, which reads observations, cannot be used by two threads at once.
        return BrainReply(next_action(conversation))


@dataclass(slots=True)
class Heard:
    """What a conversation came to.

    :param words: what the user has said, in order.
    :param found: the records of each query that was made, whatever the user had said by then.
    """

    words: list[str] = field(default_factory=list)
    found: dict[str, list[Record]] = field(default_factory=dict)


def next_action(conversation: Conversation) -> AgentSaid:
    """Return what to do next: a pure function of the conversation, so that a client that resends it all is no trouble.

    The plan is played from its beginning with everything found so far; the first query not made yet is what to do.
    """
    heard = listen(conversation.history)
    briefing = conversation.briefing.policy if conversation.briefing else ""
    try:
        steps = choose_steps(AgentTask(" ".join(heard.words), briefing))
        query = next(steps)
        while query in heard.found:
            query = steps.send(heard.found[query])
    except StopIteration as end:
        return respond(conversation, str(end.value))
    except (ValueError, LookupError):
        # The plans need what the question names (a day, an id); a question told in pieces may not have it yet.
        return respond(conversation, ASK_BACK)
    return execute(conversation, query)


def listen(history: list[Event]) -> Heard:
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
                if call.name == "execute":
                    heard.found[str(call.arguments.get("query"))] = read_observation(event.content)
                else:
                    heard.words.append(event.content)
            case UserSaid() | ToolReturned():
                heard.words.append(event.text if isinstance(event, UserSaid) else event.content)
    return heard
