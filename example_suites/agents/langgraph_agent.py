"""A LangGraph agent behind a2a-sdk in fifty lines: the graph keeps the conversation. It prints its URL.

OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL say which model: any server with OpenAI's chat completions.
"""

from __future__ import annotations

import os
import socket
from typing import Any

import httpx
import uvicorn
from a2a.helpers import new_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from langchain_core.messages import AIMessage, HumanMessage, convert_to_openai_messages
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from starlette.applications import Starlette


async def think(state: MessagesState) -> dict[str, Any]:
    """Ask the model, with all that was said."""
    async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"], timeout=60) as client:
        answer = await client.post(
            "chat/completions",
            json={
                "model": os.environ.get("OPENAI_MODEL", "gpt-4.1"),
                "messages": convert_to_openai_messages(state["messages"]),
            },
            headers={"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
        )
    return {"messages": [AIMessage(answer.raise_for_status().json()["choices"][0]["message"]["content"])]}


graph = StateGraph(MessagesState).add_node(think).add_edge(START, "think").add_edge("think", END)
compiled = graph.compile(checkpointer=InMemorySaver())


class Agent(AgentExecutor):
    """Runs the graph, in the thread that the conversation is."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message."""
        state = await compiled.ainvoke(
            {"messages": [HumanMessage(context.get_user_input())]}, {"configurable": {"thread_id": context.context_id}}
        )
        said = state["messages"][-1].text
        await event_queue.enqueue_event(new_message([new_text_part(said)], context_id=context.context_id))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing goes on here that could be canceled."""


listener = socket.create_server(("127.0.0.1", 0))
url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
card = AgentCard(
    name="langgraph agent",
    description="Passes on what it is told to a language model.",
    version="1",
    supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
    capabilities=AgentCapabilities(),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[
        AgentSkill(id="talk", name="Talk", description="Talks, and calls tools that it is told about.", tags=["llm"])
    ],
)
handler = DefaultRequestHandler(agent_executor=Agent(), task_store=InMemoryTaskStore(), agent_card=card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
if __name__ == "__main__":
    print(url, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])
