"""Make one reply from the events of a turn: the turn itself is pure, :func:`read_events` waits for its events.

Rules: a Message's parts are the answer; else the artifacts of the task; else the text of its status. What an agent
says while ``working`` is never the answer; nor is the history, where servers keep just that. A task that waits
for input answers with its artifacts and the question in its status.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from pytest_a2a_bench.a2a.bodies import excerpt
from pytest_a2a_bench.a2a.codec import (
    SETTLED,
    TERMINAL,
    Artifact,
    ArtifactUpdate,
    InEvent,
    InMessage,
    InTask,
    StatusUpdate,
)
from pytest_a2a_bench.a2a.requests import RequestRecord
from pytest_a2a_bench.errors import InfrastructureError, StreamStalledError
from pytest_a2a_bench.model import Part, Usage

# A2A has no field for tokens and money, so agents report them in metadata: as `usage` with the names of OpenAI or
# Anthropic, or as the `usageMetadata` of Google's ADK.
_CONTAINERS = ("usage", "adk_usage_metadata", "usage_metadata", "usageMetadata", "token_usage")
_INPUT = ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "promptTokenCount", "prompt_token_count")
_OUTPUT = (
    "output_tokens",
    "completion_tokens",
    "outputTokens",
    "completionTokens",
    "candidatesTokenCount",
    "candidates_token_count",
)
_COST = ("cost_usd", "cost", "costUsd", "total_cost")


@dataclass(frozen=True, slots=True)
class AgentReply:
    """The answer of an agent in one turn.

    :param state: of the task, such as ``completed`` or ``input-required``; None for a Message.
    :param raw: the answer's JSON text, bounded, for the transcript.
    :param notes: deviations in it that were tolerated.
    :param elsewhere: where an answer without parts has text that is none, in words; empty where there is none.
    :param repeated: how the agent sent the same answer twice, of which one was kept; empty where it did not.
    :param message_id: of the message, or of that in the task's status.
    """

    parts: tuple[Part, ...]
    kind: Literal["message", "task"]
    state: str | None = None
    context_id: str | None = None
    a2a_task_id: str | None = None
    usage: Usage = dataclasses.field(default_factory=Usage)
    raw: str = ""
    notes: tuple[str, ...] = ()
    elsewhere: str = ""
    repeated: str = ""
    message_id: str | None = None

    @property
    def text(self) -> str:
        """The text parts, joined by line breaks."""
        return "\n".join(p.text for p in self.parts if p.kind == "text")


class Turn:
    """Collects the events of one turn until there is an answer.

    :param earlier: the last turn in which the agent named a task: output delivered then is no part of this
        answer. An artifact's id is unique within its task only (§4.1.7), so that another task's artifacts are all new.
    :ivar broken: whether the stream ended before the answer was there, so that it can only be asked for.
    :ivar lost: how the stream of a known task was lost; empty where it was not.
    """

    def __init__(self, earlier: Turn | None = None) -> None:
        self._seen = earlier.delivered if earlier is not None else {}
        self._seen_in = earlier.task_id if earlier is not None else None
        self._resumed = earlier is not None and earlier.state not in TERMINAL
        self._repeated = ""
        self._chunks: Counter[str] = Counter()
        self._message: InMessage | None = None
        self._status: InMessage | None = None
        self._artifacts: dict[str, Artifact] = {}
        self._metadata: dict[str, Any] = {}
        self._history: list[InMessage] = []
        self._is_task = False
        self._is_task_final = False
        self.task_id: str | None = None
        self.context_id: str | None = None
        self.state: str | None = None
        self.final: bool = False
        self.broken = False
        self.lost = ""
        self.notes: list[str] = []

    @property
    def settled(self) -> bool:
        """Whether nothing more is needed: a Message came, or the task ended or waits for us."""
        return self._message is not None or self.state in SETTLED or self._complete_without_state

    @property
    def _complete_without_state(self) -> bool:
        return self._is_task and self.state is None and bool(self._artifacts)

    @property
    def lacks_answer(self) -> bool:
        """Whether a stream said that the task is completed without its answer: some servers only store it."""
        has_content = self._artifacts or self._message or (self._status is not None and self._status.parts)
        return self.state == "completed" and not self._is_task_final and not has_content

    @property
    def artifacts(self) -> dict[str, tuple[Part, ...]]:
        """The parts of every artifact so far, by id."""
        return {k: a.parts for k, a in self._artifacts.items()}

    @property
    def delivered(self) -> dict[str, tuple[Part, ...]]:
        """The parts of every artifact of this task, by id, that this turn or an earlier one has delivered."""
        return {**self._delivered_before(), **self.artifacts}

    def _delivered_before(self) -> dict[str, tuple[Part, ...]]:
        """Return the output of this task in earlier turns; an artifact's id means nothing in another task."""
        return self._seen if self._seen_in == self.task_id else {}

    def feed(self, event: InEvent) -> None:
        """Take one event."""
        self.context_id = event.context_id or self.context_id
        if isinstance(event, InMessage):
            self._message = event
            return
        self.task_id = event.task_id or self.task_id
        self._metadata.update(event.metadata)
        if isinstance(event, ArtifactUpdate):
            self._add_artifact(event)
            return
        self.state, self._status = event.state, event.status
        self._is_task_final = isinstance(event, InTask)
        if isinstance(event, StatusUpdate):
            self.final = self.final or event.final
        else:
            self._replace(event)

    def _replace(self, task: InTask) -> None:
        self._is_task = True
        self._history = [message for message in task.history if message.role == "agent"]
        # A snapshot says all: but some servers leave streamed artifacts out of it, so an empty one erases nothing.
        if task.artifacts:
            self._artifacts = {a.artifact_id or f"#{i}": a for i, a in enumerate(task.artifacts)}

    def _add_artifact(self, update: ArtifactUpdate) -> None:
        new = update.artifact
        key = new.artifact_id or "#0"
        old = self._artifacts.get(key)
        self._chunks[key] = self._chunks[key] + 1 if update.append else 1
        if update.append and old is not None and self._is_whole_again(key, old.parts, update):
            self._repeated = "the last chunk of a stream repeats all that was streamed before it"
            return
        if update.append and old is not None:
            new = dataclasses.replace(new, parts=_join(old.parts, new.parts), metadata={**old.metadata, **new.metadata})
        elif update.append:  # against §4.2.2, where an artifact's first chunk has append=false
            self.notes.append(f"artifact {key!r} is appended to before it was begun")
        self._artifacts[key] = new

    def _is_whole_again(self, key: str, old: tuple[Part, ...], update: ArtifactUpdate) -> bool:
        """Whether a chunk is all of its artifact once more: as its last one, or after at least two."""
        # Of two equal chunks that nothing marks each may be a word of its own ("no" "no").
        new = update.artifact.parts
        return (update.last or self._chunks[key] > 2) and bool(old) and [*map(_content, new)] == [*map(_content, old)]

    def reply(self, raw: str = "") -> AgentReply:
        """Return the answer as far as it is known.

        :param raw: its JSON text.
        """
        is_task = self._message is None
        if self._message is not None and self._message.task_id:
            self.task_id = self._message.task_id
        if self._complete_without_state:
            self.notes.append("the task has artifacts and no state; taken as completed")
        parts = _without_thoughts(self._answer())
        message = self._message or self._status
        return AgentReply(
            parts=parts,
            kind="task" if is_task else "message",
            state=(self.state or "completed") if is_task else None,
            context_id=self.context_id,
            a2a_task_id=self.task_id,
            usage=first_usage(self._metadata_candidates()),
            raw=raw,
            notes=tuple(self.notes),
            elsewhere="" if parts else self._elsewhere(),
            repeated=self._repeated,
            message_id=message.message_id if message is not None else None,
        )

    def status_text(self) -> str:
        """The text of the status message."""
        return _text_of(self._status) if self._status else ""

    def _answer(self) -> tuple[Part, ...]:
        if self._message is not None:
            return self._message.parts
        status = self._status.parts if self._status else ()
        fresh = self._fresh()
        # A task that was begun again after its end (against §3.1.1) has nothing from before, where it shows the same.
        if not fresh and not self._resumed:
            fresh = self._once(self.artifacts.values())
        if self.state == "input-required":
            return self._once((fresh, status))
        return fresh or status

    def _fresh(self) -> tuple[Part, ...]:
        """Return the output that no earlier turn has delivered."""
        seen = self._delivered_before()
        found = []
        for key, artifact in self._artifacts.items():
            old = seen.get(key, ())
            found.append(artifact.parts[len(old) :] if artifact.parts[: len(old)] == old else artifact.parts)
        return self._once(found)

    def _once(self, several: Iterable[tuple[Part, ...]]) -> tuple[Part, ...]:
        """Join the parts of several artifacts, or of an artifact and a status; of equal ones the first counts."""
        kept: dict[tuple[str, ...], tuple[Part, ...]] = {}
        for parts in map(_without_thoughts, several):
            content = tuple(map(_content, parts))
            if content and content in kept:
                self._repeated = "two artifacts, or an artifact and the status, hold the same"
            kept.setdefault(content, parts)
        return tuple(part for parts in kept.values() for part in parts)

    def _elsewhere(self) -> str:
        said = next((text for message in reversed(self._history) if (text := _text_of(message).strip())), "")
        if not said:
            return ""
        return (
            f"the task's history has words of the agent's ({excerpt(said, 80)}), which are no answer: that "
            "is in an artifact, or in the message of the status"
        )

    def _metadata_candidates(self) -> Iterable[Mapping[str, Any]]:
        if self._message is not None:
            yield self._message.metadata
        yield self._metadata
        if self._status is not None:
            yield self._status.metadata
        for artifact in reversed(self._artifacts.values()):
            yield artifact.metadata


