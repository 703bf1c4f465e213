"""The database of A2A tasks, their events and webhooks: SQLite in the results directory, or one that is shared.

The task store is the SDK's, in the form that several processes may write to: each write compares the version it began
from, so that a cancellation on one instance ends the assessment that another one runs. Push notifications are sent in
the form of the version in which they were asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
from a2a.auth.user import User
from a2a.compat.v0_3.conversions import to_compat_task
from a2a.server.cluster.database_event_stream import DatabaseTaskEventStream
from a2a.server.cluster.database_task_store import VersionedDatabaseTaskStore
from a2a.server.cluster.version import TaskVersion
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.models import PushNotificationConfigModel, TaskEventModel, TaskModel, TaskVersionModel
from a2a.server.tasks import PushNotificationSender
from a2a.server.tasks.database_push_notification_config_store import DatabasePushNotificationConfigStore
from a2a.server.tasks.push_notification_sender import PushNotificationEvent
from a2a.types import Task, TaskPushNotificationConfig, TaskState
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToJson
from sqlalchemy import delete, select
from sqlalchemy import event as hooks
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from pytest_a2a_bench.a2a.network import ForbiddenAddress, Guard
from pytest_a2a_bench.assessor.executor import ENDED
from pytest_a2a_bench.assessor.result import whole_numbers
from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.results import assessments as records
from pytest_a2a_bench.text import refusing

if TYPE_CHECKING:
    from sqlalchemy.pool import ConnectionPoolEntry

log = logging.getLogger(__name__)

VERSION = "a2a_bench.version"
"""Member of a call's state: the protocol version that its caller speaks."""

SECONDS = 5.0
"""Most seconds for one notification: the next one about its assessment waits for it."""


class KnownUser(User):
    """A caller by name, in whose place the assessor itself calls."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        """Whether callers have names here."""
        return bool(self._name)

    @property
    def user_name(self) -> str:
        """Their name."""
        return self._name


class WebhookStore(DatabasePushNotificationConfigStore):
    """The SDK's store, which also keeps who asked for a notification, and in which version.

    Both stand in the configuration's tenant, which the assessor has no other use for; no caller sees it.
    """

    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Store a configuration."""
        tenant = json.dumps([context.state.get(VERSION, "1.0"), context.user.user_name])
        return _with_tenant(await super().set_info(task_id, _with_tenant(notification_config, tenant), context))

    async def get_info(self, task_id: str, context: ServerCallContext) -> list[TaskPushNotificationConfig]:
        """Return a caller's configurations."""
        return [_with_tenant(config) for config in await super().get_info(task_id, context)]


def _with_tenant(config: TaskPushNotificationConfig, tenant: str = "") -> TaskPushNotificationConfig:
    found = TaskPushNotificationConfig()
    found.CopyFrom(config)
    found.tenant = tenant
    return found


