"""The database of A2A tasks, their events and webhooks: SQLite in the results directory, or one that is shared.

The task store is the SDK's, in the form that several processes may write to: each write compares the version it began
from, so that a cancellation on one instance ends the assessment that another one runs.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from a2a.server.cluster.database_event_stream import DatabaseTaskEventStream
from a2a.server.cluster.database_task_store import VersionedDatabaseTaskStore
from a2a.server.cluster.version import TaskVersion
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.models import PushNotificationConfigModel, TaskEventModel, TaskModel, TaskVersionModel
from a2a.types import Task, TaskState
from sqlalchemy import delete, select
from sqlalchemy import event as hooks
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from pytest_a2a_bench.assessor.executor import ENDED
from pytest_a2a_bench.assessor.webhooks import KnownUser, WebhookStore
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.results import assessments as records

if TYPE_CHECKING:
    from sqlalchemy.pool import ConnectionPoolEntry

log = logging.getLogger(__name__)

NAME = "tasks.db"
EVERY = 3600.0
"""Seconds between two removals of what is old."""

_AT_ONCE = 500
# Requests that come in a crowd wait for a connection, and are not refused.
_POOL = {"pool_size": 10, "max_overflow": 10, "pool_timeout": 300.0}


class OneWriterTaskStore(VersionedDatabaseTaskStore):
    """Writes of this process come one after the other, in the order in which they were asked for.

    SQLite lets one write at a time, and those that wait look again now and then: on a busy machine, where a write may
    take seconds, one that has waited long can find another in its place each time, until its time is over.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self._writing = asyncio.Lock()

    async def save(
        self,
        task: Task,
        *,
        event: Event | None = None,
        prev: Task | None = None,
        prev_version: TaskVersion,
        context: ServerCallContext,
    ) -> TaskVersion:
        """Store a task, once those before are stored."""
        async with self._writing:
            return await super().save(task, event=event, prev=prev, prev_version=prev_version, context=context)


class Stores(NamedTuple):
    """The stores of a request handler."""

    engine: AsyncEngine
    tasks: VersionedDatabaseTaskStore
    events: DatabaseTaskEventStream
    webhooks: WebhookStore

    async def look(self, name: str, caller: str) -> Task | None:
        """Return the stored task of an assessment, by its name and its caller's; None if there is none."""
        stored = await self.tasks.get(name, ServerCallContext(user=KnownUser(caller)))
        return None if stored is None else stored.task


async def open_stores(results: Path, url: str | None = None) -> Stores:
    """Open the database, and make its tables where there are none.

    :param url: SQLAlchemy's, of an asynchronous driver; None for SQLite in the results directory.
    :raises ConfigurationError: if it cannot be opened.
    """
    engine = _engine(results / NAME) if url is None else _shared_engine(url)
    tasks = OneWriterTaskStore if engine.dialect.name == "sqlite" else VersionedDatabaseTaskStore
    stores = Stores(engine, tasks(engine), DatabaseTaskEventStream(engine), WebhookStore(engine))
    try:
        for store in (stores.tasks, stores.events, stores.webhooks):
            await store.initialize()
    except (SQLAlchemyError, OSError) as error:
        await engine.dispose()
        where = redact_url(url) if url else str(results / NAME)
        reason = str(getattr(error, "orig", None) or error)
        raise ConfigurationError(f"the database {where} cannot be used: {reason}") from error
    return stores


def _engine(path: Path) -> AsyncEngine:
    try:
        # Requests are in it, which only its owner may read.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}", **_POOL)

    @hooks.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, entry: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        # Readers do not wait for a writer, and a writer waits for another one instead of failing.
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=60000"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return engine


def _shared_engine(url: str) -> AsyncEngine:
    try:
        return create_async_engine(make_url(url), pool_pre_ping=True, **_POOL)
    except (ArgumentError, ImportError, SQLAlchemyError) as error:
        raise ConfigurationError(
            f"--database-env: {redact_url(url)}: {error}; expected such as postgresql+asyncpg://USER@HOST/NAME, and "
            "its driver installed"
        ) from error


# --- removal by age ---------------------------------------------------------------------------------------------------


async def keep_removing(results: Path, engine: AsyncEngine, days: float) -> None:
    """Remove assessments and tasks that ended so many days ago, now and each hour, until it is cancelled.

    Several processes that share a database each do it, and each finds what the others left.
    """
    while True:
        try:
            for name in await asyncio.to_thread(records.remove_old, results, days):
                log.info("assessment removed for its age", extra={"assessment": name})
            count = await remove_tasks(engine, days)
            if count:
                log.info("tasks removed from the database for their age", extra={"tasks": count})
        except (SQLAlchemyError, OSError) as error:  # a disk or a database that comes back
            log.warning("what is old could not be removed", extra={"reason": type(error).__name__})
        await asyncio.sleep(EVERY)


async def remove_tasks(engine: AsyncEngine, days: float) -> int:
    """Remove tasks that ended so many days ago, with their events and webhooks, and return how many these were."""
    before = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - datetime.timedelta(days=days)
    has_ended = TaskModel.status["state"].as_string().in_([TaskState.Name(state) for state in ENDED])
    async with engine.connect() as connection:
        found = await connection.scalars(select(TaskModel.id).where(TaskModel.last_updated < before, has_ended))
        gone = list(found)
    for start in range(0, len(gone), _AT_ONCE):
        await _remove(engine, gone[start : start + _AT_ONCE])
    return len(gone)


async def _remove(engine: AsyncEngine, names: Sequence[str]) -> None:
    async with engine.begin() as connection:
        for model in (TaskEventModel, PushNotificationConfigModel, TaskVersionModel):
            await connection.execute(delete(model).where(model.task_id.in_(names)))
        await connection.execute(delete(TaskModel).where(TaskModel.id.in_(names)))
