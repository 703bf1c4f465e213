"""Play a reference solution with the values that tools answer, carefully or not: for runs with noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pytest_a2a_bench.agents.brain import Conversation
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.noise import Written, scalars
from pytest_a2a_bench.benchmarks.registry import Gold, Step
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import AgentSaid, ToolCall, ToolReturned

GIVEN_UP = "I am sorry, but this does not work. There is nothing more that I can do for you."

_MOST = 6
"""Times that a careful agent makes one call."""


@dataclasses.dataclass
class Progress:
    """How far a conversation is.

    :param place: the step that comes next.
    :param believed: for each value of the rehearsal that was read otherwise, what was read; None for nothing.
    :param has_failed: whether a write was refused that a read did not show.
    """

    place: int = 0
    believed: dict[Any, Any] = dataclasses.field(default_factory=dict)
    has_failed: bool = False

    def learn(self, step: Step, answer: ToolReturned) -> None:
        """Compare what was read with the rehearsal."""
        true = Written.read(step.answer)
        if true is None or not step.is_read:
            return
        found = None if answer.error else Written.read(answer.content.partition("\n(partial")[0])
        got = dict(scalars(found.value)) if found is not None else {}
        there = dict(scalars(true.value))
        self.believed |= {value: value for path, value in there.items() if got.get(path) == value}
        self.believed |= {value: got.get(path) for path, value in there.items() if got.get(path) != value}


def walk(steps: Sequence[Step], answers: Sequence[ToolReturned], *, careful: bool) -> Progress:
    """Return how far a conversation is by the answers to its calls, each of which was the next step.

    A careful agent makes a call again that failed, and a read until two answers in a row are equal. One that is not
    makes each call once, and a write again whose result a read does not show; if that is refused, the write has failed.
    """
    progress, heard, again = Progress(), list[ToolReturned](), set[int]()
    for answer in answers:
        if progress.place >= len(steps):
            break
        step = steps[progress.place]
        heard.append(answer)
        if careful and not _is_settled(step, heard):
            continue
        heard = []
        if answer.error and progress.place + 1 in again:
            progress.has_failed = True
            break
        if not careful and step.before and answer.content == step.before and progress.place not in again:
            again.add(progress.place)
            progress.place -= 1
            continue
        progress.learn(step, answer)
        progress.place += 1
    return progress


def _is_settled(step: Step, heard: Sequence[ToolReturned]) -> bool:
    last = heard[-1]
    if len(heard) >= _MOST or (not step.is_read and not last.error):
        return True
    return len(heard) > 1 and (heard[-2].content, heard[-2].error) == (last.content, last.error)


def rehearse(key: str, gold: Gold, settings: Settings) -> Sequence[Step]:
    """Return the calls of a task's solution with what they answer.

    :param key: ``SUITE/DOMAIN/TASK``.
    :raises LookupError: if the suite has no way to try a solution out.
    """
    suite, domain, task_id = key.split("/", 2)
    player = registry.get_player(suite)
    if player is None or player.rehearse is None:
        raise LookupError(f"the suite {suite!r} has no solutions to rehearse (Player.rehearse)")
    return player.rehearse(domain, task_id, settings, gold)


def next_call(gold: Gold, steps: Sequence[Step], conversation: Conversation, *, careful: bool) -> AgentSaid | None:
    """Return the next call, or the answer that is a call; None where it is time to speak.

    Where a write has failed, or needs a value that no answer had, the agent tells the user so and does nothing more.
    """
    # A conversation may begin with messages that the task gives, with calls and results of others.
    made = sum(len(said.calls) for said in conversation.own)
    results = [event for event in conversation.history if isinstance(event, ToolReturned)]
    answers = results[len(results) - made :]
    progress = walk(steps, answers, careful=careful)
    if progress.has_failed:
        return AgentSaid(GIVEN_UP)
    given = sum(said.text in gold.instructions for said in conversation.own)
    done = sum(step.is_gold for step in steps[: progress.place])
    if gold.is_time_to_tell(given, done):
        return None
    if progress.place < len(steps):
        call = _with_beliefs(steps[progress.place].call, progress.believed)
        return AgentSaid(calls=(call,)) if call is not None else AgentSaid(GIVEN_UP)
    if gold.answer is None:
        return None
    answer = _answered(str(gold.answer.arguments["answer"]), progress.believed)
    return AgentSaid(calls=(dataclasses.replace(gold.answer, arguments={"answer": answer}),))


def _with_beliefs(call: ToolCall, believed: dict[Any, Any]) -> ToolCall | None:
    needed = [value for _, value in scalars(dict(call.arguments))]
    if any(value in believed and believed[value] is None for value in needed):
        return None
    return dataclasses.replace(call, arguments=_exchange(dict(call.arguments), believed))


def _exchange(value: Any, believed: dict[Any, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _exchange(member, believed) for key, member in value.items()}
    if isinstance(value, list):
        return [_exchange(member, believed) for member in value]
    if isinstance(value, str) and value in believed:
        return believed[value]
    return value


def _answered(answer: str, believed: dict[Any, Any]) -> str:
    values = [believed.get(value, value) for value in answer.split(", ")]
    return ", ".join(str(value) for value in values if value is not None) or "None"
