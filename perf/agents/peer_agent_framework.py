"""An agent on Microsoft's Agent Framework, served as its A2AExecutor says; its agent is a script."""

from __future__ import annotations

from typing import Any

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from agent_framework import AgentResponse, AgentSession, Message
from agent_framework.a2a import A2AExecutor
from peer_brain import Brain, serve
from starlette.applications import Starlette


class ScriptedAgent:
    id = name = "peer"
    description = "Talks."
    brain = Brain()

    async def run(self, messages: Any = None, *, session: Any = None, **kwargs: Any) -> AgentResponse:
        return AgentResponse(messages=[Message("assistant", [self.brain.answer(session.session_id, str(messages))])])

    def create_session(self, *, session_id: str | None = None) -> AgentSession:
        return AgentSession(session_id=session_id)


def make_app(url: str) -> Any:
    card = AgentCard(
        name="peer on Agent Framework",
        description="Talks.",
        version="1",
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="talk", name="talk", description="Talks.", tags=["test"])],
    )
    handler = DefaultRequestHandler(
        agent_executor=A2AExecutor(ScriptedAgent()), task_store=InMemoryTaskStore(), agent_card=card
    )
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])


if __name__ == "__main__":
    serve(make_app)
