"""The brains of the built-in agents ``noop``, ``echo``, ``oracle`` and ``readonly``, and the choice of a brain.

In runs with noise a reference solution is played with the values that tools answer, carefully or not.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from pytest_a2a_bench import extensions
from pytest_a2a_bench.agents.brain import (
    Brain,
    BrainReply,
    Conversation,
    LanguageModel,
    RefusalError,
    bench_task_key,
    find_player,
    is_noisy,
    number_calls,
)
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.noise import Written, scalars
from pytest_a2a_bench.benchmarks.registry import Gold, Step
from pytest_a2a_bench.config.settings import BUILTIN_AGENTS, Settings
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError
from pytest_a2a_bench.model import AgentSaid, ToolCall, ToolReturned

WORDS = "Thank you for getting in touch. I have noted what you said and will leave everything as it is."

FAREWELL = "Thank you for your patience. All of it is settled."

UNTAGGED = (
    "this agent replays the reference solution and has to know which task it is asked: "
    "message metadata has no a2a_bench.task; run pytest with --a2a-set tag-trials=on"
)


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
        case "oracle" | "readonly" | "careful":
            settings = Settings(benchmark_options=dict(options.benchmark_options))
            return Oracle(settings, read_only=options.name == "readonly", careful=options.name == "careful")
        case own:
            found = extensions.load("agents", own, BUILTIN_AGENTS)(options)
            if not (isinstance(getattr(found, "description", None), str) and callable(getattr(found, "reply", None))):
                raise ConfigurationError(f"the agent {own!r} must be made with description and reply, and is {found!r}")
            return cast("Brain", found)


class Noop:
    """Says the same friendly sentence in every turn, or the benchmark's own (``Player.idle``).

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


class Oracle:
    """Makes the reference calls one a turn, gives the user its instructions, communicates the required information
    once, then ends the conversation.

    It never asks anything, so that a scripted user has nothing to answer. Where a benchmark takes its answer as a call,
    it makes that call instead of speaking.

    :param settings: have the options of benchmarks that name the place of their golds.
    :param careful: repeat calls that fail and read twice, so that noise (``--a2a-noise``) costs nothing.
    :param read_only: leave out the calls that write, and the checks that depend on them: this shows which of a
        benchmark's rewards depend on a write at all.
    """

    def __init__(self, settings: Settings | None = None, *, read_only: bool = False, careful: bool = False) -> None:
        self.description = (
            "Plays the reference solution but changes nothing."
            if read_only
            else "Plays the reference solution of the task."
        )
        self._settings = settings or Settings()
        self._read_only, self._careful = read_only, careful
        # Keyed by task: all trials and turns of a task share one reading of the (up to 14 MB) data file.
        self._gold = lru_cache(maxsize=4096)(self._load)
        self._steps = lru_cache(maxsize=4096)(self._rehearse)

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Return the next line of the play."""
        key = bench_task_key(conversation.metadata)
        if key is None:
            raise RefusalError(UNTAGGED)
        follows = self._careful or is_noisy(conversation.metadata)
        steps: Sequence[Step] = ()
        try:
            gold = await asyncio.to_thread(self._gold, key)
            if follows:
                steps = await asyncio.to_thread(self._steps, key)
        # What no golds exist for is the question's fault, not the server's: a rejected task, with the reason, not an
        # internal error.
        except (A2ABenchError, LookupError) as error:
            raise RefusalError(f"no reference solution for {key}: {error}") from error
        said = next_call(gold, steps, conversation, careful=self._careful) if follows else None
        if said is None:
            # One that follows has made all calls that it can.
            rest = dataclasses.replace(gold, calls=(), where_offered=(), answer=None) if follows else gold
            said = next_line(rest, conversation)
        return BrainReply(number_calls(said, conversation))

    def _rehearse(self, key: str) -> Sequence[Step]:
        return rehearse(key, self._gold(key), self._settings)

    def _load(self, key: str) -> Gold:
        gold = load_gold(key, self._settings)
        if not self._read_only:
            return gold
        suite, domain, _ = key.split("/", 2)
        player = registry.get_player(suite)
        writing = player.writing(domain) if player is not None else frozenset()
        kept = tuple(call for call in gold.calls if call.name not in writing)
        return dataclasses.replace(gold, calls=kept, where_offered=(), instructions=())


def load_gold(key: str, settings: Settings) -> Gold:
    """Return the reference solution of ``SUITE/DOMAIN/TASK``.

    :raises LookupError: if the key names no task that has one.
    :raises A2ABenchError: if it cannot be read.
    """
    suite, _, rest = key.partition("/")
    domain, _, task_id = rest.partition("/")
    if not domain or not task_id:
        raise LookupError(f"{key!r} is not the key of a task, such as tau2/airline/12")
    # One that only knows words of its domain (such as which tools write) plays nothing.
    player = registry.get_player(suite)
    if player is None or player.read_gold is None:
        raise LookupError(f"the suite {suite!r} has none to play (Suite.player)")
    return player.read_gold(domain, task_id, settings)


def next_line(gold: Gold, conversation: Conversation) -> AgentSaid:
    """Return the next reply: a pure function of the conversation so far."""
    plan = gold.plan(conversation.briefing)
    # The larger of two counts: a client that keeps no context sends the history, one that does sends only what is new.
    done = max(_played(plan, conversation), sum(len(said.calls) for said in conversation.own))
    # Given one at a time, as a user does one thing at a time; the same text twice is given twice.
    given = sum(text in gold.instructions for text in _texts(conversation))
    must_instruct = gold.is_time_to_tell(given, done)
    if done < len(plan) and not must_instruct:
        return AgentSaid(calls=(dataclasses.replace(plan[done], id=f"call_{done + 1}"),))
    if gold.answer is not None and not must_instruct:
        return AgentSaid(calls=(gold.answer,))
    if given < len(gold.instructions):
        return AgentSaid(gold.instructions[given])
    if gold.closing not in _texts(conversation):
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


def _texts(conversation: Conversation) -> list[str]:
    remembered = [event.text for event in conversation.history if isinstance(event, AgentSaid) and event.text]
    own = [said.text for said in conversation.own if said.text]
    # The larger of two: see above.
    return max(remembered, own, key=len)


GIVEN_UP = "I am sorry, but this does not work. There is nothing more that I can do for you."

_MOST = 6
"""Times that a careful agent makes one call."""


@dataclasses.dataclass
class Progress:
    """How far a conversation is.

    :param place: the step that comes next.
    :param believed: value of the rehearsal -> the value that was read in its place; None where none was read.
    :param has_failed: whether a write was refused that a read did not show.
    """

    place: int = 0
    believed: dict[Any, Any] = dataclasses.field(default_factory=dict)
    has_failed: bool = False

    def learn(self, step: Step, answer: ToolReturned) -> None:
        """Compare the values that were read with the rehearsal's."""
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
    """Return the calls of a task's solution with their answers.

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