class WebhookSender(PushNotificationSender):
    """Sends notifications, each once and those of a task in their order; one that is not taken is logged.

    The SDK's sender makes the answer to a caller wait for webhooks, and knows the form of 1.0 only.

    :param client: checks addresses itself, when it connects.
    """

    def __init__(self, client: httpx.AsyncClient, store: WebhookStore, tasks: VersionedDatabaseTaskStore) -> None:
        self._client, self._store, self._tasks = client, store, tasks
        self._last: dict[str, asyncio.Task[None]] = {}

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        """Begin to send one event of a task to its webhooks: a slow one holds up no answer."""
        requests = []
        for config in await self._store.get_info_for_dispatch(task_id):
            with _logged(task_id, config):
                # Written now: the task may have changed by the time at which it is sent.
                requests.append((config, await self._write(task_id, event, config)))
        if requests:
            sending = asyncio.create_task(self._send_all(task_id, requests, self._last.get(task_id)))
            self._last[task_id] = sending

    async def aclose(self) -> None:
        """Wait for the notifications under way, for as long as one may take."""
        if self._last:
            _, late = await asyncio.wait(self._last.values(), timeout=SECONDS)
            for sending in late:
                sending.cancel()

    async def _send_all(self, task_id: str, requests: Sequence[_Request], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        for config, (headers, body) in requests:
            with _logged(task_id, config):
                # The whole of it, since httpx bounds each read only; what is answered is not read.
                async with (
                    asyncio.timeout(SECONDS),
                    self._client.stream("POST", config.url, content=body, headers=headers) as response,
                ):
                    response.raise_for_status()
        if self._last.get(task_id) is asyncio.current_task():
            del self._last[task_id]

    async def _write(
        self, task_id: str, event: PushNotificationEvent, config: TaskPushNotificationConfig
    ) -> tuple[dict[str, str], str]:
        """Return headers and body of a notification, in the version in which it was asked for."""
        version, owner = json.loads(config.tenant) if config.tenant else ("1.0", "")
        headers = {"Content-Type": "application/json" if version == "0.3" else "application/a2a+json"}
        if config.token:
            headers["X-A2A-Notification-Token"] = config.token
        if config.authentication.scheme and config.authentication.credentials:
            headers["Authorization"] = f"{config.authentication.scheme} {config.authentication.credentials}"
        if version == "0.3":  # which sends the whole task each time (section 9.5)
            stored = await self._tasks.get(task_id, ServerCallContext(user=KnownUser(owner)))
            if stored is not None:
                text = to_compat_task(stored.task).model_dump_json(by_alias=True, exclude_none=True)
                return headers, whole_numbers(text)
        return headers, whole_numbers(MessageToJson(to_stream_response(event)))


_Request = tuple[TaskPushNotificationConfig, tuple[dict[str, str], str]]


@contextlib.contextmanager
def _logged(task_id: str, config: TaskPushNotificationConfig) -> Iterator[None]:
    """Log the error of one notification, and deliver the others."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, EndpointUnreachableError, TimeoutError, ValueError) as error:
        where = redact_url(config.url, query=False)
        log.warning("webhook not reached", extra={"assessment": task_id, "url": where, "reason": type(error).__name__})


def judge_urls(guard: Guard | None) -> Callable[[str], Awaitable[bool]]:
    """Return a function that refuses URLs to which no notification may be sent, with the reason.

    A host that has no address yet is accepted: its address is checked again whenever something is sent.
    """

    async def judge(url: str) -> bool:
        try:
            parsed = httpx.URL(url)
            if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
                raise httpx.InvalidURL("expected http://HOST or https://HOST, without a user or a password")
            if guard is not None:
                await guard.vet(parsed.host, parsed.port or 443)
        except (httpx.InvalidURL, ForbiddenAddress) as error:
            raise InvalidParamsError(message=f"the URL for push notifications is refused: {error}") from error
        except EndpointUnreachableError:
            pass
        return True

    return judge


NAME = "tasks.db"
EVERY = 3600.0
"""Seconds between two removals of old assessments."""

_AT_ONCE = 500
# Requests that come in a crowd wait for a connection, and are not refused.
_POOL = {"pool_size": 10, "max_overflow": 10, "pool_timeout": 300.0}


class OneWriterTaskStore(VersionedDatabaseTaskStore):
    """Writes of this process come one after the other, in the order in which they were asked for.

    SQLite lets one process write at a time, and others try again now and then: on a busy machine, where a write may
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
        async with engine.connect() as connection:  # a table of that name may be another version's
            await connection.execute(select(TaskModel).limit(1))
    except (SQLAlchemyError, OSError) as error:
        await engine.dispose()
        where = redact_url(url) if url else str(results / NAME)
        reason = str(getattr(error, "orig", None) or error)
        raise ConfigurationError(f"the database {where} cannot be used: {reason}") from error
    return stores


def _engine(path: Path) -> AsyncEngine:
    with refusing(f"{path} cannot be written"):
        # Requests are in it, which only its owner may read.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
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

    Several processes that share a database each do it, and each finds the rest that the others left.
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
