"""An agent on strands' A2AServer, whose model is a script: no key, no network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from peer_brain import Brain, serve
from strands import Agent
from strands.models.model import Model
from strands.multiagent.a2a import A2AServer


class ScriptedModel(Model):
    """Answers by the brain; strands gives it the whole conversation each time."""

    def update_config(self, **model_config: Any) -> None:
        """Nothing can be configured."""

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, output_model: Any, prompt: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[dict[str, Any]]:
        heard = [
            "\n".join(block["text"] for block in message["content"] if "text" in block)
            for message in messages
            if message["role"] == "user"
        ]
        brain = Brain()
        answer = [brain.answer("", text) for text in heard][-1]
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": answer}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def make_agent(context_id: str) -> Agent:
    return Agent(model=ScriptedModel(), name="peer", description="Talks.", callback_handler=None)


def make_app(url: str) -> Any:
    server = A2AServer(agent_factory=make_agent, http_url=url, enable_a2a_compliant_streaming=True)
    return server.to_starlette_app()


if __name__ == "__main__":
    serve(make_app)
