"""A2A tasks and push notification configurations in a database: SQLite in the results directory, or one that is shared.

The task store is the SDK's, in the form that several processes may write to: each write compares the version it began
from, so that a cancellation on one instance ends the assessment that another one holds.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from a2a.server.cluster.database_event_stream import DatabaseTaskEventStream
from a2a.server.cluster.database_task_store import VersionedDatabaseTaskStore
from a2a.server.cluster.version import TaskVersion
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.types import Task
from sqlalchemy import event as hooks
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from pytest_a2a_bench.assessor.webhooks import WebhookStore
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import redact_url

if TYPE_CHECKING:
    from sqlalchemy.pool import ConnectionPoolEntry

NAME = "tasks.db"


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
        """Keep a task, as the store does, once those before have been kept."""
        async with self._writing:
            return await super().save(task, event=event, prev=prev, prev_version=prev_version, context=context)


class Stores(NamedTuple):
    """What a request handler keeps things in."""

    engine: AsyncEngine
    tasks: VersionedDatabaseTaskStore
    events: DatabaseTaskEventStream
    webhooks: WebhookStore


async def open_stores(results: Path, url: str | None = None) -> Stores:
    """Open the database, and make its tables where there are none.

    :param url: SQLAlchemy's, of an asynchronous driver; None for SQLite in the results directory.
    :raises ConfigurationError: if it cannot be opened.
    """
    engine = _engine(results / NAME) if url is None else _shared_engine(url)
    stores = Stores(
        engine,
        OneWriterTaskStore(engine) if engine.dialect.name == "sqlite" else VersionedDatabaseTaskStore(engine),
        DatabaseTaskEventStream(engine),
        WebhookStore(engine),
    )
    try:
        await stores.tasks.initialize()
        await stores.events.initialize()
        await stores.webhooks.initialize()
    except (SQLAlchemyError, OSError) as error:
        await engine.dispose()
        where = redact_url(url) if url else str(results / NAME)
        reason = str(getattr(error, "orig", None) or error)
        raise ConfigurationError(f"the database {where} cannot be used: {reason}") from error
    return stores


_CROWD = {"pool_size": 10, "max_overflow": 10, "pool_timeout": 300.0}


def _engine(path: Path) -> AsyncEngine:
    try:
        # Requests are in it: nobody else's to read.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}", **_CROWD)

    @hooks.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, entry: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        # Readers do not wait for a writer, and a writer waits for another one instead of failing.
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.execute("PRAGMA busy_timeout=60000")
        cursor.close()

    return engine


def _shared_engine(url: str) -> AsyncEngine:
    try:
        # Whoever comes in a crowd waits, and is not refused.
        return create_async_engine(make_url(url), pool_pre_ping=True, **_CROWD)
    except (ArgumentError, ImportError, SQLAlchemyError) as error:
        raise ConfigurationError(
            f"--database-env: {redact_url(url)}: {error}; expected such as postgresql+asyncpg://USER@HOST/NAME, and "
            "its driver installed"
        ) from error