def _text_of(message: InMessage) -> str:
    return "\n".join(p.text for p in message.parts if p.kind == "text")


def _content(part: Part) -> str:
    """Return a part's content, for comparing: without its metadata and blanks around a text."""
    return part.text.strip() if part.kind == "text" else repr((part.kind, part.data, part.url, part.raw))


def _join(old: tuple[Part, ...], new: tuple[Part, ...]) -> tuple[Part, ...]:
    """Append parts; a text chunk continues the text before it, as token streaming means it to."""
    if old and new and old[-1].kind == new[0].kind == "text" and old[-1].metadata == new[0].metadata:
        merged = dataclasses.replace(old[-1], text=old[-1].text + new[0].text)
        return (*old[:-1], merged, *new[1:])
    return (*old, *new)


# ADK writes a boolean under a key with its prefix, others under plain names, or a kind of part.
_THOUGHT_FLAGS = ("adk_thought", "thought", "reasoning", "is_thought", "is_reasoning")
_THOUGHT_KINDS = ("type", "kind", "adk_type", "part_type")


def _without_thoughts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Drop parts that an agent marks as a model's thinking: they are neither for the user nor carried out."""
    return tuple(p for p in parts if not p.metadata or not _is_thought(p.metadata))


def _is_thought(metadata: Mapping[str, Any]) -> bool:
    if any(metadata.get(key) is True for key in _THOUGHT_FLAGS):
        return True
    return any(metadata.get(key) in ("thought", "thinking", "reasoning") for key in _THOUGHT_KINDS)


