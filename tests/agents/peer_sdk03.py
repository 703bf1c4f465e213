"""An agent on a2a-sdk 0.3.x with all three bindings and push notifications. Not for a2a-sdk 1.x.

It obeys words, and its brain answers the rest. With ``plain`` it has JSON-RPC alone, without push notifications, and
its brain answers in bare Messages at even turns, in Tasks at odd ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import httpx
from a2a.grpc import a2a_pb2_grpc
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    DataPart,
    FilePart,
    FileWithBytes,
    Part,
    TextPart,
)
from a2a.utils import new_agent_text_message, new_task
from peer_brain import Brain, free_port, serve

PARTS = {
    "data": Part(root=DataPart(data={"a": 1})),
    "file": Part(root=FilePart(file=FileWithBytes(bytes="eA==", mime_type="text/plain", name="x.txt"))),
}

IS_PLAIN = "plain" in sys.argv


class Executor(AgentExecutor):
    def __init__(self) -> None:
        self.brain = Brain()
        self.count = 0

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        word, _, argument = context.get_user_input().partition(" ")
        if word not in ("echo", "task", "slow", *PARTS):
            self.count += 1
            word = "echo" if IS_PLAIN and self.count % 2 == 0 else "task"
            argument = self.brain.answer(context.context_id, context.get_user_input())
        if word == "echo":
            await event_queue.enqueue_event(new_agent_text_message(argument, context.context_id, None))
            return
        task = context.current_task or new_task(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if word == "slow":
            await asyncio.sleep(2)
        await updater.add_artifact([PARTS.get(word, Part(root=TextPart(text=argument or word)))])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def make_app(url: str) -> Any:
    root = url.rstrip("/")
    rpc = f"127.0.0.1:{free_port()}"
    more = [AgentInterface(transport="HTTP+JSON", url=f"{root}/rest"), AgentInterface(transport="GRPC", url=rpc)]
    card = AgentCard(
        name="full peer on a2a-sdk 0.3",
        description="Obeys words.",
        url=root,
        version="1",
        preferred_transport="JSONRPC",
        additional_interfaces=[AgentInterface(transport="JSONRPC", url=root), *([] if IS_PLAIN else more)],
        capabilities=AgentCapabilities(streaming=True, push_notifications=not IS_PLAIN),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="obey", name="obey", description="Obeys.", tags=["test"])],
    )
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Executor(),
        task_store=InMemoryTaskStore(),
        push_config_store=None if IS_PLAIN else configs,
        push_sender=None if IS_PLAIN else BasePushNotificationSender(httpx.AsyncClient(), configs),
    )

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        server = grpc.aio.server()
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(card, handler), server)
        server.add_insecure_port(rpc)
        await server.start()
        yield
        await server.stop(grace=0.2)

    app = A2AStarletteApplication(agent_card=card, http_handler=handler).build(lifespan=lifespan)
    app.mount("/rest", A2ARESTFastAPIApplication(agent_card=card, http_handler=handler).build())
    return app


if __name__ == "__main__":
    serve(make_app)
