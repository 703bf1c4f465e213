"""What the agents have in common that call tools natively: their script, and how they are served over A2A.

The first argument is a script, ``{"calls": [{"name", "arguments"}], "text"}``: after a conversation's first message
their model makes the calls, one after the other, and then says the text; to everything else it says ``Bye``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

SCRIPT = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {"calls": [], "text": ""}


def next_step(results: int, messages: int) -> dict[str, Any] | str:
    """Return the next call, or what is said once there are no more.

    :param results: how many results of calls the model has seen in the whole conversation.
    :param messages: how many messages of the other side.
    """
    if messages == 1 and results < len(SCRIPT["calls"]):
        return SCRIPT["calls"][results]
    return SCRIPT["text"] if messages == 1 else "Bye."


def serve_answers(answer: Callable[[str, str, dict[str, Any] | None], Awaitable[str]]) -> None:
    """Serve ``answer(context id, text, MCP servers as the message's data part names them)`` with a2a-sdk's server."""
    from a2a.helpers import new_message, new_text_part
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore
    from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
    from google.protobuf.json_format import MessageToDict
    from peer_brain import serve
    from starlette.applications import Starlette

    class Executor(AgentExecutor):
        async def execute(self, context: Any, event_queue: Any) -> None:
            data = [MessageToDict(p.data) for p in context.message.parts if p.WhichOneof("content") == "data"]
            servers = next((d["mcpServers"] for d in data if "mcpServers" in d), None)
            text = await answer(context.context_id, context.get_user_input(), servers)
            await event_queue.enqueue_event(new_message([new_text_part(text)], context_id=context.context_id))

        async def cancel(self, context: Any, event_queue: Any) -> None:
            raise NotImplementedError

    def make_app(url: str) -> Any:
        card = AgentCard(
            name="native",
            description="Calls tools natively.",
            version="1",
            supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
            capabilities=AgentCapabilities(streaming=False),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="talk", name="Talk", description="Talks.", tags=["talk"])],
        )
        handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card)
        return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])

    serve(make_app)
