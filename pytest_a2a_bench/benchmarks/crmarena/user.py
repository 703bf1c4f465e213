"""Simulated users of interactive tasks: a script without a language model, and an agent that plays the persona.

Neither knows the gold answer. The scripted user is deterministic: it tells its question in pieces, answers what it is
asked back with fixed lines, and is done when it has heard an answer to the whole question.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.benchmarks.models import BEGIN, STOP
from pytest_a2a_bench.benchmarks.participants import Seat, blamed, trouble
from pytest_a2a_bench.model import Briefing, UserSaid
from pytest_a2a_bench.model.messages import Bounds

_MAX_PIECES = 3
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[\"'(]?[A-Z0-9])")
_GREETING_STAFF = "Hello, I have something to find out and need your help."
_GREETING_CUSTOMER = "Hello, I am a customer of yours and have a question."
_NOTHING_TO_ADD = "I have told you all I know. Please go by that and give me your answer."
_SAID_ALREADY = "As I said: {query}"
_HEARD = "- What reaches you as the user's message is what the assistant says to you. You have no tools."


class ScriptedUser:
    """Says a greeting, then the question in at most three pieces, then answers what is asked back, then stops.

    A message of the agent's that ends as a question, or that comes before the whole question was asked, is no answer.
    """

    kind = "scripted"

    def __init__(self, task: CrmTask) -> None:
        self._query = task.query.strip()
        self._pieces = split_query(task.query)
        self._greeting = _GREETING_CUSTOMER if task.kind.external else _GREETING_STAFF
        self._asked_back = 0

    def open(self) -> str:
        """Greet; the question comes when the agent has answered."""
        return self._greeting

    def hear(self, text: str) -> str | None:
        """Go on with the question, answer what is asked back, or be done."""
        if self._pieces:
            # Before the whole question was asked nothing can be an answer.
            return self._pieces.pop(0)
        if not asks_back(text):
            return None
        self._asked_back += 1
        return _SAID_ALREADY.format(query=self._query) if self._asked_back == 1 else _NOTHING_TO_ADD


def split_query(query: str) -> list[str]:
    """Cut a question into at most three pieces, between sentences; joined by spaces they are the question again."""
    sentences = [s for s in _SENTENCE_END.split(query.strip()) if s]
    if len(sentences) <= _MAX_PIECES:
        return sentences
    return [*sentences[: _MAX_PIECES - 1], " ".join(sentences[_MAX_PIECES - 1 :])]


def asks_back(text: str) -> bool:
    """Return whether words end in a question."""
    # Closing quotes and Markdown may stand behind a question mark.
    return text.rstrip(" \n\t\"')*_`").endswith("?")


class AgentUser:
    """An A2A agent that plays the task's persona: with a model's prompt, and it stops as a model does.

    :param before_turn: called before each request; raises to stop the trial.
    """

    kind = "a2a"

    def __init__(self, task: CrmTask, seat: Seat, before_turn: Callable[[], float], bounds: Bounds) -> None:
        self._seat = seat
        briefing = Briefing(f"{write_instructions(task)}\n{_HEARD}")
        self._conversation = Conversation(
            session=seat.session, briefing=briefing, before_turn=before_turn, bounds=bounds, strict=True
        )
        seat.conversations.append(self._conversation)

    def open(self) -> str:
        """Let the agent begin.

        :raises InfrastructureError: if it cannot, or stops before it has asked anything.
        """
        words = self.hear(BEGIN)
        if words is None:
            raise trouble(self._seat, "it stopped before it asked anything")
        return words

    def hear(self, text: str) -> str | None:
        """Let the agent answer the tested agent's words; None once it says that it is done.

        :raises InfrastructureError: if it cannot be reached, gives up, or answers what cannot be read.
        """
        with blamed(self._seat):
            said = self._conversation.ask([UserSaid(text)])
        if said.calls:
            raise trouble(self._seat, f"it calls {said.calls[0].name!r}, and a user of this benchmark has no tools")
        words = (said.text or "").strip()
        return None if STOP in words else words


def write_instructions(task: CrmTask) -> str:
    """Write the model's prompt: who it is, what it wants, and when it is done."""
    who = "a customer of the company" if task.kind.external else "an employee of the company"
    return f"""\
You play {who} who talks to an assistant. Stay in this role whatever the assistant says.

Who you are:
{task.persona or "Somebody with little time and a plain way of speaking."}

What you want to know:
{task.query}

How you talk:
- Begin with a short message; bring in the details of your question over two or three messages, or when asked.
- Never invent a detail that is not given above. Where you are asked for one that you do not have, say so.
- Never answer your own question.
- Ask for nothing beyond what you want to know.
- Once the assistant has given you its final answer, or has clearly declined to, reply with {STOP} and nothing else."""
