"""Push notifications: kept in the database, and sent in the form of the version in which they were asked for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
from a2a.auth.user import User
from a2a.compat.v0_3.conversions import to_compat_task
from a2a.server.cluster.database_task_store import VersionedDatabaseTaskStore
from a2a.server.context import ServerCallContext
from a2a.server.tasks import PushNotificationSender
from a2a.server.tasks.database_push_notification_config_store import DatabasePushNotificationConfigStore
from a2a.server.tasks.push_notification_sender import PushNotificationEvent
from a2a.types import TaskPushNotificationConfig
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict

from pytest_a2a_bench.a2a.guard import ForbiddenAddress, Guard
from pytest_a2a_bench.errors import EndpointUnreachableError
from pytest_a2a_bench.redact import redact_url

log = logging.getLogger(__name__)

VERSION = "a2a_bench.version"
"""Member of a call's state: the protocol version that its caller speaks."""

SECONDS = 5.0
"""Most seconds for one notification: the next one about its assessment waits for it."""


class KnownUser(User):
    """A caller by name, for what is done in their place."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        """Whether they had to say who they are."""
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
        """Keep a configuration."""
        marked = TaskPushNotificationConfig()
        marked.CopyFrom(notification_config)
        marked.tenant = json.dumps([context.state.get(VERSION, "1.0"), context.user.user_name])
        return _unmarked(await super().set_info(task_id, marked, context))

    async def get_info(self, task_id: str, context: ServerCallContext) -> list[TaskPushNotificationConfig]:
        """Return a caller's configurations."""
        return [_unmarked(config) for config in await super().get_info(task_id, context)]


def _unmarked(config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
    found = TaskPushNotificationConfig()
    found.CopyFrom(config)
    found.ClearField("tenant")
    return found


class WebhookSender(PushNotificationSender):
    """Sends notifications, each once and those of a task in their order; what is not taken is logged.

    :param client: checks addresses itself, when it connects.
    """

    def __init__(self, client: httpx.AsyncClient, store: WebhookStore, tasks: VersionedDatabaseTaskStore) -> None:
        self._client, self._store, self._tasks = client, store, tasks
        self._waiting: dict[str, deque[tuple[TaskPushNotificationConfig, str]]] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        """Begin to send one event of a task to whoever asked for it: who takes it slowly holds up no answer."""
        letters = []
        for config in await self._store.get_info_for_dispatch(task_id):
            with _logged(task_id, config):
                # Written now: the task may be another by the time at which it is sent.
                letters.append((config, await self._body(task_id, event, config)))
        if task_id in self._waiting:  # whoever sends the earlier ones goes on with these
            self._waiting[task_id].extend(letters)
        elif letters:
            self._waiting[task_id] = deque(letters)
            sending = asyncio.create_task(self._send_all(task_id))
            self._under_way.add(sending)
            sending.add_done_callback(self._under_way.discard)

    async def aclose(self) -> None:
        """Wait for what is under way, for as long as one notification may take."""
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=SECONDS)
            for sending in late:
                sending.cancel()

    async def _send_all(self, task_id: str) -> None:
        waiting = self._waiting[task_id]
        try:
            while waiting:
                await self._send(task_id, *waiting.popleft())
        finally:
            del self._waiting[task_id]

    async def _send(self, task_id: str, config: TaskPushNotificationConfig, body: str) -> None:
        with _logged(task_id, config):
            # The whole of it, since httpx bounds each read only; and nobody wants to know what it answers.
            async with (
                asyncio.timeout(SECONDS),
                self._client.stream("POST", config.url, content=body, headers=_headers(config)) as response,
            ):
                response.raise_for_status()

    async def _body(self, task_id: str, event: PushNotificationEvent, config: TaskPushNotificationConfig) -> str:
        version, owner = json.loads(config.tenant) if config.tenant else ("1.0", "")
        if version == "0.3":  # which sends the whole task each time (§9.5)
            stored = await self._tasks.get(task_id, ServerCallContext(user=KnownUser(owner)))
            if stored is not None:
                return to_compat_task(stored.task).model_dump_json(by_alias=True, exclude_none=True)
        told: dict[str, Any] = MessageToDict(to_stream_response(event))
        return json.dumps(told)


@contextlib.contextmanager
def _logged(task_id: str, config: TaskPushNotificationConfig) -> Iterator[None]:
    """Log what keeps one notification from its webhook, and let the others have theirs."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, EndpointUnreachableError, TimeoutError, ValueError) as error:
        where = redact_url(config.url, query=False)
        log.warning("webhook not reached", extra={"assessment": task_id, "url": where, "reason": type(error).__name__})


def _headers(config: TaskPushNotificationConfig) -> dict[str, str]:
    version = json.loads(config.tenant)[0] if config.tenant else "1.0"
    headers = {"Content-Type": "application/json" if version == "0.3" else "application/a2a+json"}
    if config.token:
        headers["X-A2A-Notification-Token"] = config.token
    if config.authentication.scheme and config.authentication.credentials:
        headers["Authorization"] = f"{config.authentication.scheme} {config.authentication.credentials}"
    return headers


def judge_urls(guard: Guard | None) -> Callable[[str], Awaitable[bool]]:
    """Return what tells whether notifications may be sent to a URL.

    One whose host is not known yet may be: its address is looked at again whenever something is sent.
    """

    async def judge(url: str) -> bool:
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            return False
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
            return False
        try:
            if guard is not None:
                await guard.vet(parsed.host, parsed.port or 443)
        except ForbiddenAddress:
            return False
        except EndpointUnreachableError:
            pass
        return True

    return judge
