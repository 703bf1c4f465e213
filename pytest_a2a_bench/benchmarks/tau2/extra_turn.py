"""Whether a user ended its conversation too early: the agent gets the user's last words once more, without the token.

The trial's reward and transcript exist by then, so the environment that the conversation ran in is free to be changed.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from typing import Any

from pytest_a2a_bench.a2a.session import AgentSession
from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.tau2.user.facts import TOKENS
from pytest_a2a_bench.errors import A2ABenchError
from pytest_a2a_bench.model import ExtraTurn, Reward, Turn, Usage, UserFault
from pytest_a2a_bench.text import one_line

FAREWELLS = 3
"""How many texts in a row a user may say after everything was done before the missing stop is its fault."""

Evaluate = Callable[[Any], Reward]
"""Evaluates a simulation of tau2's; raises ``A2ABenchError``."""


def take(
    orchestrator: Any,
    simulation: Any,
    conversation: Conversation,
    session: AgentSession,
    evaluate: Evaluate,
    translate: Callable[[Sequence[Any]], Sequence[Turn]],
    judge: list[Usage],
) -> ExtraTurn:
    """Let the agent answer the user's last words, with tool calls until its next message to the user.

    :param orchestrator: of the conversation that the user ended; a copy of it goes on, within the same bounds.
    :param simulation: what it returned.
    :param translate: returns the turns of some messages.
    :param judge: what evaluating adds to is spent by the judge.
    """
    last = orchestrator.trajectory[-1]
    words = TOKENS.sub(" ", last.content or "").strip()
    if not words:
        return ExtraTurn(note="the user said nothing beside the token that ended the conversation")
    on = copy.copy(orchestrator)
    on.message = last.model_copy(update={"content": words})
    on.trajectory = [*orchestrator.trajectory[:-1], on.message]
    # The agent under test answers itself, whatever it would have been transferred to.
    on.agent_state, on.done, on.termination_reason = conversation, False, None
    lost = "the agent had ended its task, and the next message opened another one" if session.has_ended_task else ""
    with session.aside(), conversation.aside():
        note = _step(on)
        if session.has_moved:
            lost = "the agent opened a new context"
        requests, usage = session.request_count, conversation.usage
    reward = None
    if not note:
        try:
            reward = evaluate(simulation.model_copy(update={"messages": on.get_trajectory()})).value
        except A2ABenchError as error:
            note = one_line(str(error), 300)
    followed = tuple(translate(on.trajectory)[len(orchestrator.trajectory) :])
    return ExtraTurn(reward, note or lost, followed, requests, usage, sum(judge, Usage()))


def _step(orchestrator: Any) -> str:
    """Go on until the agent speaks to the user; return what prevented that."""
    try:
        while not orchestrator.done and _name(orchestrator.to_role) != "user":
            waits = _name(orchestrator.to_role) == "env"
            if not waits and orchestrator.step_count >= orchestrator.max_steps:
                return "the conversation had reached max-steps"
            if not waits and orchestrator.num_errors >= orchestrator.max_errors:
                return "the conversation had reached max-errors"
            orchestrator.step()
    # The trial has its reward: nothing that happens now may cost it.
    except Exception as error:
        return one_line(f"{type(error).__name__}: {error}", 300)
    return ""


def _name(role: Any) -> str:
    return str(getattr(role, "value", role))


def fault_of(extra: ExtraTurn, transcript: Sequence[Turn]) -> UserFault | None:
    """Return the user's fault that an extra turn proves."""
    if extra.verdict != "proven":
        return None
    calls = list(dict.fromkeys(call.name for turn in extra.transcript for call in turn.calls))
    said = one_line(transcript[-1].text or "", 160)
    did = f"called {', '.join(calls)}" if calls else "gave the answer that was missing"
    return UserFault(
        "ended_before_the_write",
        f"reward 1.0 with one more turn: after {said!r} the agent {did}",
        len(transcript) - 1,
    )


def never_stopped(simulation: Any, stop: Any, transcript: Sequence[Turn], evaluate: Evaluate) -> UserFault | None:
    """Return the fault of a user that went on until ``max_steps`` after everything was done.

    :param stop: tau2's reason of an end by the user.
    """
    texts = 0
    for turn in reversed(transcript):
        if turn.calls or turn.role == "tool":
            break
        texts += turn.role == "user"
    if texts < FAREWELLS:
        return None
    with contextlib.suppress(A2ABenchError):
        if evaluate(simulation.model_copy(update={"termination_reason": stop})).success:
            message = f"reward 1.0 had the user stopped: nobody called a tool in its last {texts} messages"
            return UserFault("never_stopped", message, len(transcript) - 1)
    return None
