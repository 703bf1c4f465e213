"""An agent on agno's AgentOS with its A2A interface; its model is a script."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.os import AgentOS
from peer_brain import serve


class ScriptedModel(Model):
    def invoke(self, messages: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        return ModelResponse(role="assistant", content=f"You said: {messages[-1].content}")

    async def ainvoke(self, messages: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        return self.invoke(messages)

    def invoke_stream(self, messages: Any, *args: Any, **kwargs: Any) -> Iterator[ModelResponse]:
        yield self.invoke(messages)

    async def ainvoke_stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[ModelResponse]:
        yield self.invoke(messages)

    def _parse_provider_response(self, response: Any, **kwargs: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


def make_app(url: str) -> Any:
    agent = Agent(id="peer", name="peer", description="Talks.", model=ScriptedModel(id="scripted"), telemetry=False)
    return AgentOS(agents=[agent], a2a_interface=True, telemetry=False).get_app()


if __name__ == "__main__":
    os.environ["AGNO_TELEMETRY"] = "false"
    serve(make_app, "/a2a/agents/peer/.well-known/agent-card.json")
