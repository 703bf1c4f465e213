"""A user that needs no LLM, as tau2's orchestrator sees it: the edge around ``tau2/user``.

It is deterministic and therefore good for smoke tests, gates and demos. It is not the user that leaderboard numbers
are made with, and every report says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.player import read_gold
from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2
from pytest_a2a_bench.benchmarks.tau2.user import fault
from pytest_a2a_bench.benchmarks.tau2.user.scenario import Scenario, needs_judgement
from pytest_a2a_bench.benchmarks.tau2.user.script import Deed, Script
from pytest_a2a_bench.model import UserFault
from pytest_a2a_bench.redact import one_line

_INSTRUCTIONS = ("reason_for_call", "known_info", "unknown_info", "task_instructions")


def make_scripted_user(tau2: Tau2, task: Any, tools: Collection[str] = ()) -> Any:
    """Make a scripted user for tau2's ``Orchestrator``.

    :param tools: names of the user's own tools in this task's environment.
    """
    return _ScriptedUser(tau2, make_script(task, tools))


def make_script(task: Any, tools: Collection[str] = ()) -> Script:
    """Make the user's side of a conversation about a task of tau2's."""
    golds = list(_golds(task))
    actions = [(gold.name, gold.arguments) for gold in golds if not gold.by_user]
    own = [(gold.name, gold.arguments) for gold in golds if gold.by_user]
    return Script(Scenario.of(task.user_scenario.instructions), actions, _to_say(task), tools, own)


def goal_of(task: Any, tools: Collection[str] = ()) -> fault.Goal:
    """Return what the user of a task wants, for judging how it was played (:mod:`.user.fault`).

    :param tools: names of the user's own tools in this task's environment.
    """
    said = tuple(map(str, _to_say(task)))
    return fault.Goal(Scenario.of(task.user_scenario.instructions), tuple(_golds(task)), said, tools)


def _to_say(task: Any) -> list[Any]:
    """Return what the agent is to say."""
    criteria = task.evaluation_criteria
    return (criteria.communicate_info if criteria else None) or []


def _golds(task: Any) -> Iterator[fault.Deed]:
    criteria = task.evaluation_criteria
    if criteria is None:
        return
    for action in criteria.actions or ():
        compared = None if action.compare_args is None else tuple(action.compare_args)
        yield fault.Deed(action.name, action.arguments, _is_users(action.requestor), compared)
    if not criteria.actions:
        # A task may only say what must hold at the end: that is then what the user wants.
        for call in read_gold(task.model_dump(mode="json")).where_offered:
            yield fault.Deed(call.name, call.arguments)


def judgement_needed(task: Mapping[str, Any]) -> str:
    """Return why a task of tau2's needs a user that can judge, or an empty text.

    :param task: as it stands in tau2's data.
    """
    criteria = task.get("evaluation_criteria") or {}
    # tau2's own default; a task without criteria has none.
    checked = bool(criteria) and bool(set(criteria.get("reward_basis") or ("DB",)) - {"NL_ASSERTION"})
    asserted = any(a.get("env_type") == "user" for a in criteria.get("env_assertions") or ())
    if asserted and not any(a.get("requestor") == "user" for a in criteria.get("actions") or ()):
        return "the user is to act of its own accord, and no reference action says how"
    instructions = task["user_scenario"]["instructions"]
    if not isinstance(instructions, str):
        instructions = SimpleNamespace(**{name: instructions.get(name) for name in _INSTRUCTIONS})
    return needs_judgement(Scenario.of(instructions), checked=checked)


def _is_users(side: Any) -> bool:
    return str(getattr(side, "value", side)) == "user"


class _ScriptedUser:
    """tau2's user interface around a :class:`Script`."""

    def __init__(self, tau2: Tau2, script: Script) -> None:
        self._messages = tau2.messages
        self._stop_token = tau2.stop_token
        self._is_stop = tau2.user_simulator.is_stop
        self._script = script
        self._calls = 0

    @property
    def fault(self) -> UserFault | None:
        """What the user did not understand, if there was anything."""
        asked = self._script.not_understood
        return UserFault("not_understood", f"the agent: {one_line(asked, 300)!r}") if asked else None

    def get_init_state(self, message_history: list[Any] | None = None) -> Script:
        return self._script

    def generate_next_message(self, message: Any, state: Script) -> tuple[Any, Script]:
        if message.role == "tool":
            results = getattr(message, "tool_messages", None) or [message]
            reaction: str | Deed | None = state.after_action([m.content or "" for m in results])
        else:
            reaction = state.hear(message.content or "")
        return self._say(reaction), state

    def _say(self, reaction: str | Deed | None) -> Any:
        if reaction is None:
            # Cost 0 and not None, as tau2 adds costs up.
            return self._messages.UserMessage(role="user", content=self._stop_token, cost=0.0)
        if isinstance(reaction, str):
            return self._messages.UserMessage(role="user", content=reaction, cost=0.0)
        self._calls += 1
        name, arguments = reaction
        call = self._messages.ToolCall(id=f"user_call_{self._calls}", name=name, arguments=arguments, requestor="user")
        return self._messages.UserMessage(role="user", tool_calls=[call], cost=0.0)

    def is_stop(self, message: Any) -> bool:
        return bool(self._is_stop(message))

    def set_seed(self, seed: int) -> None:
        """Do nothing: there is nothing random here."""

    def stop(self, message: Any = None, state: Any = None) -> None:
        """Do nothing: there is nothing to release."""
