"""An agent on CrewAI, whose model is a script, served as its A2A utilities say: by a2a-sdk 0.3."""

from __future__ import annotations

import os
from typing import Any

os.environ["CREWAI_DISABLE_TELEMETRY"] = os.environ["OTEL_SDK_DISABLED"] = "true"

from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from crewai import Agent, BaseLLM
from crewai.a2a import A2AServerConfig
from crewai.a2a.utils.task import cancel, execute
from peer_brain import serve


class ScriptedLLM(BaseLLM):
    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        return "I now can give a great answer\nFinal Answer: That is what was said."


class Executor(AgentExecutor):
    def __init__(self, url: str) -> None:
        self.url = url

    async def execute(self, context: Any, event_queue: Any) -> None:
        # One agent answers one message at a time, and raises for a second one.
        await execute(make_agent(self.url), context, event_queue)

    async def cancel(self, context: Any, event_queue: Any) -> None:
        await cancel(context, event_queue)


def make_agent(url: str) -> Agent:
    llm = ScriptedLLM(model="scripted")
    return Agent(role="peer", goal="Talk.", backstory="You talk.", llm=llm, a2a=A2AServerConfig(url=url))


def make_app(url: str) -> Any:
    handler = DefaultRequestHandler(agent_executor=Executor(url), task_store=InMemoryTaskStore())
    return A2AStarletteApplication(agent_card=make_agent(url).to_agent_card(url), http_handler=handler).build()


if __name__ == "__main__":
    serve(make_app)
