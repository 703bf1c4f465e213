"""An agent on fasta2a, which answers every message with a submitted task that must be polled."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.storage import InMemoryStorage
from peer_brain import Brain, serve


class TalkingWorker(Worker[Any]):
    brain = Brain()

    async def run_task(self, params: Any) -> None:
        await self.storage.update_task(params["id"], state="working")
        # The storage gives the task out itself, not a copy: without a pause it changes while it is being answered.
        await asyncio.sleep(0.02)
        text = "\n".join(p["text"] for p in params["message"]["parts"] if "text" in p)
        answer = self.brain.answer(params["context_id"], text)
        artifact = {"artifact_id": uuid.uuid4().hex, "name": "answer", "parts": [{"text": answer}]}
        await self.storage.update_task(params["id"], state="completed", new_artifacts=[artifact])

    async def cancel_task(self, params: Any) -> None:
        # A worker that raises takes fasta2a down with it: every later request is answered with status 500.
        task = await self.storage.load_task(params["id"])
        if task is not None and task["status"]["state"] in ("submitted", "working"):
            await self.storage.update_task(params["id"], state="canceled")

    def build_message_history(self, history: list[Any]) -> list[Any]:
        return list(history)

    def build_artifacts(self, result: Any) -> list[Any]:
        return [result]


def make_app(url: str) -> Any:
    storage: Any = InMemoryStorage()
    broker = InMemoryBroker()
    worker = TalkingWorker(broker=broker, storage=storage)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastA2A) -> AsyncIterator[None]:
        async with app.task_manager, worker.run():
            yield

    return FastA2A(storage=storage, broker=broker, name="peer on fasta2a", url=url, lifespan=lifespan)


if __name__ == "__main__":
    serve(make_app)
