"""The language model that reads answers and recognises refusals, where one is configured."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.errors import A2ABenchError, LLMError
from pytest_a2a_bench.language_models import import_litellm, usage_of
from pytest_a2a_bench.model import Usage

_ATTEMPTS = 3
"""How often an unusable reply (empty, or not the JSON that was asked for) is asked for again."""

_FENCE = re.compile(r"\A\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)


@dataclass
class Judge:
    """One model, and what it cost so far.

    :param args: how to reach the model (``api_base`` ...); it is always asked with temperature 0.
    :param before_call: called before each request; raises to stop the trial.
    """

    model: str
    args: Mapping[str, Any] = field(default_factory=dict)
    before_call: Callable[[], Any] = lambda: None
    usage: Usage = field(default_factory=Usage)

    def ask(self, system: str, user: str) -> str:
        """Return the model's words.

        :raises LLMError: if it fails, or says nothing three times.
        """
        for _ in range(_ATTEMPTS):
            said = self._complete(system, user)
            if said.strip():
                return said
        raise LLMError(f"the judge's model {self.model!r} gave an empty answer {_ATTEMPTS} times")

    def ask_json(self, system: str, user: str, find_problem: Callable[[Any], str]) -> Any:
        """Return the model's reply as JSON.

        :param find_problem: says what is wrong with a reply; an empty string where nothing is.
        :raises LLMError: if it fails, or does not reply as asked three times.
        """
        problem = ""
        for _ in range(_ATTEMPTS):
            said = self._complete(system, user)
            try:
                data = json.loads(unfence(said))
            except (ValueError, RecursionError) as exc:
                problem = f"it is not JSON ({type(exc).__name__})"
                continue
            problem = find_problem(data)
            if not problem:
                return data
        raise LLMError(f"the judge's model {self.model!r} did not answer as asked: {problem}")

    def _complete(self, system: str, user: str) -> str:
        self.before_call()
        litellm = import_litellm("the judge")
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        try:
            response = litellm.completion(
                model=self.model, messages=messages, **{**self.args, "temperature": 0.0, "drop_params": True}
            )
            said = response.choices[0].message.content or ""
        except A2ABenchError:
            raise
        except Exception as exc:
            lines = str(exc).strip().splitlines()
            reason = f"{type(exc).__name__}: {lines[0][:300] if lines else ''}"
            raise LLMError(f"the judge's model {self.model!r} failed: {reason}") from exc
        self.usage = self.usage + usage_of(litellm, response)
        return str(said)


def enclose(what: str, text: str) -> str:
    """Put untrusted text between markers that it cannot hold itself: they are made from all of it."""
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    return f"Below, between two lines with the mark {mark}, is {what}.\n{mark}\n{text}\n{mark}"


def unfence(text: str) -> str:
    """Return the inside of a Markdown code fence, or the text itself."""
    match = _FENCE.match(text)
    return match[1] if match else text
