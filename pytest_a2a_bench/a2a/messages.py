"""What goes to an agent and what comes from it, whatever version and binding carried it (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_a2a_bench.model import Part

# A2A 1.0 §4.1.3: nothing follows a terminal state; an interrupted one waits for a message or for credentials (§7.6.1).
TERMINAL = frozenset({"completed", "failed", "canceled", "rejected"})
INTERRUPTED = frozenset({"input-required", "auth-required"})
SETTLED = TERMINAL | INTERRUPTED


@dataclass(frozen=True, slots=True)
class OutMessage:
    """A message to an agent."""

    message_id: str
    parts: tuple[Part, ...]
    context_id: str | None = None
    task_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InMessage:
    """A message from an agent (or, in a history, from us)."""

    role: str = ""
    parts: tuple[Part, ...] = ()
    context_id: str | None = None
    task_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Artifact:
    """What an a2a_task made."""

    artifact_id: str = ""
    parts: tuple[Part, ...] = ()
    name: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InTask:
    """A snapshot of an a2a_task; ``state`` is None where the agent gave none."""

    task_id: str | None = None
    context_id: str | None = None
    state: str | None = None
    status: InMessage | None = None
    artifacts: tuple[Artifact, ...] = ()
    history: tuple[InMessage, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """A streamed change of an a2a_task's state."""

    task_id: str | None = None
    context_id: str | None = None
    state: str | None = None
    status: InMessage | None = None
    final: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ArtifactUpdate:
    """A streamed piece of an artifact."""

    task_id: str | None = None
    context_id: str | None = None
    artifact: Artifact = Artifact()
    append: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    last: bool = False


InEvent = InMessage | InTask | StatusUpdate | ArtifactUpdate


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One message of the conversation, as it was sent or received.

    :param requests: how many requests the conversation had taken when it was received.
    """

    direction: Literal["sent", "received"]
    parts: tuple[Part, ...]
    timestamp: str
    message_id: str | None = None
    state: str | None = None
    requests: int = 0


def texts_sent(history: Iterable[HistoryEntry]) -> list[str]:
    """Return what we said: a server may send it back with its answer, as the history of an a2a_task."""
    return [part.text for entry in history if entry.direction == "sent" for part in entry.parts]
