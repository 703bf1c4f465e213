"""The CRM side of the built-in agents: what they do where the tools are ``execute`` and ``respond``."""

from __future__ import annotations

from pytest_a2a_bench.agents.brain import Conversation, bench_task_key
from pytest_a2a_bench.model import AgentSaid, ToolCall

_TOOLS = frozenset({"execute", "respond"})
_SUITE = "crmarena/"


def is_crm(conversation: Conversation) -> bool:
    """Tell whether a conversation is about a CRM task: by its tools, else by the trial's tag."""
    if conversation.briefing is not None and conversation.briefing.tools:
        return {tool.name for tool in conversation.briefing.tools} == _TOOLS
    return (bench_task_key(conversation.metadata) or "").startswith(_SUITE)


def respond(conversation: Conversation, answer: str) -> AgentSaid:
    """Give an answer."""
    return AgentSaid(calls=(ToolCall("respond", {"answer": answer}, _next_id(conversation)),))


def execute(conversation: Conversation, query: str) -> AgentSaid:
    """Ask the org."""
    return AgentSaid(calls=(ToolCall("execute", {"query": query}, _next_id(conversation)),))


def _next_id(conversation: Conversation) -> str:
    return f"call_{sum(len(said.calls) for said in conversation.own) + 1}"
