"""A LangGraph agent that takes its tools from the MCP server that the first message names; its model is a script."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from native_script import next_step, serve_answers


class ScriptedModel(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        results = sum(isinstance(m, ToolMessage) for m in messages)
        step = next_step(results, sum(isinstance(m, HumanMessage) for m in messages))
        if isinstance(step, str):
            message = AIMessage(step)
        else:
            call = {"name": step["name"], "args": step["arguments"], "id": f"c{results}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


AGENTS: dict[str, Any] = {}


async def answer(context_id: str, text: str, servers: dict[str, Any] | None) -> str:
    if servers is not None:
        client = MultiServerMCPClient(
            {
                name: {"transport": "streamable_http", "url": server["url"], "headers": server["headers"]}
                for name, server in servers.items()
            }
        )
        AGENTS[context_id] = create_react_agent(ScriptedModel(), await client.get_tools(), checkpointer=InMemorySaver())
    state = await AGENTS[context_id].ainvoke(
        {"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": context_id}}
    )
    return state["messages"][-1].text


if __name__ == "__main__":
    serve_answers(answer)
