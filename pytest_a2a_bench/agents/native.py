"""Call a trial's tools from a built-in agent with the official MCP client. Needs ``mcp``."""

from __future__ import annotations

import contextlib
import functools
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent

from pytest_a2a_bench.agents.brain import Brain, BrainError, BrainReply, Conversation
from pytest_a2a_bench.model import AgentSaid, ToolAccess, ToolCall, ToolReturned, ToolSpec
from pytest_a2a_bench.model.messages import add_known
from pytest_a2a_bench.tool_door import OVER_META

_SECONDS = 300.0
_FAREWELL = AgentSaid("The conversation is over.")


async def reply_natively(brain: Brain, conversation: Conversation, access: ToolAccess) -> BrainReply:
    """Answer a message as a brain does, whose calls are made until it says something.

    :raises BrainError: if the tools cannot be reached.
    """
    try:
        async with _connect(access) as client:
            return await _think(brain, conversation, client)
    except* (httpx2.HTTPError, MCPError, OSError) as errors:
        raise BrainError(f"the tools at {access.url} cannot be called: {_first(errors)}") from errors


@functools.cache
def _trusted() -> ssl.SSLContext:
    # Reading all authorities takes longer than a conversation's calls do.
    return ssl.create_default_context()


@contextlib.asynccontextmanager
async def _connect(access: ToolAccess) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=access.headers, timeout=_SECONDS, verify=_trusted()) as http,
        Client(streamable_http_client(access.url, http_client=http)) as client,
    ):
        yield client


async def _think(brain: Brain, conversation: Conversation, client: Client) -> BrainReply:
    briefing = conversation.briefing
    if briefing is not None and not briefing.tools:
        listed = (await client.list_tools()).tools
        tools = tuple(ToolSpec(tool.name, tool.description or "", tool.input_schema) for tool in listed)
        conversation.briefing = replace(briefing, tools=tools)
    reply = await brain.reply(conversation)
    spent = reply.usage
    while reply.said.calls:
        conversation.say(reply.said)
        for call in reply.said.calls:
            result, is_over = await _call(client, call)
            conversation.history.append(result)
            if is_over:
                return BrainReply(_FAREWELL, spent)
        reply = await brain.reply(conversation)
        spent = add_known(spent, reply.usage)
    return BrainReply(reply.said, spent)


async def _call(client: Client, call: ToolCall) -> tuple[ToolReturned, bool]:
    result = await client.call_tool(call.name, dict(call.arguments))
    text = "\n".join(part.text for part in result.content if isinstance(part, TextContent))
    return ToolReturned(call.id, call.name, text, result.is_error), bool((result.meta or {}).get(OVER_META))


def _first(errors: BaseExceptionGroup[BaseException]) -> str:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
