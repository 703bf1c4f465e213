"""A client that asks an agent and answers its questions, on a2a-sdk."""

from __future__ import annotations

import uuid

from a2a.client import ClientConfig, create_client
from a2a.types import Message, Part, Role, SendMessageRequest, StreamResponse, Task, TaskState


async def ask(url: str, text: str, *, streaming: bool = False) -> Task:
    """Send a text, answer the agent's question with its last word, and return the task."""
    client = await create_client(url, client_config=ClientConfig(streaming=streaming))
    try:
        task = Task()
        while True:
            message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)])
            message.task_id, message.context_id = task.id, task.context_id
            async for event in client.send_message(SendMessageRequest(message=message)):
                task = _follow(task, event)
            if task.status.state != TaskState.TASK_STATE_INPUT_REQUIRED:
                return task
            text = task.status.message.parts[0].text.split()[-1].rstrip(".")
    finally:
        await client.close()


def _follow(task: Task, event: StreamResponse) -> Task:
    if event.HasField("task"):
        return event.task
    if event.HasField("status_update"):
        task.status.CopyFrom(event.status_update.status)
    return task
