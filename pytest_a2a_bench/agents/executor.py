"""Between the SDK's server and a brain: A2A messages become conversation events, and replies become A2A messages."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import uuid
from collections.abc import Iterable
from typing import Any

from a2a.helpers import new_task
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import Message, Role, Task, TaskState
from a2a.types import Part as WirePart
from a2a.utils.errors import InternalError, InvalidParamsError
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from pytest_a2a_bench import dialects
from pytest_a2a_bench.agents.brain import Brain, BrainError, BrainReply, Conversation, Memory, RefusalError
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.errors import MissingExtraError
from pytest_a2a_bench.model import Part, Usage

CHATTER = "Looking into it ..."


class BrainExecutor(AgentExecutor):
    """Serves one brain over A2A.

    What happens when something goes wrong: a refusal is an A2A task in state ``rejected`` with the reason in its
    status; a brain that cannot think is an internal error of the binding (JSON-RPC -32603, HTTP 500, gRPC INTERNAL), so
    that a client counts it as an infrastructure error and not as a bad answer.
    """

    def __init__(self, brain: Brain, options: AgentOptions) -> None:
        self._brain = brain
        self._options = options
        self._memory = Memory(options.contexts)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message."""
        message = context.message
        if message is None or context.task_id is None or context.context_id is None:
            raise InvalidParamsError(message="a message is needed")
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        as_task = self._options.reply == "task"
        if as_task:
            # The first event of a stream is the task (§3.1.2); what it says while working must not pass for its answer.
            await event_queue.enqueue_event(submitted(message, context.task_id, context.context_id))
            await updater.start_work(updater.new_agent_message([WirePart(text=CHATTER)]))
        try:
            conversation, reply = await self._answer(message, context)
        except RefusalError as refusal:
            if not as_task:
                await event_queue.enqueue_event(submitted(message, context.task_id, context.context_id))
            await updater.reject(updater.new_agent_message([WirePart(text=str(refusal))]))
            return
        except BrainError as error:
            raise InternalError(message=str(error)) from error
        await self._deliver(conversation, reply, updater, as_task=as_task)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop a task that is still being thought about."""
        if context.task_id and context.context_id:
            await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    async def _answer(self, message: Message, context: RequestContext) -> tuple[Conversation, BrainReply]:
        parts = [read_part(part) for part in message.parts]
        conversation = self._memory.recall(message.context_id)
        if conversation is None:
            conversation = self._memory.open(message.context_id, dialects.detect_request(parts))
        # A client that did not get the answer sends the same id again (§3.3.1), which must not be done twice. Most
        # servers do carry it out twice; dedupe=off behaves like them.
        again = bool(message.message_id) and message.message_id == conversation.last_message_id
        if self._options.dedupe and again and conversation.last_reply:
            return conversation, conversation.last_reply
        await asyncio.sleep(self._options.latency)
        request = dialects.get(self._reading(conversation, parts)).decode_request(parts)
        before = list(conversation.history)
        conversation.hear(request, {**context.metadata, **MessageToDict(message.metadata)})
        try:
            reply = await self._think(conversation)
        except BaseException:
            # A retry must not be processed twice.
            conversation.history = before
            raise
        conversation.say(reply.said)
        conversation.last_message_id, conversation.last_reply = message.message_id, reply
        return conversation, reply

    async def _think(self, conversation: Conversation) -> BrainReply:
        """Have the brain reply, with its calls made already where it can make them by itself."""
        access = conversation.briefing.access if conversation.briefing else None
        if access is None:
            return await self._brain.reply(conversation)
        try:
            from pytest_a2a_bench.agents.native import reply_natively  # needs the extra "mcp"
        except ImportError as error:
            raise BrainError(str(MissingExtraError("the client of MCP", "mcp", detail=str(error)))) from error
        return await reply_natively(self._brain, conversation, access)

    def _reading(self, conversation: Conversation, parts: list[Part]) -> str:
        """Return the dialect in which a request is to be read.

        A client that was answered in another dialect than it wrote writes in that one from then on.
        """
        if not conversation.own or self._options.dialect == "auto":
            return conversation.dialect
        return dialects.detect_request(parts, default=self._options.dialect)

    async def _deliver(
        self, conversation: Conversation, reply: BrainReply, updater: TaskUpdater, *, as_task: bool
    ) -> None:
        answering = conversation.dialect if self._options.dialect == "auto" else self._options.dialect
        parts = [write_part(part) for part in dialects.get(answering).encode_reply(reply.said)]
        metadata = usage_metadata(reply.usage)
        if as_task:
            await updater.add_artifact(parts, name="Action" if reply.said.calls else "Response", last_chunk=True)
            await updater.update_status(TaskState.TASK_STATE_COMPLETED, metadata=metadata)
            return
        await updater.event_queue.enqueue_event(
            Message(
                message_id=uuid.uuid4().hex,
                context_id=updater.context_id,
                role=Role.ROLE_AGENT,
                parts=parts,
                metadata=metadata,
            )
        )


def usage_metadata(usage: Usage | None) -> dict[str, Any] | None:
    """Return the cost that a reply's metadata states, or None."""
    if usage is None:
        return None
    return {"usage": {k: v for k, v in dataclasses.asdict(usage).items() if v is not None}}


def submitted(message: Message, task_id: str, context_id: str) -> Task:
    """Return the task that a message begins; the SDK's own function for it raises where a text is empty."""
    return new_task(task_id, context_id, TaskState.TASK_STATE_SUBMITTED, history=[message])


def read_part(part: WirePart) -> Part:
    """Read a part from the wire."""
    common: dict[str, Any] = {
        "media_type": part.media_type or None,
        "filename": part.filename or None,
        # Where a text has several events in it, its metadata says where each of them begins.
        "metadata": MessageToDict(part.metadata) or None,
    }
    kind = part.WhichOneof("content")
    if kind == "data":
        return Part("data", data=MessageToDict(part.data), **common)
    if kind == "url":
        return Part("url", url=part.url, **common)
    if kind == "raw":
        return Part("raw", raw=base64.b64encode(part.raw).decode(), **common)
    return Part("text", text=part.text, **common)


def write_part(part: Part) -> WirePart:
    """Write a part for the wire. Dialects only ever speak in text and data."""
    if part.kind == "data":
        return WirePart(data=ParseDict(part.data, Value()), media_type=part.media_type or "application/json")
    return WirePart(text=part.text, media_type=part.media_type or "text/plain")


class BoundedTaskStore(InMemoryTaskStore):
    """The SDK's task store, forgetting the oldest A2A tasks, so that a long run does not fill the memory."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._order: dict[str, ServerCallContext] = {}

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Keep a task; drop the oldest beyond the limit."""
        await super().save(task, context)
        self._order.setdefault(task.id, context)
        for task_id, owner in _oldest(self._order, len(self._order) - self._limit):
            del self._order[task_id]
            await self.delete(task_id, owner)


def _oldest(order: dict[str, ServerCallContext], count: int) -> Iterable[tuple[str, ServerCallContext]]:
    return list(order.items())[:count] if count > 0 else ()
