"""An agent on a2a-sdk 0.3.x: bare Messages at even turns, Tasks with artifacts at odd ones. Not for a2a-sdk 1.x."""

from __future__ import annotations

from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TextPart
from a2a.utils import new_agent_text_message, new_task
from peer_brain import Brain, serve


class Executor(AgentExecutor):
    def __init__(self) -> None:
        self.brain = Brain()
        self.count = 0

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.count += 1
        answer = self.brain.answer(context.context_id, context.get_user_input())
        if self.count % 2 == 0:
            await event_queue.enqueue_event(new_agent_text_message(answer, context.context_id, None))
            return
        task = context.current_task or new_task(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work(new_agent_text_message("Thinking...", task.context_id, task.id))
        await updater.add_artifact([Part(root=TextPart(text=answer))], name="answer")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def make_app(url: str) -> Any:
    card = AgentCard(
        name="peer on a2a-sdk 0.3",
        description="Calls one tool, then talks.",
        url=url,
        version="1",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="talk", name="talk", description="Talks.", tags=["test"])],
    )
    handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore())
    return A2AStarletteApplication(agent_card=card, http_handler=handler).build()


if __name__ == "__main__":
    serve(make_app)
