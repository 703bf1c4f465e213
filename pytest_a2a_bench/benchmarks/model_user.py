"""A language model that plays a user, from instructions that a benchmark writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_a2a_bench.errors import A2ABenchError, LLMError
from pytest_a2a_bench.language_models import failed, import_litellm, usage_of
from pytest_a2a_bench.model import Usage

STOP = "###STOP###"
"""What a simulated user says when it is done; never sent to the agent."""

BEGIN = "(You are connected. Begin.)"
# Models sometimes answer with nothing; asking again is cheaper than losing the trial.
_ATTEMPTS = 3
_MODEL_TIMEOUT = 120.0


class ModelUser:
    """A language model in a role.

    :param instructions: who it is, what it wants, and that it says :data:`STOP` when it is done.
    :param before_turn: called before each request; raises to stop the trial.
    :param begin: its first message.
    :param tidy: what is done with its words before they are passed on.
    """

    kind = "llm"

    def __init__(
        self,
        instructions: str,
        model: str,
        arguments: Mapping[str, Any],
        before_turn: Callable[[], Any] = lambda: None,
        *,
        begin: str = BEGIN,
        tidy: Callable[[str], str] = str.strip,
    ) -> None:
        self._model = model
        # The user's own arguments may set another limit.
        self._arguments = {"timeout": _MODEL_TIMEOUT, **arguments}
        self._before_turn = before_turn
        self._begin, self._tidy = begin, tidy
        self._messages: list[dict[str, str]] = [{"role": "system", "content": instructions}]
        self.usage = Usage()

    def open(self) -> str:
        """Let the model begin.

        :raises LLMError: if it cannot, or stops before it has asked anything.
        """
        words = self.hear(self._begin)
        if words is None:
            raise LLMError(f"the user simulator's model {self._model!r} stopped before it asked anything")
        return words

    def hear(self, text: str) -> str | None:
        """Let the model answer the agent's words; None once it says that it is done."""
        self._messages.append({"role": "user", "content": text})
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
        except A2ABenchError:  # of a function in the model's place
            raise
        except Exception as exc:  # LiteLLM raises some thirty types, and others where a provider misbehaves
            raise failed(f"the user simulator's model {self._model!r}", exc) from exc
        self.usage = self.usage + usage_of(litellm, response)
        return self._tidy(str(words))
