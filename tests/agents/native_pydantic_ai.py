"""A pydantic-ai agent that takes its tools from the MCP server that the first message names; its model is a script."""

from __future__ import annotations

from typing import Any

from native_script import next_step, serve_answers
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    parts = [part for message in messages for part in message.parts]
    results = sum(isinstance(part, ToolReturnPart) for part in parts)
    step = next_step(results, sum(isinstance(part, UserPromptPart) for part in parts))
    if isinstance(step, str):
        return ModelResponse(parts=[TextPart(step)])
    assert step["name"] in {tool.name for tool in info.function_tools}
    return ModelResponse(parts=[ToolCallPart(step["name"], step["arguments"])])


HELD: dict[str, tuple[Any, list[ModelMessage]]] = {}


async def answer(context_id: str, text: str, servers: dict[str, Any] | None) -> str:
    if servers is not None:
        (server,) = servers.values()
        toolset = MCPToolset(server["url"], headers=server["headers"])
        HELD[context_id] = (Agent(FunctionModel(scripted), toolsets=[toolset]), [])
    agent, history = HELD[context_id]
    result = await agent.run(text, message_history=history)
    HELD[context_id] = (agent, result.all_messages())
    return result.output


if __name__ == "__main__":
    serve_answers(answer)
