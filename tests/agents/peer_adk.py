"""An agent on google-adk's to_a2a, whose model is a script: no key, no network."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai import types
from peer_brain import Brain, serve


class ScriptedLlm(BaseLlm):
    """Answers by the brain; the length of the request's history tells the turn."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        texts = [
            "\n".join(part.text for part in content.parts or [] if part.text)
            for content in llm_request.contents
            if content.role == "user"
        ]
        # ADK gives a model the whole conversation each time: a new brain hears it all and says its last line.
        brain = Brain()
        answers = [brain.answer("", text) for text in texts]
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=21, candidates_token_count=7)
        content = types.Content(role="model", parts=[types.Part(text=answers[-1])])
        yield LlmResponse(content=content, usage_metadata=usage)


def make_app(url: str) -> Any:
    agent = LlmAgent(name="peer", model=ScriptedLlm(model="scripted"), instruction="Talk.", description="Talks.")
    parts = urllib.parse.urlsplit(url)
    return to_a2a(agent, host=parts.hostname or "", port=parts.port or 0)


if __name__ == "__main__":
    serve(make_app)