def read_usage(metadata: Mapping[str, Any]) -> Usage | None:
    """Return the usage that one metadata object reports, or None. Numbers that it lacks stay None, not zero."""
    for name in _CONTAINERS:
        found = metadata.get(name)
        if isinstance(found, Mapping):
            usage = Usage(_count(found, _INPUT), _count(found, _OUTPUT), _money(found))
            if usage != Usage():
                return usage
    return None


def first_usage(candidates: Iterable[Mapping[str, Any]]) -> Usage:
    """Return the first usage that any of some metadata objects reports; an empty one if none does.

    Servers repeat the same numbers on message, task and artifact, so they are not added up.
    """
    return next((u for u in map(read_usage, filter(None, candidates)) if u is not None), Usage())


def _count(data: Mapping[str, Any], names: Iterable[str]) -> int | None:
    for name in names:
        value = _number(data.get(name))
        if value is not None:
            return int(value)
    return None


def _money(data: Mapping[str, Any]) -> float | None:
    return next((float(v) for v in (_number(data.get(n)) for n in _COST) if v is not None), None)


def _number(value: Any) -> float | int | None:
    # Protobuf's Struct turns every integer into a float, so 12.0 is a count too.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) and 0 <= value < 2**63 else None


_DRAIN_SECONDS = 0.2
"""How long a stream may stay open after its last event; closing it at once would look like a lost client."""


async def read_events(
    events: AsyncGenerator[InEvent, None], turn: Turn, record: RequestRecord, stall_seconds: float, seconds: float
) -> float:
    """Feed a turn until the events end or, a moment after the answer is there, are no longer waited for.

    :param stall_seconds: most seconds between two events, once the stream has begun: comments that keep a connection
        open are no events. An agent that has not begun to answer is slow, not stalled, and has the whole turn.
    :param seconds: of the turn; half of them are left to ask for a task that is known.
    :returns: when the answer was there, or the events ended without one.
    :raises StreamStalledError: if a stream began and then had no event.
    """
    count, limit, most = 0, asyncio.timeout(None), stall_seconds

    def begun() -> None:
        if not count and limit.when() is None:
            limit.reschedule(asyncio.get_running_loop().time() + most)

    record.begun = begun
    try:
        while not (turn.settled or turn.final):
            most = min(stall_seconds, seconds / 2) if turn.task_id is not None else stall_seconds
            async with asyncio.timeout(most if count else None) as limit:
                event = await anext(events)
            with record.meter.reading():
                turn.feed(event)
            count += 1
    except StopAsyncIteration:
        return time.perf_counter()
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise StreamStalledError(
            f"{record.method} {record.endpoint}: the stream stalled: no event came for {most:g} s after "
            f"{f'event {count}' if count else 'it was opened'}; the agent had begun to answer, so this is no slow "
            "start; see what is between here and the agent, or raise stall-timeout if it works for longer without one"
        ) from error
    answered_at = time.perf_counter()
    with suppress(TimeoutError, InfrastructureError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for event in events:
                if not (turn.settled and isinstance(event, InTask) and event.state not in TERMINAL):
                    turn.feed(event)
    return answered_at
