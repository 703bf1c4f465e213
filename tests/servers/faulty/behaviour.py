"""What the agent does, by the first word of what it is told: the scenarios that conformance checks ask for."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

from faulty.fault import Json
from faulty.store import TERMINAL_STATES, Record, new_id, now

# The signature of a PNG and some bytes: enough to be told apart from text.
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(16))).decode()
FILE_URL = "https://example.com/report.png"
# Together with the step of 0.2 s less than a second, so that hundreds of mutation tests end.
SLOW_STEPS = 4
WORDS = ("slow", "input", "auth", "reject", "fail", "file", "url", "data", "chunks", "message", "crash", "json")


class CrashError(Exception):
    """The agent itself breaks, because it was asked to."""


class Worker:
    """Moves one task on.

    :param set_status: changes the status and tells everybody.
    :param step: seconds that each of the :data:`SLOW_STEPS` steps of slow work takes.
    :param switches: the fault's switches.
    """

    def __init__(
        self, record: Record, number: Callable[[], int], step: float, switches: frozenset[str] = frozenset()
    ) -> None:
        self._record = record
        self._number = number
        self._step = step
        self._switches = switches

    def status(self, state: str, text: str = "", *, silent: bool = False) -> None:
        """Change the status and tell everybody, unless silent (a fault)."""
        record = self._record
        # A state that has ended stays (section 4.1.3), except for the fault that breaks this.
        if record.state in TERMINAL_STATES and "zombie" not in self._switches:
            return
        status: Json = {"state": state, "timestamp": now()}
        if text:
            status["message"] = agent_message([{"text": text}], record.task["contextId"], record.task["id"])
        record.task["status"] = status
        # Counted on, as lists are sorted by the time of their status.
        record.number = self._number()
        if not silent:
            record.emit({"statusUpdate": {**self._ids(), "status": status}})

    def artifact(
        self, artifact_id: str, parts: list[Json], *, append: bool = False, last: bool = True, name: str = ""
    ) -> None:
        """Add to the artifacts and tell everybody."""
        task = self._record.task
        if self._record.state in TERMINAL_STATES and not self._switches & {"zombie", "artifact-after-cancel"}:
            return
        made: Json = {"artifactId": artifact_id, "parts": parts, **({"name": name} if name else {})}
        kept = next((a for a in task.setdefault("artifacts", []) if a["artifactId"] == artifact_id), None)
        if append and kept:
            kept["parts"] = [*kept["parts"], *parts]
        else:
            task["artifacts"] = [*task["artifacts"], made]
        self._record.emit({"artifactUpdate": {**self._ids(), "artifact": made, "append": append, "lastChunk": last}})

    def _ids(self) -> Json:
        return {"taskId": self._record.task["id"], "contextId": self._record.task["contextId"]}

    async def run(self, word: str, parts: list[Json], modes: list[str], *, resumed: bool) -> None:
        """Work on one message."""
        self.status("TASK_STATE_WORKING")
        # A follow-up of a waiting task is an answer, whatever word it begins with.
        act: Callable[[], Awaitable[None]] | None = None if resumed else getattr(self, f"_{word}", None)
        if act is None:
            self.artifact(new_id(), answer_parts(parts, modes), name="answer")
            self.status("TASK_STATE_COMPLETED")
            return
        await act()

    async def _slow(self) -> None:
        artifact_id = new_id()
        for index in range(SLOW_STEPS):
            await asyncio.sleep(self._step)
            last = index == SLOW_STEPS - 1
            self.artifact(artifact_id, [{"text": f"step {index + 1}. "}], append=index > 0, last=last)
        self.status("TASK_STATE_COMPLETED")

    async def _chunks(self) -> None:
        artifact_id = new_id()
        for index, text in enumerate(("one ", "two ", "three")):
            self.artifact(artifact_id, [{"text": text}], append=index > 0, last=index == 2)
            # Gives streams their turn between the chunks.
            await asyncio.sleep(0)
        self.status("TASK_STATE_COMPLETED")

    async def _input(self) -> None:
        self.status("TASK_STATE_INPUT_REQUIRED", "Which one?")

    async def _auth(self) -> None:
        self.status("TASK_STATE_AUTH_REQUIRED", "" if "auth-silent" in self._switches else "Please log in first.")

    async def _reject(self) -> None:
        self.status("TASK_STATE_REJECTED", "That is not what I do.")

    async def _fail(self) -> None:
        self.status("TASK_STATE_FAILED", "It did not work.")

    async def _crash(self) -> None:
        if "crash-leaks" in self._switches:
            raise CrashError('Traceback (most recent call last):\n  File "agent.py", line 7, in answer\nKeyError: 1')
        self.status("TASK_STATE_FAILED", "The agent failed.")

    async def _file(self) -> None:
        self.artifact(new_id(), [{"raw": PNG, "filename": "report.png", "mediaType": "image/png"}])
        self.status("TASK_STATE_COMPLETED")

    async def _url(self) -> None:
        self.artifact(new_id(), [{"url": FILE_URL, "filename": "report.png", "mediaType": "image/png"}])
        self.status("TASK_STATE_COMPLETED")

    async def _data(self) -> None:
        self.artifact(new_id(), [{"data": {"total": 3, "items": ["a", None]}, "mediaType": "application/json"}])
        self.status("TASK_STATE_COMPLETED")


def agent_message(parts: list[Json], context_id: str, task_id: str = "") -> Json:
    """Return a message of the agent."""
    message: Json = {"messageId": new_id(), "contextId": context_id, "role": "ROLE_AGENT", "parts": parts}
    return {**message, "taskId": task_id} if task_id else message


def answer_parts(parts: list[Json], modes: list[str]) -> list[Json]:
    """Return the answer to a plain message, in the first media type that is wanted and known."""
    said = text_of(parts) or "nothing in words"
    # Only who wants nothing but JSON gets it.
    if modes and not {"text/plain", "text/*", "*/*"} & set(modes) and "application/json" in modes:
        return [{"data": {"heard": said}, "mediaType": "application/json"}]
    return [{"text": f"I heard: {said}", "mediaType": "text/plain"}]


def text_of(parts: Any) -> str:
    """Return the text of a message's parts."""
    if not isinstance(parts, list):
        return ""
    return " ".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def first_word(parts: Any) -> str:
    """Return the scenario that a message asks for, or an empty string."""
    word = text_of(parts).strip().partition(" ")[0].lower()
    return word if word in WORDS else ""
