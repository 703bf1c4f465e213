"""An agent that plays the reference solution: what a benchmark must reward in full.

The solution is read from the benchmark's data files, never from its code, so that an agent starts in a fraction of a
second.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pytest_a2a_bench.agents.brain import BrainReply, Conversation, RefusalError, bench_task_key
from pytest_a2a_bench.agents.crm import GoldSource, gold_answer, is_crm, respond
from pytest_a2a_bench.benchmarks.tau2.index import load_task_json
from pytest_a2a_bench.errors import A2ABenchError, MissingExtraError
from pytest_a2a_bench.model import AgentSaid, Briefing, ToolCall

FAREWELL = "Thank you for your patience. All of it is settled."

UNTAGGED = (
    "this agent replays the reference solution and has to know which task it is asked: "
    "message metadata has no a2a_bench.task; run pytest with --a2a-tag-trials"
)

_ASSERT = "assert_"
_UPDATE = "update_"
_EXPECTED = "expected_"
_WRITE = "write"


class Oracle:
    """Makes the reference calls one a turn, then says once what the user must hear, then only bids farewell.

    It never asks anything, so that a scripted user has nothing to answer. To a CRM task it responds with the gold.

    :param revise: changes the gold before it is played (see :func:`without_writes`); CRM tasks have nothing to
        change.
    :param crm: where it finds the golds of CRM tasks.
    """

    def __init__(
        self,
        revise: Callable[[Gold], Gold] | None = None,
        description: str = "Plays the reference solution of the task.",
        crm: GoldSource | None = None,
    ) -> None:
        self.description = description
        self._revise = revise
        self._crm = crm or GoldSource()
        # Keyed by task: all trials and turns of a task share one reading of the (up to 14 MB) data file.
        self._gold = lru_cache(maxsize=4096)(self._load)

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Say the next line of the play."""
        key = bench_task_key(conversation.metadata)
        if key is None:
            raise RefusalError(UNTAGGED)
        try:
            if is_crm(conversation):
                answer = await asyncio.to_thread(gold_answer, key, self._crm)
                return BrainReply(respond(conversation, answer))
            gold = await asyncio.to_thread(self._gold, key)
        except (A2ABenchError, LookupError) as error:
            raise RefusalError(f"no reference solution for {key}: {error}") from error
        return BrainReply(next_line(gold, conversation))

    def _load(self, key: str) -> Gold:
        gold = load_gold(key)
        return self._revise(gold) if self._revise else gold


def next_line(gold: Gold, conversation: Conversation) -> AgentSaid:
    """Return what to say, given what was said: a pure function of the conversation."""
    plan = gold.plan(conversation.briefing)
    done = max(_played(plan, conversation), sum(len(said.calls) for said in conversation.own))
    if done < len(plan):
        call = plan[done]
        return AgentSaid(calls=(ToolCall(call.name, call.arguments, id=f"call_{done + 1}"),))
    if gold.closing not in _spoken(conversation):
        return AgentSaid(gold.closing)
    return AgentSaid(FAREWELL)


def _played(plan: tuple[ToolCall, ...], conversation: Conversation) -> int:
    """Count the calls of the plan that the history shows, for a client that sends it all and keeps no context.

    Calls that are not the plan's (a history that the task began with) do not count.
    """
    done = 0
    for event in conversation.history:
        for call in event.calls if isinstance(event, AgentSaid) else ():
            if done < len(plan) and (call.name, call.arguments) == (plan[done].name, plan[done].arguments):
                done += 1
    return done


def _spoken(conversation: Conversation) -> set[str]:
    remembered = [event for event in conversation.history if isinstance(event, AgentSaid)]
    return {said.text for said in (*remembered, *conversation.own) if said.text}


