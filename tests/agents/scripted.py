"""A real a2a-sdk agent that does what a message's first word says, over every binding and both protocol versions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.helpers import new_data_part, new_message, new_task, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    TaskState,
    TaskStatus,
    a2a_pb2_grpc,
)
from google.protobuf.json_format import MessageToDict
from in_thread import served_in_thread
from starlette.applications import Starlette

from pytest_a2a_bench.listener import listen
from pytest_a2a_bench.quiet_server import serving


@dataclass
class ScriptedExecutor(AgentExecutor):
    """Obeys ``WORD ARGUMENT`` messages; keeps what it received."""

    received: list[dict[str, Any]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        self.received.append(MessageToDict(context.message))
        word, _, argument = context.get_user_input().partition(" ")
        if word == "echo":
            await event_queue.enqueue_event(_message(argument, context))
            return
        if word == "count":
            # Twice the same message is two messages: nobody has to tell them apart.
            heard = sum(m.get("contextId") == context.context_id for m in self.received)
            await event_queue.enqueue_event(_message(str(heard), context))
            return
        if word == "crash":
            raise RuntimeError(argument)
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            task.id, task.context_id = str(context.task_id), str(context.context_id)
        else:
            # The stream of a follow-up begins with the task, too (section 3.1.2); one that waits ends a blocking call.
            task.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_WORKING))
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if context.current_task is not None:
            await updater.add_artifact([new_text_part(f"continued: {word} {argument}")], artifact_id="later")
            await updater.complete()
            return
        await updater.start_work(_message("Thinking...", context))
        await getattr(self, f"do_{word}", self.do_task)(updater, argument, context, event_queue)

    async def do_task(self, updater: TaskUpdater, text: str, context: RequestContext, queue: EventQueue) -> None:
        metadata = {"usage": {"input_tokens": 12, "output_tokens": 3, "cost": 0.5}}
        await updater.add_artifact([new_text_part(text)], metadata=metadata)
        await updater.complete()

    async def do_both(self, updater: TaskUpdater, text: str, context: RequestContext, queue: EventQueue) -> None:
        await updater.add_artifact([new_text_part(text)])
        await updater.complete(_message("All done.", context))

    async def do_status(self, updater: TaskUpdater, text: str, context: RequestContext, queue: EventQueue) -> None:
        await updater.complete(_message(text, context))

    async def do_silent(self, updater: TaskUpdater, text: str, context: RequestContext, queue: EventQueue) -> None:
        await updater.complete()

    async def do_data(self, updater: TaskUpdater, text: str, context: RequestContext, queue: EventQueue) -> None:
        await updater.add_artifact([new_data_part(json.loads(text))])
        await updater.complete()

    async def do_file(self, updater: TaskUpdater, text: str, context: RequestContext, queue: EventQueue) -> None:
        await updater.add_artifact([Part(raw=text.encode(), filename="x.txt", media_type="text/plain")])
        await updater.complete()

    async def do_chunks(self, updater: TaskUpdater, text: str, context: RequestContext, queue: EventQueue) -> None:
        chunks = text.split("|")
        for number, chunk in enumerate(chunks, 1):
            last = number == len(chunks)
            await updater.add_artifact([new_text_part(chunk)], artifact_id="one", append=number > 1, last_chunk=last)
        await updater.complete()

    async def do_ask(self, updater: TaskUpdater, text: str, context: RequestContext, queue: EventQueue) -> None:
        await updater.add_artifact([new_text_part("a draft")], artifact_id="draft")
        await updater.requires_input(_message(text, context))

    async def do_auth(self, updater: TaskUpdater, text: str, context: RequestContext, queue: EventQueue) -> None:
        await updater.requires_auth(_message(text, context))

    async def do_fail(self, updater: TaskUpdater, text: str, context: RequestContext, queue: EventQueue) -> None:
        await updater.failed(_message(text, context))

    async def do_reject(self, updater: TaskUpdater, text: str, context: RequestContext, queue: EventQueue) -> None:
        await updater.reject(_message(text, context))

    async def do_slow(self, updater: TaskUpdater, text: str, context: RequestContext, queue: EventQueue) -> None:
        seconds, _, rest = text.partition(" ")
        await asyncio.sleep(float(seconds))
        await self.do_task(updater, rest, context, queue)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.append(str(context.task_id))
        if context.current_task is None:
            await event_queue.enqueue_event(
                new_task(str(context.task_id), str(context.context_id), TaskState.TASK_STATE_SUBMITTED)
            )
        await TaskUpdater(event_queue, str(context.task_id), str(context.context_id)).cancel()


def _message(text: str, context: RequestContext) -> Message:
    return new_message([new_text_part(text)], context_id=context.context_id, task_id=context.task_id)


@dataclass
class Scripted:
    """A running scripted agent."""

    url: str
    executor: ScriptedExecutor
    grpc_port: int = 0


def make_card(url: str, grpc_port: int) -> AgentCard:
    """Return a card that names every binding in both versions."""
    addresses = {"JSONRPC": url, "HTTP+JSON": f"{url}/rest", "GRPC": f"127.0.0.1:{grpc_port}"}
    interfaces = [
        AgentInterface(url=address, protocol_binding=binding, protocol_version=version)
        for version in ("1.0", "0.3")
        for binding, address in addresses.items()
    ]
    return AgentCard(
        name="scripted",
        description="Does what a message's first word says.",
        version="1",
        supported_interfaces=interfaces,
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="obey", name="obey", description="Obeys.", tags=["test"])],
    )


@contextlib.asynccontextmanager
async def _serving() -> AsyncIterator[Scripted]:
    executor = ScriptedExecutor()
    listener = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    grpc_server = grpc.aio.server()
    grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
    card = make_card(url, grpc_port)
    handler = DefaultRequestHandler(agent_executor=executor, task_store=InMemoryTaskStore(), agent_card=card)
    add: Sequence[Any] = (
        a2a_pb2_grpc.add_A2AServiceServicer_to_server,
        a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server,
    )
    add[0](GrpcHandler(handler), grpc_server)
    add[1](CompatGrpcHandler(handler), grpc_server)
    await grpc_server.start()
    routes = [
        *create_agent_card_routes(card),
        *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True),
        *create_rest_routes(handler, enable_v0_3_compat=True, path_prefix="/rest"),
    ]
    async with serving(Starlette(routes=routes), listener, log_level="critical"):
        yield Scripted(url, executor, grpc_port)
        await grpc_server.stop(grace=0.2)


def scripted_agent() -> AbstractContextManager[Scripted]:
    """Serve a scripted agent on ephemeral ports, in a thread with its own event loop."""
    return served_in_thread(_serving)


if __name__ == "__main__":
    with scripted_agent() as served:
        print(served.url, flush=True)
        threading.Event().wait()
