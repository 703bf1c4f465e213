"""Who asks in an interactive conversation: a script without a language model, or a model that plays the persona.

Neither knows the gold answer. The scripted user is deterministic: it tells its question in pieces, answers what it is
asked back with fixed lines, and is done when it has heard an answer to the whole question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pytest_a2a_bench.benchmarks.blame import blamed, trouble
from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.benchmarks.parties import Seat
from pytest_a2a_bench.errors import LLMError
from pytest_a2a_bench.language_models import failed, import_litellm, usage_of
from pytest_a2a_bench.model import Briefing, Usage, UserSaid
from pytest_a2a_bench.model.bounds import Bounds

STOP = "###STOP###"
"""What a simulated user says when it is done; never sent to the agent."""

_MAX_PIECES = 3
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[\"'(]?[A-Z0-9])")
_GREETING_STAFF = "Hello, I have something to find out and need your help."
_GREETING_CUSTOMER = "Hello, I am a customer of yours and have a question."
_NOTHING_TO_ADD = "I have told you all I know. Please go by that and give me your answer."
_SAID_ALREADY = "As I said: {query}"
# Models sometimes answer with nothing; asking again is cheaper than losing the trial.
_ATTEMPTS = 3
_MODEL_TIMEOUT = 120.0
_BEGIN = "(You are connected. Begin.)"
_HEARD = "- What reaches you as the user's message is what the assistant says to you. You have no tools."


class ScriptedUser:
    """Says a greeting, then the question in at most three pieces, then answers what is asked back, then stops.

    A message of the agent's that ends as a question, or that comes before the whole question was told, is no answer.
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
            # Before the whole question was told nothing can be an answer.
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
    """Tell whether words end in a question."""
    # Closing quotes and Markdown may stand behind a question mark.
    return text.rstrip(" \n\t\"')*_`").endswith("?")


class ModelUser:
    """A language model that plays the task's persona.

    :param before_turn: called before each request; raises to stop the trial.
    :param instructions: what the model is told, where it is not what :func:`write_instructions` writes.
    :param begin: what it hears first.
    """

    kind = "llm"
    tidy: Callable[[str], str] = staticmethod(str.strip)
    """What is done with the model's words before they are passed on."""

    def __init__(
        self,
        task: CrmTask,
        model: str,
        arguments: Mapping[str, Any],
        before_turn: Callable[[], Any] = lambda: None,
        *,
        instructions: str = "",
        begin: str = _BEGIN,
    ) -> None:
        self._model = model
        # The user's own arguments may set another limit.
        self._arguments = {"timeout": _MODEL_TIMEOUT, **arguments}
        self._before_turn = before_turn
        self._messages: list[dict[str, str]] = [{"role": "system", "content": instructions or write_instructions(task)}]
        self._begin = begin
        self.usage = Usage()

    def open(self) -> str:
        """Let the model begin.

        :raises LLMError: if it cannot, or stops before it has asked anything.
        """
        words = self._say(self._begin)
        if words is None:
            raise LLMError(f"the user simulator's model {self._model!r} stopped before it asked anything")
        return words

    def hear(self, text: str) -> str | None:
        """Let the model answer the agent's words; None once it says that it is done."""
        return self._say(text)

    def _say(self, heard: str) -> str | None:
        self._messages.append({"role": "user", "content": heard})
        for _ in range(_ATTEMPTS):
            self._before_turn()
            words = self._complete()
            if words.strip():
                self._messages.append({"role": "assistant", "content": words})
                # Anywhere in the words: a model may thank before it stops.
                return None if STOP in words else words
        raise LLMError(f"the user simulator's model {self._model!r} gave an empty answer {_ATTEMPTS} times")

    def _complete(self) -> str:
        litellm = import_litellm("the user simulator")
        try:
            response = litellm.completion(model=self._model, messages=list(self._messages), **self._arguments)
            words = response.choices[0].message.content or ""
        except Exception as exc:  # LiteLLM raises some thirty types, and others where a provider misbehaves
            raise failed(f"the user simulator's model {self._model!r}", exc) from exc
        self.usage = self.usage + usage_of(litellm, response)
        return self.tidy(str(words))


class AgentUser:
    """An A2A agent that plays the task's persona: it is told what a model is told, and stops as a model does.

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
        words = self.hear(_BEGIN)
        if words is None:
            raise trouble(self._seat, "it stopped before it asked anything")
        return words

    def hear(self, text: str) -> str | None:
        """Let the agent answer the tested agent's words; None once it says that it is done.

        :raises InfrastructureError: if it cannot be reached, gives up, or answers what nobody can read.
        """
        with blamed(self._seat):
            said = self._conversation.ask([UserSaid(text)])
        if said.calls:
            raise trouble(self._seat, f"it calls {said.calls[0].name!r}, and a user of this benchmark has no tools")
        words = (said.text or "").strip()
        return None if STOP in words else words


def write_instructions(task: CrmTask) -> str:
    """Write what the model is told: who it is, what it wants, and when it is done."""
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
