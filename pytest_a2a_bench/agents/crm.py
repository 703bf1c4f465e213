"""The CRM side of the built-in agents: what they do where the tools are ``execute`` and ``respond``.

The oracle reads the gold from the data itself: nothing sends it one. The solver has no language model and asks the org
in SOQL and SOSL only; it sees what every agent sees: the briefing, the question and what the org said. How it thinks is
:mod:`pytest_a2a_bench.benchmarks.crmarena.solve`; here is only how a conversation drives that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from pytest_a2a_bench.agents.brain import BrainReply, Conversation, RefusalError, bench_task_key, match_call
from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.solve import choose_steps
from pytest_a2a_bench.benchmarks.crmarena.solve.task import AgentTask, Record, read_observation
from pytest_a2a_bench.benchmarks.crmarena.sources.opening import open_source
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.model import AgentSaid, Event, ToolCall, ToolReturned, UserSaid
from pytest_a2a_bench.settings import Settings
from pytest_a2a_bench.translate.org_actions import is_about_org

_SUITE = "crmarena/"


def is_crm(conversation: Conversation) -> bool:
    """Tell whether a conversation is about a CRM task: by its tools, else by the trial's tag."""
    if conversation.briefing is not None and conversation.briefing.tools:
        return is_about_org(conversation.briefing.tools)
    return (bench_task_key(conversation.metadata) or "").startswith(_SUITE)


def respond(conversation: Conversation, answer: str) -> AgentSaid:
    """Give an answer."""
    return AgentSaid(calls=(ToolCall("respond", {"answer": answer}, _next_id(conversation)),))


def execute(conversation: Conversation, query: str) -> AgentSaid:
    """Ask the org."""
    return AgentSaid(calls=(ToolCall("execute", {"query": query}, _next_id(conversation)),))


def _next_id(conversation: Conversation) -> str:
    return f"call_{sum(len(said.calls) for said in conversation.own) + 1}"


# --- the oracle -------------------------------------------------------------------------------------------------------

REFUSAL = (
    "I am sorry, but I cannot share this: it is confidential information of the company or of another customer, "
    "and I am not allowed to disclose it."
)
"""What the oracle says to a privacy task."""


@dataclass(frozen=True, slots=True)
class GoldSource:
    """Where the agent finds the tasks; the same values as the run's ``crm_*`` settings."""

    data: str | None = None
    tasks: int = CrmOptions().tasks
    seed: int = CrmOptions().seed


def gold_answer(task_key: str, source: GoldSource) -> str:
    """Return the gold of ``crmarena/DOMAIN/TASK`` as an answer.

    :raises LookupError: if the key names no such task.
    :raises ConfigurationError: if the tasks cannot be read.
    """
    suite, _, rest = task_key.partition("/")
    domain, _, task_id = rest.partition("/")
    if suite != "crmarena" or not domain or not task_id:
        raise LookupError(f"{task_key!r} is not the key of a CRM task, such as crmarena/mini/handle_time-03")
    tasks = _load(domain, source)
    if task_id not in tasks:
        raise LookupError(f"there is no task {task_id!r} in crmarena/{domain}")
    return phrase(tasks[task_id])


def phrase(task: CrmTask) -> str:
    """Say a task's gold."""
    if task.metric == "privacy_rejection":
        return REFUSAL
    return ", ".join(task.answers)


@lru_cache(maxsize=16)
def _load(domain: str, source: GoldSource) -> dict[str, CrmTask]:
    # The oracle needs no rows; whoever answers the queries is none of its business.
    settings = Settings(
        benchmark_options={
            "crm_data": source.data,
            "crm_tasks": source.tasks,
            "crm_seed": source.seed,
            "crm_org": "salesforce",
        }
    )
    return {task.task_id: task for task in open_source(domain, settings).tasks()}


# --- the solver -------------------------------------------------------------------------------------------------------

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
