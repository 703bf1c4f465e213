"""Push notifications, stored in the database and sent in the form of the version in which they were asked for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence

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
from google.protobuf.json_format import MessageToJson

from pytest_a2a_bench.a2a.network import ForbiddenAddress, Guard
from pytest_a2a_bench.assessor.result import whole_numbers
from pytest_a2a_bench.errors import EndpointUnreachableError
from pytest_a2a_bench.redact import redact_url

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
    """Log what keeps one notification from its webhook, and let the others have theirs."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, EndpointUnreachableError, TimeoutError, ValueError) as error:
        where = redact_url(config.url, query=False)
        log.warning("webhook not reached", extra={"assessment": task_id, "url": where, "reason": type(error).__name__})


def judge_urls(guard: Guard | None) -> Callable[[str], Awaitable[bool]]:
    """Return a function that returns whether notifications may be sent to a URL.

    One whose host has no address yet may be: its address is checked again whenever something is sent.
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
