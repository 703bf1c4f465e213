"""One interface while it is judged: its connection, the objects that checks share, and what must be cleared away."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.a2a.messages import TERMINAL
from pytest_a2a_bench.conformance.check import NoAnswer, SkipCheck
from pytest_a2a_bench.conformance.protocol.params_v03 import to_v03_params
from pytest_a2a_bench.conformance.protocol.payloads import (
    config_ids,
    configures,
    message_ids,
    state_of,
    task_id_in,
    task_in,
)
from pytest_a2a_bench.conformance.session.health import Health
from pytest_a2a_bench.conformance.session.shared import SharedObjects
from pytest_a2a_bench.conformance.session.target import Target
from pytest_a2a_bench.conformance.wire.base import CannotExpressError, Wire, WireRequest
from pytest_a2a_bench.conformance.wire.connect import open_wire
from pytest_a2a_bench.conformance.wire.exchange import Redactor, is_late
from pytest_a2a_bench.conformance.wire.reply import WireReply
from pytest_a2a_bench.conformance.wire.webhook import WebhookReceiver
from pytest_a2a_bench.errors import MissingExtraError, ProtocolError

_CLEANUP_SECONDS = 6.0
_ONE_SECONDS = 3.0
_PAGES = 5
_PAUSES = (0.0, 0.3, 1.2)
_SENDING = ("SendMessage", "SendStreamingMessage")
_IN_FLIGHT = 24
_PORT_SECONDS = 30.0


class Session:
    """Everything that the checks of one interface share.

    :param siblings: all sessions of the agent, by (binding, version); shared between them.
    """

    def __init__(self, target: Target, siblings: dict[tuple[str, str], Session] | None = None) -> None:
        self.target = target
        self.shared = SharedObjects()
        self.created_tasks: dict[str, bool] = {}
        self.created_configs: set[tuple[str, str]] = set()
        self.configured_tasks: set[str] = set()
        self.unanswered: set[str] = set()
        self._siblings = siblings if siblings is not None else {}
        self._siblings[target.binding, target.version] = self
        self._wire: Wire | None = None
        self.health = Health(self)
        self._receiver: WebhookReceiver | None = None
        self._slots = asyncio.Semaphore(_IN_FLIGHT)

    def sibling(self, binding: str, version: str) -> Session | None:
        """Return the session of another interface, or None."""
        return self._siblings.get((binding, version))

    async def call(self, request: WireRequest) -> WireReply:
        """Send a request; tasks and push configurations that it made are remembered.

        :raises SkipCheck: if the binding has no form for the request.
        """
        started = time.monotonic()
        reply = await self._call_noting(request)
        self.health.note(started, reply)
        return reply

    async def _call_noting(self, request: WireRequest) -> WireReply:
        message = request.params.get("message") if request.operation in _SENDING else None
        name = message.get("messageId") if isinstance(message, Mapping) else None
        sent = {name} if isinstance(name, str) else set()
        # Until there is an answer, also where the check that waits for it is stopped.
        self.unanswered |= sent
        reply = await self._call(request)
        if not is_late(reply.exchange) or reply.events:
            self.unanswered -= sent
        self._note(request, reply)
        return reply

    def _note(self, request: WireRequest, reply: WireReply) -> None:
        if request.operation in _SENDING:
            self._remember(reply, configures(request.params))
        elif request.operation == "CreateTaskPushNotificationConfig" and reply.ok:
            self.created_configs |= {(task_id_in(request.params), id) for id in config_ids(reply.result)}

    async def webhooks(self) -> WebhookReceiver:
        """Return the receiver at the place that the user named: one for all interfaces, for it has one port.

        :raises NoAnswer: if it cannot listen there.
        """
        owner = next(iter(self._siblings.values()))
        return await owner.shared.once("webhooks", owner._listen)

    async def _listen(self) -> WebhookReceiver:
        receiver = WebhookReceiver(self.target.webhook)
        until = time.monotonic() + _PORT_SECONDS
        while True:
            try:
                await receiver.start()
            except OSError as error:
                # Another worker process of the same run may hold the port for a while.
                if time.monotonic() > until:
                    raise NoAnswer(f"the webhook cannot listen on {receiver.where}: {error}") from error
                await asyncio.sleep(0.2)
            else:
                self._receiver = receiver
                return receiver

    async def ask(self, operation: str, params: dict[str, Any], timeout: float) -> WireReply:
        """Ask something on the judge's own account, with parameters in the form of 1.0.

        :raises SkipCheck: if the binding has no form for the request.
        """
        target = self.target
        old = target.version == "0.3"
        request = WireRequest(
            operation,
            to_v03_params(operation, params, target.binding) if old else params,
            headers=target.extension_headers,
            version_header=None if old else target.version,
            timeout=timeout,
        )
        return await self._call_noting(request)

    async def _call(self, request: WireRequest) -> WireReply:
        if self._wire is None:
            self._wire = self._open()
        try:
            if request.stream:
                return await self._wire.call(request)
            async with self._slots:
                return await self._wire.call(request)
        except CannotExpressError as error:
            raise SkipCheck(f"cannot be asked over {request.operation} on {self.target.binding}: {error}") from error

    def _open(self) -> Wire:
        target = self.target
        try:
            return open_wire(
                target.binding,
                target.version,
                target.url,
                endpoint=target.endpoint,
                tenant=target.tenant,
                auth=target.auth,
                verify_ssl=target.verify_ssl,
                redactor=Redactor(target.secrets),
            )
        except MissingExtraError as error:
            raise SkipCheck(str(error)) from error
        except (ProtocolError, ValueError) as error:
            raise NoAnswer(f"the interface {target.url!r:.200} cannot be asked: {error}") from error

    def _remember(self, reply: WireReply, configured: bool) -> None:
        for value in (reply.result, *reply.events[:1], *reply.events[-1:]):
            task = task_in(value)
            if task is not None and isinstance(task.get("id"), str):
                self.created_tasks[task["id"]] = state_of(task) in TERMINAL
                self.configured_tasks |= {task["id"]} if configured else set()
            update = value.get("statusUpdate") if isinstance(value, Mapping) else None
            if isinstance(update, Mapping) and state_of(update) in TERMINAL:
                self.created_tasks[str(update.get("taskId"))] = True

    async def close(self) -> None:
        """Delete and cancel what the checks left behind, then close the connection."""
        await self.shared.close()
        await self.health.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0 if self.health.is_broken else _CLEANUP_SECONDS):
                    await self._clear()
        finally:
            if self._receiver is not None:
                await self._receiver.close()
            if self._wire is not None:
                await self._wire.close()

    async def _clear(self) -> None:
        await asyncio.gather(*map(self._find_configs, self.configured_tasks))
        deletions = [
            self._quietly("DeleteTaskPushNotificationConfig", {"taskId": task, "id": config})
            for task, config in self.created_configs
        ]
        await asyncio.gather(*deletions, self._find_unanswered())
        left = [task for task, over in self.created_tasks.items() if not over]
        await asyncio.gather(*(self._quietly("CancelTask", {"id": task}) for task in left))

    async def _find_configs(self, task: str) -> None:
        """Learn the ids of the configurations that came with a task's message: the agent gave them."""
        listed = await self._quietly("ListTaskPushNotificationConfigs", {"taskId": task})
        self.created_configs |= {(task, id) for id in config_ids(listed.result)} if listed is not None else set()

    async def _find_unanswered(self) -> None:
        """Find the tasks of messages that were not answered in time, by the ids that those were given here."""
        for pause in _PAUSES if self.target.version != "0.3" else ():
            if self.unanswered:
                # A busy agent may not have begun yet with what was sent last.
                await asyncio.sleep(pause)
                await self._look_for_unanswered()

    async def _look_for_unanswered(self) -> None:
        token = ""
        for _ in range(_PAGES):
            page = {"pageSize": 100, "historyLength": 20, **({"pageToken": token} if token else {})}
            listed = await self._quietly("ListTasks", page)
            result = listed.result if listed is not None and isinstance(listed.result, Mapping) else {}
            tasks = result.get("tasks")
            for task in tasks if isinstance(tasks, list) else []:
                found = message_ids(task) & self.unanswered
                if found and isinstance(task.get("id"), str):
                    self.created_tasks[task["id"]] = state_of(task) in TERMINAL
                    self.unanswered -= found
            token = str(result.get("nextPageToken") or "")
            if not token:
                return

    @property
    def left(self) -> str:
        """What may still be on the agent after :meth:`close`; empty for nothing that is known of."""
        count = len(self.unanswered)
        return f"{count} messages to {self.target} were never answered; tasks of theirs may still run" if count else ""

    async def _quietly(self, operation: str, params: dict[str, Any]) -> WireReply | None:
        with contextlib.suppress(SkipCheck, NoAnswer):
            return await self.ask(operation, params, _ONE_SECONDS)
        return None
