"""One interface while it is judged: its connection, the objects that checks share, and their removal."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pytest_a2a_bench.a2a.bodies import as_object, as_objects
from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance.protocol.operations import SENDING, about, to_v03_params
from pytest_a2a_bench.conformance.protocol.payloads import (
    config_ids,
    configures,
    message_ids,
    state_of,
    task_id_in,
    task_in,
)
from pytest_a2a_bench.conformance.session.health import Health, Pace, Steadiness
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.wire.exchange import is_late
from pytest_a2a_bench.conformance.wire.http import open_wire
from pytest_a2a_bench.conformance.wire.reply import UNSET, NoAnswer, SkipCheck, Wire, WireReply, WireRequest
from pytest_a2a_bench.conformance.wire.webhook import WebhookReceiver
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError, ProtocolError
from pytest_a2a_bench.results.stats import count

T = TypeVar("T")

# Long enough for a slow agent's cancellations, short enough that leaving a run stays bearable.
CLEANUP_SECONDS = 6.0
HURRIED_SECONDS = 1.0
"""Seconds for removing objects after SIGTERM: SIGKILL usually follows."""
_ONE_SECONDS = 3.0
# Of a hundred tasks each. A shared agent has more, of other users.
_PAGES = 5
# A busy agent may not have begun with a message yet, so it is looked for until it was sent this long ago.
_BEGUN_SECONDS = 1.5
_PAUSE = 0.3
# Below the connections of the client (64): what is left is for streams, which take no slot.
_IN_FLIGHT = 24
# Another worker gives the port back as soon as its checks of push notifications are over.
_PORT_SECONDS = 30.0


class Cache:
    """The objects that checks of one interface share, made once; concurrent checks wait for it."""

    def __init__(self) -> None:
        self._made: dict[Any, asyncio.Future[Any]] = {}

    async def once(self, key: Any, make: Callable[[], Awaitable[T]]) -> T:
        """Make an object once; if that raises, every check that wants the object gets the error."""
        # A future and no lock: a failure is remembered too, so that twenty checks do not each wait for one limit.
        future = self._made.get(key)
        if future is None:
            future = self._made[key] = asyncio.ensure_future(make())
        # Shielded, because the check that asked first may be stopped while others wait.
        result: T = await asyncio.shield(future)
        return result

    def forget(self) -> None:
        """Forget what is made, so that it is made anew; what is being made goes on, as checks wait for it."""
        self._made = {key: made for key, made in self._made.items() if not made.done()}

    async def close(self) -> None:
        """Stop making objects that no check waits for any more."""
        for future in self._made.values():
            future.cancel()
        await asyncio.gather(*self._made.values(), return_exceptions=True)


class Session:
    """Everything that the checks of one interface share.

    :param siblings: all sessions of the agent, by (binding, version); shared between them.

    ``is_tagged`` is whether objects have a ``kind``, as in the JSON schema of 0.3.
    """

    def __init__(self, target: Target, siblings: dict[tuple[str, str], Session] | None = None) -> None:
        self.target = target
        self.shared: Cache = Cache()
        self.created_tasks: dict[str, bool] = {}
        self.created_configs: set[tuple[str, str]] = set()
        self.configured_tasks: set[str] = set()
        self.unanswered: dict[str, float] = {}
        self._siblings = siblings if siblings is not None else {}
        # Registered before any check runs: some compare what two bindings say of one task.
        self._siblings[target.binding, target.version] = self
        self._wire: Wire | None = None
        self.is_tagged: bool = (target.version, target.binding) == ("0.3", "JSONRPC")
        self.health: Health = Health(target, self.ask, self._spoken_instead, self._learn_form)
        self.pace: Pace = Pace(self.health.reference)
        self.steadiness: Steadiness = Steadiness()
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
        reply = await self._exchange(request)
        self.health.note(started, reply)
        self.steadiness.note(request, reply, self.created_tasks)
        return reply

    async def _exchange(self, request: WireRequest) -> WireReply:
        """Send a request, and remember what it makes on the agent."""
        name = _message_id(request)
        try:
            # Streams last as long as their task; counted among the slots they would starve the short requests.
            async with contextlib.nullcontext() if request.stream else self._slots:
                if name:
                    # Until there is an answer, also where the check that waits for it is stopped.
                    self.unanswered[name] = time.monotonic()
                self._wire = self._wire or self._open()
                reply = await self._wire.call(request)
        except (SkipCheck, NoAnswer):
            # There is no way to send it: nothing can have begun.
            self.unanswered.pop(name, None)
            raise
        # What was answered late may have begun, and is looked for when clearing away.
        if not is_late(reply.exchange) or reply.events:
            self.unanswered.pop(name, None)
        if request.operation in SENDING:
            self._remember(reply, configures(request.params))
        elif request.operation == "CreateTaskPushNotificationConfig" and reply.ok:
            self.created_configs |= {(task_id_in(request.params), id) for id in config_ids(reply.result)}
        return reply

    async def webhooks(self) -> WebhookReceiver:
        """Return the receiver at the place that the user named: one for all interfaces, for it has one port.

        :raises NoAnswer: if it cannot listen there.
        """
        # The first session owns it, so that it does not matter which check asks first.
        owner = next(iter(self._siblings.values()))
        return await owner.shared.once("webhooks", owner._listen)

    async def _listen(self) -> WebhookReceiver:
        if self._receiver is not None:
            return self._receiver
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

    def request(
        self, operation: str, params: Mapping[str, Any], *, version: Any = UNSET, spell: bool = True, **options: Any
    ) -> WireRequest:
        """Return a request, with parameters in the form of 1.0 as the interface's version has them.

        :param version: value of ``A2A-Version`` in place of the interface's (0.3 has none); None leaves it out.
        :param spell: whether to rewrite the parameters for 0.3.
        :param options: further members of the request.
        """
        is_old = self.target.version == "0.3"
        sent = dict(params)
        if is_old and spell:
            sent = to_v03_params(operation, params, self.target.binding, is_tagged=self.is_tagged)
        named = (None if is_old else self.target.version) if version is UNSET else version
        return WireRequest(operation, sent, version_header=None if named is None else str(named), **options)

    async def ask(self, operation: str, params: Mapping[str, Any], timeout: float = _ONE_SECONDS) -> WireReply | None:
        """Ask something on the judge's own account, with parameters in the form of 1.0; None where there is no asking.

        That is an interface that cannot be opened, or a binding without a form for the request: its checks say so.
        """
        headers = self.target.extension_headers
        with contextlib.suppress(SkipCheck, NoAnswer):
            return await self._exchange(self.request(operation, params, headers=headers, timeout=timeout))
        return None

    async def _spoken_instead(self) -> str:
        version = "1.0" if self.target.version == "0.3" else "0.3"
        return version if await self.speaks(version=version) else ""

    async def speaks(self, **changes: Any) -> bool:
        """Return whether another version or binding is spoken at this address: it says that a task is not found."""
        other = Session(replace(self.target, **changes))
        try:
            reply = await other.ask("GetTask", {"id": str(uuid.uuid4())})
        finally:
            await other.close(0)
        error = reply.error if reply is not None else None
        if error is None or not error.may_be("TaskNotFoundError"):
            return False
        # Errors of 0.3's HTTP+JSON have no name; those of a web server name at most the path, /tasks.
        return bool(error.name or re.search(r"\btask\b", error.message, re.IGNORECASE))

    async def _learn_form(self) -> None:
        """Find out which JSON an HTTP+JSON interface of 0.3 takes, by a message to a task that does not exist.

        Section 3.2.3 says structurally equivalent: the SDKs take protobuf's JSON, the examples of section 7 have the
        schema's.
        """
        if (self.target.version, self.target.binding) != ("0.3", "HTTP+JSON"):
            return
        unknown = about("SendMessage", str(uuid.uuid4()))
        for is_tagged in (False, True):
            self.is_tagged = is_tagged
            reply = await self.ask("SendMessage", unknown)
            if reply is None or reply.ok or reply.may_be("TaskNotFoundError"):
                return
        self.is_tagged = False

    def _open(self) -> Wire:
        try:
            return open_wire(self.target)
        except MissingExtraError as error:
            raise SkipCheck(str(error)) from error
        except (ProtocolError, ConfigurationError, ValueError) as error:
            raise NoAnswer(f"the interface {self.target.url!r:.200} cannot be asked: {error}") from error

    def _remember(self, reply: WireReply, configured: bool) -> None:
        # The first event has the task and the last its end; what lies between changes nothing about clearing away.
        for value in (reply.result, *reply.events[:1], *reply.events[-1:]):
            task = task_in(value)
            if task is not None and isinstance(task.get("id"), str):
                self.created_tasks[task["id"]] = state_of(task) in TERMINAL
                self.configured_tasks |= {task["id"]} if configured else set()
            update = value.get("statusUpdate") if isinstance(value, Mapping) else None
            if isinstance(update, Mapping) and state_of(update) in TERMINAL:
                self.created_tasks[str(update.get("taskId"))] = True

    async def close(self, seconds: float = CLEANUP_SECONDS) -> None:
        """Remove the checks' objects from the agent, for at most so many seconds, then close the connection."""
        await self.shared.close()
        await self.health.close()
        try:
            with contextlib.suppress(TimeoutError):
                # Nothing can be cleared away on an agent that has stopped working, and trying would take the whole
                # time-out.
                async with asyncio.timeout(0 if self.health.is_broken else seconds):
                    await self._clear()
        finally:
            if self._receiver is not None:
                await self._receiver.close()
            if self._wire is not None:
                await self._wire.close()

    async def _clear(self) -> None:
        # Configurations first: cancelling a task would notify the hooks once more.
        await asyncio.gather(*map(self._find_configs, self.configured_tasks))
        deletions = [
            self.ask("DeleteTaskPushNotificationConfig", {"taskId": task, "id": config})
            for task, config in self.created_configs
        ]
        await asyncio.gather(*deletions)
        # What is known before the rest is looked for: after SIGTERM there is a second only.
        known = await self._cancel_left()
        await self._find_unanswered()
        await self._cancel_left(known)

    async def _cancel_left(self, but: Container[str] = ()) -> set[str]:
        left = {task for task, over in self.created_tasks.items() if not over and task not in but}
        await asyncio.gather(*(self.ask("CancelTask", {"id": task}) for task in left))
        return left

    async def _find_configs(self, task: str) -> None:
        """Learn the ids of the configurations that came with a task's message: the agent gave them."""
        listed = await self.ask("ListTaskPushNotificationConfigs", {"taskId": task})
        self.created_configs |= {(task, id) for id in config_ids(listed.result)} if listed is not None else set()

    async def _find_unanswered(self) -> None:
        """Find the tasks of messages that were not answered in time, by the ids that those were given here."""
        # 0.3 has no ListTasks to find out with; what is left is reported instead.
        if self.target.version == "0.3":
            return
        while self.unanswered:
            looked = time.monotonic()
            # A busy agent may not have begun yet with what was sent last: the slower it is, the later.
            begun = max(self.unanswered.values()) + _BEGUN_SECONDS + self.pace.slowest
            if not await self._look_for_unanswered() or looked >= begun:
                return
            await asyncio.sleep(min(_PAUSE + self.pace.slowest, begun - looked))

    async def _look_for_unanswered(self) -> bool:
        """Look once, and return whether the agent answered: one that does not say is not asked again."""
        token = ""
        for _ in range(_PAGES):
            page = {"pageSize": 100, "historyLength": 20, **({"pageToken": token} if token else {})}
            listed = await self.ask("ListTasks", page)
            result = as_object(listed.result if listed is not None else None)
            for task in as_objects(result.get("tasks")):
                found = message_ids(task) & self.unanswered.keys()
                if found and isinstance(task.get("id"), str):
                    self.created_tasks[task["id"]] = state_of(task) in TERMINAL
                    for name in found:
                        del self.unanswered[name]
            token = str(result.get("nextPageToken") or "")
            if not token:
                return listed is not None and not is_late(listed.exchange)
        return True

    @property
    def left(self) -> str:
        """The objects that may still be on the agent after :meth:`close`; empty if none is known."""
        if not self.unanswered:
            return ""
        # Said, not hidden: on a paid agent a task that still runs costs money.
        asked = count(len(self.unanswered), "message")
        return f"not answered when this ended: {asked} to {self.target}; tasks of theirs may still run"


def _message_id(request: WireRequest) -> str:
    """Return the id of the message that a request sends; empty where it sends none."""
    message = request.params.get("message") if request.operation in SENDING else None
    # Malformed messages are sent on purpose, and may have no id or one that is no text.
    name = as_object(message).get("messageId")
    return name if isinstance(name, str) else ""
