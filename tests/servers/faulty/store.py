"""The tasks that the agent knows: their state, who listens to them, and how they are listed."""

from __future__ import annotations

import asyncio
import base64
import copy
import itertools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from faulty.fault import Json
from faulty.problems import Violation, invalid, parse_time
from pytest_a2a_bench.a2a.codec import INTERRUPTED, SETTLED, TERMINAL

TERMINAL_STATES = frozenset(f"TASK_STATE_{name.upper()}" for name in TERMINAL)
INTERRUPTED_STATES = frozenset(f"TASK_STATE_{name.upper().replace('-', '_')}" for name in INTERRUPTED)
SETTLED_STATES = frozenset(f"TASK_STATE_{name.upper().replace('-', '_')}" for name in SETTLED)

_LIMIT = 5000


@dataclass(eq=False)
class Record:
    """One task.

    :param owner: who may see it: the caller and the tenant.
    :param number: counts status changes of all tasks, to order those of the same millisecond.
    :param configs: its push notification configurations by id.
    :param newest_only: whether the newest stream alone is told (a fault).
    :param notify: told about every event, besides the streams.
    """

    task: Json
    owner: tuple[str, str]
    number: int = 0
    streams: list[asyncio.Queue[Json]] = field(default_factory=list)
    configs: dict[str, Json] = field(default_factory=dict)
    notify: Callable[[Record, Json], None] = lambda record, event: None
    newest_only: bool = False
    work: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        """The name of its state."""
        return str(self.task["status"]["state"])

    @property
    def heard(self) -> list[asyncio.Queue[Json]]:
        """The streams that are told about events."""
        return self.streams[-1:] if self.newest_only else self.streams

    @property
    def resting(self) -> bool:
        """Whether a blocking call may return."""
        return self.state in SETTLED_STATES

    def emit(self, event: Json) -> None:
        """Tell streams and webhooks what happened."""
        for queue in self.heard:
            queue.put_nowait(copy.deepcopy(event))
        self.notify(self, event)

    def listen(self, history_length: Any = None) -> asyncio.Queue[Json]:
        """Open a stream that begins with the task as it is now."""
        queue: asyncio.Queue[Json] = asyncio.Queue()
        queue.put_nowait({"task": shown(self.task, history_length)})
        self.streams.append(queue)
        return queue


def now() -> str:
    """Return the time as the specification writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    """Return a fresh identifier."""
    return str(uuid.uuid4())


class TaskStore:
    """All tasks, the oldest forgotten first."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._numbers = itertools.count(1)

    def add(self, record: Record) -> None:
        """Keep a new task."""
        while len(self._records) >= _LIMIT:
            self._records.pop(next(iter(self._records)))
        self._records[record.task["id"]] = record

    def forget(self, record: Record) -> None:
        """Purge a task."""
        self._records.pop(record.task["id"], None)

    def find(self, task_id: Any, owner: tuple[str, str] | None) -> Record | None:
        """Return a task that this owner may see; any task for None."""
        record = self._records.get(task_id) if isinstance(task_id, str) else None
        return record if record and owner in (None, record.owner) else None

    def number(self) -> int:
        """Return the next number of a status change."""
        return next(self._numbers)

    def visible(self, owner: tuple[str, str] | None) -> Iterator[Record]:
        """Yield what this owner may see."""
        return (record for record in self._records.values() if owner in (None, record.owner))


def matching(records: Iterator[Record], params: Json) -> list[Record]:
    """Return the records that the filters of ListTasks let through, newest first."""
    after = parse_time(params.get("statusTimestampAfter"))
    status = params.get("status")
    found = [
        record
        for record in records
        if (not params.get("contextId") or record.task["contextId"] == params["contextId"])
        and (status in (None, "TASK_STATE_UNSPECIFIED") or record.state == status)
        and (after is None or (parse_time(record.task["status"]["timestamp"]) or after) >= after)
    ]
    return sorted(found, key=lambda record: record.number, reverse=True)


def page(records: list[Record], params: Json) -> tuple[list[Record], str]:
    """Return one page and the token of the next one, which is empty after the last."""
    size = int(params.get("pageSize") or 50)
    if token := params.get("pageToken"):
        before = _read_token(token)
        records = [record for record in records if record.number < before]
    chosen = records[:size]
    return chosen, _write_token(chosen[-1].number) if len(records) > size else ""


def page_by_offset(records: list[Record], params: Json) -> tuple[list[Record], str]:
    """Return a page whose token says how many tasks came before it (a fault): it moves with what is made meanwhile."""
    size, skipped = int(params.get("pageSize") or 50), _read_token(token) if (token := params.get("pageToken")) else 0
    until = skipped + size
    return records[skipped:until], _write_token(until) if len(records) > until else ""


def _write_token(number: int) -> str:
    return base64.urlsafe_b64encode(f"before:{number}".encode()).decode()


def _read_token(token: Any) -> int:
    try:
        word, _, number = base64.urlsafe_b64decode(str(token).encode()).decode().partition(":")
        if word == "before":
            return int(number)
    except ValueError:
        pass
    raise invalid([Violation("page-token", "pageToken", "was not given out by this agent")])


def shown(task: Json, history_length: Any, *, artifacts: bool = True) -> Json:
    """Return a copy of a task with no more history than was asked for."""
    copied = copy.deepcopy(task)
    if history_length is not None:
        kept = copied.get("history", [])[-int(history_length) :] if int(history_length) else []
        if kept:
            copied["history"] = kept
        else:
            copied.pop("history", None)
    if not artifacts:
        copied.pop("artifacts", None)
    return copied
