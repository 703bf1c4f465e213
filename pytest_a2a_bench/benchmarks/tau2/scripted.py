"""A user that needs no LLM: it states its scenario, answers what the scenario knows, does its part, and stops.

It is deterministic and therefore good for smoke tests, gates and demos. It is not the user that leaderboard numbers
are made with, and every report says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2

# A user who is asked for ever would never stop.
MAX_ANSWERS = 6
"""How many of the agent's questions are answered before the user gives up."""

# Shorter words say nothing about what a question is about.
_WORD = re.compile(r"[a-z0-9]{3,}")
_COMMON = frozenset(
    "the and you your for are can could would please with that this have has may what which who how help "
    "provide need know tell let any like there from about will was were our".split()
)


@dataclass(frozen=True)
class Scenario:
    """What the user wants and knows, from the task's user scenario."""

    reason: str
    known: str = ""
    unknown: str = ""
    instructions: str = ""

    @classmethod
    def of(cls, instructions: Any) -> Scenario:
        """Read tau2's ``UserScenario.instructions``, which is a text or a structured object."""
        if isinstance(instructions, str):
            return cls(reason=instructions)
        return cls(
            reason=instructions.reason_for_call,
            known=instructions.known_info or "",
            unknown=instructions.unknown_info or "",
            instructions=instructions.task_instructions or "",
        )

    def opening(self) -> str:
        """Return the first thing that the user says."""
        return "\n".join(t.strip() for t in (self.reason, self.known) if t.strip())

    def answer(self, question: str) -> str:
        """Return the scenario's sentences that share the most words with a question, or a plain go-ahead."""
        wanted = _words(question)
        facts = _sentences(self.known) + _sentences(self.reason) + _sentences(self.instructions)
        scored = [(len(wanted & _words(fact)), -position, fact) for position, fact in enumerate(facts)]
        # The best three, told in the order of the scenario.
        best = sorted((s for s in scored if s[0]), reverse=True)[:3]
        if best:
            return " ".join(fact for _, _, fact in sorted(best, key=lambda s: -s[1]))
        if any(wanted & _words(fact) for fact in _sentences(self.unknown)):
            return "I do not know that."
        return "Yes, please go ahead."


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _COMMON


def _sentences(text: str) -> list[str]:
    return [s.strip() for s in re.split(r"(?<=[.!?])\s+|\n+", text) if s.strip()]


@dataclass
class Script:
    """The user's side of one trial, independent of tau2's classes.

    :param actions: the user-side tool actions that the task lists, as (name, arguments).
    """

    scenario: Scenario
    actions: Sequence[tuple[str, dict[str, Any]]] = ()
    _opened: bool = False
    _played: int = 0
    _answered: int = 0
    _said: set[str] = field(default_factory=set)

    def hear(self, text: str) -> str | tuple[str, dict[str, Any]] | None:
        """React to what the agent said: a text, a tool action to do, or None to stop."""
        if not self._opened:
            self._opened = True
            return self.scenario.opening()
        # Deeds before words: what the user has to do is part of the task.
        action = self.next_action()
        if action is not None:
            return action
        # Without a question there is nothing left to say.
        if "?" not in text or self._answered >= MAX_ANSWERS:
            return None
        self._answered += 1
        answer = self.scenario.answer(text)
        # Saying the same again would not move a real conversation either.
        if answer in self._said:
            answer = "Yes, please go ahead."
        self._said.add(answer)
        return answer

    def next_action(self) -> tuple[str, dict[str, Any]] | None:
        """Return the next tool action of the user, or None when all are done."""
        if self._played >= len(self.actions):
            return None
        self._played += 1
        return self.actions[self._played - 1]

    def after_action(self, results: Sequence[str]) -> str | tuple[str, dict[str, Any]]:
        """React to what the user's own tools returned."""
        action = self.next_action()
        if action is not None:
            return action
        seen = " ".join(r.strip() for r in results if r.strip())
        return f"I have done that. {seen}".strip()


def make_scripted_user(tau2: Tau2, task: Any) -> Any:
    """Make a scripted user for tau2's ``Orchestrator``."""
    criteria = task.evaluation_criteria
    actions = [(a.name, dict(a.arguments)) for a in (criteria.actions if criteria else None) or [] if _is_user(a)]
    return _ScriptedUser(tau2, Script(Scenario.of(task.user_scenario.instructions), actions))


def _is_user(action: Any) -> bool:
    return str(getattr(action.requestor, "value", action.requestor)) == "user"


class _ScriptedUser:
    """tau2's user interface around a :class:`Script`."""

    def __init__(self, tau2: Tau2, script: Script) -> None:
        self._messages = tau2.messages
        self._stop_token = tau2.stop_token
        self._is_stop = tau2.user_simulator.is_stop
        self._script = script
        self._calls = 0

    def get_init_state(self, message_history: list[Any] | None = None) -> Script:
        return self._script

    def generate_next_message(self, message: Any, state: Script) -> tuple[Any, Script]:
        if message.role == "tool":
            results = getattr(message, "tool_messages", None) or [message]
            reaction: str | tuple[str, dict[str, Any]] | None = state.after_action([m.content or "" for m in results])
        else:
            reaction = state.hear(message.content or "")
        return self._say(reaction), state

    def _say(self, reaction: str | tuple[str, dict[str, Any]] | None) -> Any:
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
