"""The built-in agent ``llm`` with a model that says what a test wants: one agent for all, it takes seconds to start."""

import functools
import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlencode

from fake_llm import FakeLLM, Step, status


class AgentsModel:
    """The model behind the agent; each test gives it other lines."""

    def __init__(self) -> None:
        self._answer: Callable[[dict[str, Any]], Step] = lambda request: status(500)
        self.llm = FakeLLM(lambda request: self._answer(request))

    @property
    def spec(self) -> str:
        """How the agent is named whose model this is."""
        arguments = json.dumps({"num_retries": 0, "temperature": 0.25})
        return "llm?" + urlencode({"model": "openai/scripted", "api_base": self.llm.api_base, "llm_args": arguments})

    def play(self, lines: Iterable[Step] | Callable[[dict[str, Any]], Step]) -> FakeLLM:
        """Let the model say these lines in order, or what a function says to each request; forget earlier requests."""
        rest = iter(() if callable(lines) else lines)
        self._answer = lines if callable(lines) else lambda request: next(rest, status(500))
        self.llm.requests.clear()
        return self.llm


def as_user(llm: FakeLLM) -> dict[str, Any]:
    """Return the settings with which a model plays the user, and is asked once only."""
    args = {"api_base": llm.api_base, "api_key": "test", "num_retries": 0}
    return {"user": "llm:openai/fake", "user_llm_args": args}


@functools.cache
def agents_model() -> AgentsModel:
    return AgentsModel()
