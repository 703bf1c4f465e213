"""A Pydantic AI agent, served by fasta2a's bridge; its model is a function."""

from __future__ import annotations

import warnings
from typing import Any

from fasta2a import Skill
from fasta2a.pydantic_ai import agent_to_a2a
from peer_brain import serve
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel


def answer(messages: Any, info: Any) -> ModelResponse:
    return ModelResponse(parts=[TextPart(f"You said: {messages[-1].parts[-1].content}")])


def make_app(url: str) -> Any:
    skill = Skill(id="talk", name="talk", description="Talks.", tags=["test"])
    agent = Agent(FunctionModel(answer), name="peer")
    return agent_to_a2a(agent, url=url, description="Talks.", skills=[skill])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    serve(make_app)
