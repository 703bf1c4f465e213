"""A real a2a-sdk agent that does what the prefixes of ACTS say, as far as its public tests use them."""

import asyncio
import contextlib
import re
from collections.abc import Iterator

import scripted as served
from a2a.helpers import new_data_part, new_message, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, TaskState

PREFIXES = (
    "tck-artifact-data",
    "tck-artifact-file",
    "tck-artifact-file-url",
    "tck-artifact-text",
    "tck-auth-required",
    "tck-cancel",
    "tck-complete-task",
    "tck-input-required",
    "tck-long-running",
    "tck-message-response",
    "tck-multi-turn",
    "tck-reject-task",
    "tck-stream-basic",
    "tck-stream-chunked",
    "tck-task-failure",
)
BEHAVIORS = 'acts_version: "1.0"\nbehaviors:\n' + "".join(f'  - prefix: "{prefix}"\n' for prefix in PREFIXES)
"""What the agent says that it knows, as the file ``sut-behaviors.yaml``."""

WORK_SECONDS = 3.0
_PREFIX = re.compile(r"tck(?:-[a-z]+)+")


class ActsExecutor(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        said = context.get_user_input()
        task = context.current_task
        first = _text_of(task.history[0]) if task is not None and task.history else said
        match = _PREFIX.match(first)
        prefix = match.group() if match else "tck-complete-task"
        if prefix == "tck-message-response":
            await event_queue.enqueue_event(new_message([new_text_part("hello")], context_id=context.context_id))
            return
        if task is None:
            task = new_task_from_user_message(context.message)
            task.id, task.context_id = str(context.task_id), str(context.context_id)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        await self._work(prefix, said, updater)

    async def _work(self, prefix: str, said: str, updater: TaskUpdater) -> None:
        message = updater.new_agent_message([new_text_part(f"{prefix} it is")])
        ends = {
            "tck-task-failure": TaskState.TASK_STATE_FAILED,
            "tck-reject-task": TaskState.TASK_STATE_REJECTED,
            "tck-auth-required": TaskState.TASK_STATE_AUTH_REQUIRED,
            "tck-input-required": TaskState.TASK_STATE_INPUT_REQUIRED,
        }
        if prefix == "tck-cancel":
            await asyncio.sleep(60)
        if prefix == "tck-long-running":
            await asyncio.sleep(WORK_SECONDS)
        for number, part in enumerate(_parts(prefix)):
            await updater.add_artifact([part], artifact_id="one", append=number > 0)
        end = ends.get(prefix, TaskState.TASK_STATE_COMPLETED)
        if prefix == "tck-multi-turn" and not said.startswith("done"):
            end = TaskState.TASK_STATE_INPUT_REQUIRED
        await updater.update_status(end, message)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, str(context.task_id), str(context.context_id)).cancel()


def _parts(prefix: str) -> list[Part]:
    return {
        "tck-long-running": [new_text_part("worked")],
        "tck-artifact-text": [new_text_part("text")],
        "tck-artifact-data": [new_data_part({"key": "value"})],
        "tck-artifact-file": [Part(raw=b"bytes", filename="a.txt", media_type="text/plain")],
        "tck-artifact-file-url": [Part(url="https://example.com/a.txt", filename="a.txt", media_type="text/plain")],
        "tck-stream-basic": [new_text_part("streamed")],
        "tck-stream-chunked": [new_text_part(word) for word in ("one ", "two ", "three")],
    }.get(prefix, [])


def _text_of(message: Message) -> str:
    return next((part.text for part in message.parts if part.text), "")


@contextlib.contextmanager
def acts_agent(features: served.Features | None = None) -> Iterator[str]:
    with served.full_agent(features, ActsExecutor()) as url:
        yield url
