"""An ADK agent on to_a2a whose tools are those of the MCP server that its conversation names; its model is a script."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
from google.genai import types
from native_script import next_step
from peer_brain import serve

_SERVERS = re.compile(r"<mcp_server>\n(.*?)\n</mcp_server>", re.DOTALL)


class TrialTools(BaseToolset):
    """The tools of a conversation: an agent has one set of tools, and each conversation another server."""

    def __init__(self) -> None:
        super().__init__()
        self._toolsets: dict[str, McpToolset] = {}

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[Any]:
        if readonly_context is None:  # asked for its card, before any conversation
            return []
        texts = [
            part.text
            for event in readonly_context.session.events
            for part in (event.content.parts or [] if event.content else [])
            if part.text
        ]
        named = next(filter(None, map(_SERVERS.search, texts)), None)
        if named is None:
            return []
        (server,) = json.loads(named[1])["mcpServers"].values()
        if server["url"] not in self._toolsets:
            connection = StreamableHTTPConnectionParams(url=server["url"], headers=server["headers"])
            self._toolsets[server["url"]] = McpToolset(connection_params=connection)
        return await self._toolsets[server["url"]].get_tools(readonly_context)

    async def close(self) -> None:
        for toolset in self._toolsets.values():
            await toolset.close()


class ScriptedLlm(BaseLlm):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        contents = llm_request.contents
        parts = [part for content in contents for part in content.parts or []]
        results = sum(part.function_response is not None for part in parts)
        messages = sum(
            content.role == "user" and any(part.text for part in content.parts or []) for content in contents
        )
        step = next_step(results, messages)
        if isinstance(step, str):
            part = types.Part(text=step)
        else:
            assert step["name"] in llm_request.tools_dict
            part = types.Part(function_call=types.FunctionCall(name=step["name"], args=step["arguments"]))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def make_app(url: str) -> Any:
    agent = LlmAgent(
        name="native",
        model=ScriptedLlm(model="scripted"),
        instruction="Help.",
        description="Helps.",
        tools=[TrialTools()],
    )
    parts = urllib.parse.urlsplit(url)
    return to_a2a(agent, host=parts.hostname or "", port=parts.port or 0)


if __name__ == "__main__":
    serve(make_app)
