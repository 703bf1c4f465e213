"""The vocabulary of checks: one definition each of asking, of skipping, and of judging an answer."""

from __future__ import annotations

import asyncio
import dataclasses
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_a2a_bench.a2a.messages import SETTLED
from pytest_a2a_bench.conformance.expecting import Verdicts
from pytest_a2a_bench.conformance.protocol.operations import STREAMING, to_v03_params
from pytest_a2a_bench.conformance.protocol.payloads import state_of
from pytest_a2a_bench.conformance.session import states
from pytest_a2a_bench.conformance.wire.base import UNSET, WireRequest
from pytest_a2a_bench.conformance.wire.reply import WireReply

if TYPE_CHECKING:
    pass

T = TypeVar("T")

ATTEMPTS = 3
"""How often something that depends on time is tried before an agent is blamed: the machine may have been busy."""
_POLL_SECONDS = 0.05
_WAIT_SECONDS = 15.0


@dataclass(slots=True)
class Context(Verdicts):
    """What a check works with: one requirement, one interface, and what has been found so far.

    :param known_id: of a task of this agent's, for a cell whose unknown ids are like known ones.
    """

    known_id: str = ""

    # -- what is judged --

    @property
    def binding(self) -> str:
        """Its binding."""
        return self.session.target.binding

    @property
    def version(self) -> str:
        """Its protocol version."""
        return self.session.target.version

    def sibling(self, binding: str, version: str | None = None) -> Context | None:
        """Return the same check on another interface of the agent, or None; findings are shared."""
        other = self.session.sibling(binding, version or self.version)
        return dataclasses.replace(self, session=other) if other is not None else None

    def siblings(self) -> list[Context]:
        """Return this check on every interface of the same version, this one included."""
        others = (self.sibling(b) for b, v in self.target.interfaces if v == self.version)
        return [c for c in others if c is not None]

    def plain(self) -> Context:
        """Return the same check outside of any cell: to prepare what is judged in one."""
        return dataclasses.replace(self, cell=None) if self.cell is not None else self

    # -- asking --

    async def call(
        self,
        operation: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        version_header: Any = UNSET,
        body: Any = UNSET,
        rpc_id: Any = UNSET,
        stream: bool | None = None,
        timeout: float | None = None,
        until: Callable[[Any], bool] | None = None,
        on_event: Callable[[Any], None] | None = None,
        query: Mapping[str, str] | None = None,
        http_method: str = "",
        path: str | None = None,
        auth: bool = True,
        spell: bool = True,
    ) -> WireReply:
        """Ask the agent; never raises for what it answers.

        :param params: in the form of 1.0; spelled as 0.3 on an interface of 0.3 unless ``spell`` is False.
        :param version_header: by default the interface's version (nothing for 0.3); None leaves it out.
        :param body: sent instead of what would be sent.
        :param stream: by default what the operation is.
        :param until: stops reading a stream after the first event for which it is true.
        :param path: HTTP bindings: asks this path below the interface's URL with ``http_method``.
        :raises SkipCheck: if the binding has no form for the request.
        """
        params = dict(params or {})
        if self.cell is not None:
            operation, asked = self.cell.asked(operation, params)
            params = dict(asked)
        if spell and self.version == "0.3":
            params = to_v03_params(operation, params, self.binding)
        request = WireRequest(
            operation=operation,
            params=params,
            headers={**self.target.extension_headers, **(headers or {})},
            version_header=self._version(version_header),
            body=body,
            rpc_id=rpc_id,
            stream=operation in STREAMING if stream is None else stream,
            timeout=timeout or self.target.timeout,
            until=until,
            on_event=on_event,
            query=query or {},
            http_method=http_method,
            path=path,
            auth=auth,
        )
        reply = await self.session.call(request)
        self.replies.append(reply)
        # What is asked without credentials, in another version or in no proper form need not be served.
        if reply.is_breakdown and auth and body is UNSET and version_header is UNSET:
            self.unjudged.append(reply)
        return reply

    def _version(self, given: Any) -> str | None:
        if given is UNSET:
            return None if self.version == "0.3" else self.version
        return None if given is None else str(given)

    def message(self, text: str | None = None, **fields: Any) -> dict[str, Any]:
        """Return a user message in the form of 1.0; ``fields`` are added, or replace what is there."""
        text = text if text is not None else self.target.scenarios.get("task")
        return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **fields}

    def send_params(
        self,
        text: str | None = None,
        *,
        task_id: str = "",
        context_id: str = "",
        configuration: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Return parameters of SendMessage in the form of 1.0."""
        if task_id:
            fields["taskId"] = task_id
        if context_id:
            fields["contextId"] = context_id
        if configuration is None and self.version == "0.3":
            # There the default is not to wait for the task.
            configuration = {"returnImmediately": False}
        params: dict[str, Any] = {"message": self.message(text, **fields)}
        return {**params, "configuration": dict(configuration)} if configuration is not None else params

    async def send(self, text: str | None = None, **options: Any) -> WireReply:
        """Send a message (see :meth:`send_params`) and return the answer."""
        return await self.call("SendMessage", self.send_params(text, **options))

    async def stream(self, text: str | None = None, *, timeout: float | None = None, **options: Any) -> WireReply:
        """Send a message (see :meth:`send_params`) and read the stream that answers it."""
        return await self.call("SendStreamingMessage", self.send_params(text, **options), timeout=timeout)

    async def get_task(self, task_id: str, **params: Any) -> WireReply:
        """Ask for a task."""
        return await self.call("GetTask", {"id": task_id, **params})

    async def start_task(self, text: str, **configuration: Any) -> Mapping[str, Any]:
        """Start a task that runs on, and return it; skip where it is over at once."""
        reply = await self.plain().send(text, configuration={"returnImmediately": True, **configuration})
        task = self.task_of(reply, "starting a slow task", "SEND-004" if self.version != "0.3" else "")
        if state_of(task) in SETTLED:
            self.skip(f"the task of the slow scenario was {state_of(task)} at once, so nothing could be watched")
        return task

    async def wait_for_task(self, task_id: str, *, seconds: float = _WAIT_SECONDS) -> WireReply:
        """Poll a task until it is terminal or waits for the user, or the time is up; return the last answer."""
        until = time.monotonic() + await self.allow(seconds)
        while True:
            reply = await self.get_task(task_id)
            if not reply.ok or state_of(reply.result) not in states.RUNNING or time.monotonic() > until:
                return reply
            await asyncio.sleep(_POLL_SECONDS)

    def unknown_id(self) -> str:
        """Return an id that the agent cannot know."""
        if self.cell is not None and self.cell.near and self.known_id:
            return self.cell.unknown(self.known_id)
        return str(uuid.uuid4())

    async def allow(self, seconds: float) -> float:
        """Return how long something may take here and now that a prompt agent does within some seconds.

        Every limit of time that an agent is blamed by goes through this: see :class:`.session.pace.Pace`.
        """
        return await self.session.pace.allow(seconds)

    # -- shared objects, made once for all checks of the interface --

    async def slow_seconds(self) -> float:
        """Return how long the agent takes for the scenario ``slow``; measured once."""
        text = self.prompt("slow")
        reply = await self.shared("slow", lambda: self.send(text))
        return self.needed(reply, "the scenario slow").exchange.seconds

    async def completed_task(self) -> Mapping[str, Any]:
        """Return a terminal task that the agent made for the ``task`` prompt; shared, so it must not be changed."""
        if self.cell is not None and self.cell.state:
            return await states.task_of(self, self.cell.state)
        return await self.session.shared.completed_task(self.plain())

    async def message_reply(self) -> Mapping[str, Any]:
        """Return a direct message of the agent (``message`` prompt, or the ordinary one if that gives a message)."""
        return await self.session.shared.message_reply(self.plain())

    async def context_with_tasks(self, count: int) -> tuple[str, tuple[Mapping[str, Any], ...]]:
        """Return a contextId and at least ``count`` terminal tasks in it, oldest first; shared."""
        return await self.session.shared.context_with_tasks(self.plain(), count)

    async def said(self, text: str | None = None) -> WireReply:
        """Return the answer to a message of nothing but a text, the ordinary one by default; said once for all."""
        return await self.session.shared.said(self, text)

    async def streamed(self) -> WireReply:
        """Return the stream that answers the ordinary message; asked once for all."""
        return await self.shared("stream", self.stream)

    async def samples(self) -> tuple[WireReply, ...]:
        """Return ordinary answers of several operations, to look at their form; shared."""
        if self.cell is not None and self.cell.state:
            return await states.samples_in(self, self.cell.state)
        return await self.session.shared.samples(self.plain())

    async def shared(self, key: Any, make: Callable[[], Awaitable[T]]) -> T:
        """Make something once for all checks of this interface; ``key`` names it."""
        # What is asked in place of something else is something else.
        instead = self.cell.operation if self.cell is not None else ""
        return await self.session.shared.once(("shared", key, instead), make)

    def created(self, task_id: str) -> None:
        """Remember a task, so that it is cancelled at the end should it still run (sent ones are remembered)."""
        self.session.created_tasks[task_id] = False

    def created_push_config(self, task_id: str, config_id: str) -> None:
        """Remember a push configuration, so that it is deleted at the end."""
        self.session.created_configs.add((task_id, config_id))
