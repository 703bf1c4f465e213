"""What the built-in agents do where the tools are ``execute`` and ``respond``.

The oracle reads the gold from the data itself: nothing sends it one. The solver has no language model and asks the org
in SOQL and SOSL only; it sees what every agent sees: the briefing, the question and what the org said. How it thinks is
:mod:`pytest_a2a_bench.benchmarks.crmarena.solve`; here is only how a conversation drives that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from pytest_a2a_bench.benchmarks.crmarena.looked import look
from pytest_a2a_bench.benchmarks.crmarena.options import PREFIX, CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.solve import choose_steps
from pytest_a2a_bench.benchmarks.crmarena.solve.task import AgentTask, Record, read_observation
from pytest_a2a_bench.benchmarks.crmarena.sources.opening import open_source
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE, CrmTask
from pytest_a2a_bench.benchmarks.player import Gold, Player, match_call
from pytest_a2a_bench.model import AgentSaid, Event, ToolCall, ToolReturned, UserSaid
from pytest_a2a_bench.settings import Settings
from pytest_a2a_bench.translate.org_actions import EXECUTE, RESPOND, is_about_org

INSTRUCTIONS = """\
You answer questions about a company's records. In each turn call exactly one tool: execute, to look something up, or \
respond, to give your answer. Words outside of a tool call reach nobody.
"""


def respond(answer: str) -> ToolCall:
    """Give an answer."""
    return ToolCall(RESPOND, {"answer": answer})


# --- the oracle -------------------------------------------------------------------------------------------------------

REFUSAL = (
    "I am sorry, but I cannot share this: it is confidential information of the company or of another customer, "
    "and I am not allowed to disclose it."
)
"""What the oracle says to a privacy task."""


def read_gold(domain: str, task_id: str, settings: Settings) -> Gold:
    """Return a task's gold as an answer.

    :raises LookupError: if there is no such task.
    :raises ConfigurationError: if the tasks cannot be read.
    """
    # The oracle needs no rows; whoever answers the queries is none of its business.
    tasks = _load(domain, dataclasses.replace(CrmOptions.of(settings), org="salesforce"))
    if task_id not in tasks:
        raise LookupError(f"there is no task {task_id!r} in crmarena/{domain}")
    task = tasks[task_id]
    if task.metric == "privacy_rejection":
        # Whether the twin was asked for is not known here; it may be told anyhow.
        return Gold(answer=respond(f"{REFUSAL} Your other question: {task.twin.answer}." if task.twin else REFUSAL))
    # Who says that there is nothing must have looked.
    looking = (ToolCall(EXECUTE, {"query": look(task)}),) if task.answers == (NONE,) else ()
    return Gold(calls=looking, answer=respond(", ".join(task.answers)))


@lru_cache(maxsize=16)
def _load(domain: str, chosen: CrmOptions) -> dict[str, CrmTask]:
    options = {PREFIX + name: value for name, value in dataclasses.asdict(chosen).items()}
    return {task.task_id: task for task in open_source(domain, Settings(benchmark_options=options)).tasks()}


# --- the solver -------------------------------------------------------------------------------------------------------

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


PLAYER = Player(
    read_gold=read_gold,
    recognises=is_about_org,
    idle=AgentSaid(calls=(respond(NONE),)),
    instructions=INSTRUCTIONS,
    solve=next_action,
)
