"""An agent on BeeAI's A2AServer, which serves by itself; what it runs is a script."""

from __future__ import annotations

from typing import Any

from beeai_framework.adapters.a2a import A2AServer, A2AServerConfig
from beeai_framework.backend import AssistantMessage
from beeai_framework.emitter import Emitter
from beeai_framework.runnable import Runnable, RunnableOutput, runnable_entry
from beeai_framework.serve.utils import UnlimitedMemoryManager
from peer_alone import serve_itself


class Talker(Runnable):
    @runnable_entry
    async def run(self, input: list[Any], /, **kwargs: Any) -> RunnableOutput:
        return RunnableOutput(output=[AssistantMessage(f"You said: {input[-1].text}")])

    @property
    def emitter(self) -> Emitter:
        return Emitter.root().child(namespace=["peer"])


def run(host: str, port: int) -> None:
    config = A2AServerConfig(host=host, port=port)
    server = A2AServer(config=config, memory_manager=UnlimitedMemoryManager())
    server.register(Talker(), name="peer on BeeAI", description="Talks.", url=f"http://{host}:{port}").serve()


if __name__ == "__main__":
    serve_itself(run)
