"""A language model that judges what was said: asked again where its reply is no use, and told what is untrusted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_a2a_bench.errors import A2ABenchError, LLMError
from pytest_a2a_bench.language_models import failed, import_litellm, unfence, usage_of
from pytest_a2a_bench.model import Usage
from pytest_a2a_bench.settings import Settings

_REACHING = ("api_base", "base_url", "api_version", "custom_llm_provider", "timeout")
"""Arguments of the user's model that say where it is reached, and the judge's with it."""

_ATTEMPTS = 3
"""How often an unusable reply (empty, or not the JSON that was asked for) is asked for again."""


@dataclass
class ModelJudge:
    """One model, and what it cost so far.

    :param args: how to reach the model (``api_base`` ...).
    :param before_call: called before each request; raises to stop the trial.
    """

    model: str
    args: Mapping[str, Any] = field(default_factory=dict)
    before_call: Callable[[], Any] = lambda: None
    usage: Usage = field(default_factory=Usage)

    @property
    def sampling(self) -> Mapping[str, Any]:
        """How it is asked: as steadily as a model can be."""
        # drop_params, as some models refuse a temperature.
        return {"temperature": 0.0, "drop_params": True}

    def ask(self, system: str, user: str) -> str:
        """Return the model's words.

        :raises LLMError: if it fails, or says nothing three times.
        """
        # An empty reply is a hiccup of the model's more often than a judgement.
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
        # The answer of an agent stands in the user message alone, between marks: it is never an instruction.
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        try:
            response = litellm.completion(model=self.model, messages=messages, **{**self.args, **self.sampling})
            said = response.choices[0].message.content or ""
        except A2ABenchError:
            raise
        except Exception as exc:
            raise failed(f"the judge's model {self.model!r}", exc) from exc
        self.usage = self.usage + usage_of(litellm, response)
        return str(said)


def enclose(what: str, text: str) -> str:
    """Put untrusted text between markers that it cannot hold itself: they are made from all of it."""
    # A hash of the whole text cannot be written into it beforehand.
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    return f"Below, between two lines with the mark {mark}, is {what}.\n{mark}\n{text}\n{mark}"


def reach_of(settings: Settings) -> dict[str, Any]:
    """Return the arguments of a judge: it is reached where the user's model is, but never sampled as that is."""
    return {key: value for key, value in settings.user_llm_args.items() if key in _REACHING}