@dataclass(frozen=True, slots=True)
class Gold:
    """What to call, in order, and what to have told the user at the end.

    :param communicate: texts that the evaluator looks for in the agent's words.
    :param assertions: what must hold at the end, as ``(function, arguments)`` of the environment's checks.
    """

    domain: str
    calls: tuple[ToolCall, ...] = ()
    communicate: tuple[str, ...] = ()
    assertions: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    @property
    def closing(self) -> str:
        """The one text that says everything the user must hear. One value a line, so that substring checks hold."""
        if not self.communicate:
            return "Everything that can be done for you is done."
        return "\n".join(["Everything that can be done for you is done. For your information:", *self.communicate])

    def plan(self, briefing: Briefing | None) -> tuple[ToolCall, ...]:
        """Return the calls to make, given the tools on offer.

        Some tasks list no reference action and only say what must hold at the end (tau2's mock domain has one). There
        the agent does what the checks ask for, where a tool by the matching name is on offer.
        """
        if self.calls or briefing is None:
            return self.calls
        offered = {tool.name: tool for tool in briefing.tools}
        derived = (_fulfil(name, arguments) for name, arguments in self.assertions)
        return tuple(call for call in derived if call is not None and call.name in offered)


def _fulfil(check: str, arguments: Mapping[str, Any]) -> ToolCall | None:
    """Turn ``assert_X(..., expected_Y=v)`` into ``update_X(..., Y=v)``."""
    if not check.startswith(_ASSERT):
        return None
    return ToolCall(
        _UPDATE + check.removeprefix(_ASSERT),
        {name.removeprefix(_EXPECTED): value for name, value in arguments.items()},
    )


def read_gold(domain: str, task: Mapping[str, Any]) -> Gold:
    """Read the reference solution from a tau2 task object.

    Actions of the user's are left out: the user simulator plays them.
    """
    criteria = task.get("evaluation_criteria") or {}
    actions = _assistants(criteria.get("actions"), "requestor")
    checks = _assistants(criteria.get("env_assertions"), "env_type")
    return Gold(
        domain=domain,
        calls=tuple(ToolCall(a["name"], a.get("arguments") or {}) for a in actions),
        communicate=tuple(str(text) for text in criteria.get("communicate_info") or ()),
        assertions=tuple((c["func_name"], c.get("arguments") or {}) for c in checks),
    )


def _assistants(items: Iterable[Mapping[str, Any]] | None, key: str) -> list[Mapping[str, Any]]:
    return [item for item in items or () if item.get(key, "assistant") == "assistant"]


def load_gold(task_key: str) -> Gold:
    """Find the reference solution of ``tau2/DOMAIN/TASK``.

    :raises LookupError: if the key names no such task.
    """
    suite, _, rest = task_key.partition("/")
    domain, _, task_id = rest.partition("/")
    if suite != "tau2" or not domain or not task_id:
        raise LookupError(f"{task_key!r} is not the key of a tau2 task, such as tau2/airline/12")
    return read_gold(domain, load_task_json(domain, task_id))


def without_writes(gold: Gold) -> Gold:
    """Return the gold without the calls that change the database, and without what must hold after them.

    An agent that plays this shows which of the benchmark's rewards depend on a write at all.
    """
    writes = write_tools(gold.domain)
    kept = tuple(call for call in gold.calls if call.name not in writes)
    return dataclasses.replace(gold, calls=kept, assertions=())


@lru_cache(maxsize=32)
def write_tools(domain: str) -> frozenset[str]:
    """Return the names of the agent's tools in a tau2 domain that tau2 itself marks as writing.

    Imports the domain's tools only (half a second; no LLM library).

    :raises MissingExtraError: if tau2 is not installed.
    """
    try:
        module = importlib.import_module(f"tau2.domains.{domain.replace('-', '_')}.tools")
        toolkit = importlib.import_module("tau2.environment.toolkit")
    except ImportError as error:
        raise MissingExtraError("tau2-bench", "tau2", detail=str(error)) from error
    base, attribute = toolkit.ToolKitBase, toolkit.TOOL_TYPE_ATTR
    kits = [cls for _, cls in inspect.getmembers(module, inspect.isclass) if issubclass(cls, base)]
    members = [member for kit in kits for member in inspect.getmembers(kit, inspect.isfunction)]
    return frozenset(name for name, function in members if _kind(getattr(function, attribute, None)) == _WRITE)


def _kind(tool_type: object) -> str:
    return str(getattr(tool_type, "value", tool_type)).lower()
