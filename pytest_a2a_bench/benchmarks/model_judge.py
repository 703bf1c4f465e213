"""A language model that judges what was said: what is untrusted is marked, and an unusable answer asked for again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self, TypeVar

from pytest_a2a_bench.benchmarks.verdicts import UnusableAnswerError
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, LLMError, MissingExtraError
from pytest_a2a_bench.language_models import failed, find_model_problem, import_litellm, usage_of
from pytest_a2a_bench.model import Usage
from pytest_a2a_bench.redact import one_line

T = TypeVar("T")

_REACHING = ("api_base", "base_url", "api_version", "custom_llm_provider", "timeout", "_skip_mcp_handler")
"""Arguments of the user's model that say where it is reached, and the judge's with it."""

_SHOWN = 300
"""How many characters of an answer that is no verdict are shown."""


class Answer(NamedTuple):
    """What a judge said, and whether it was cut off at the length limit."""

    text: str
    cut_off: bool

    @classmethod
    def of(cls, choice: Mapping[str, Any]) -> Self:
        """Read one of the choices of a chat completion."""
        message = choice.get("message") or {}
        # Some servers put the whole answer of a model that reasons beside the content.
        text = message.get("content") or message.get("reasoning_content") or ""
        return cls(str(text), choice.get("finish_reason") == "length")


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

    def ask(self, system: str, user: str, read: Callable[[str], T]) -> T:
        """Return what is read of the model's answer; see :func:`ask_until_read`."""
        # The answer of an agent stands in the user message alone, between marks: it is never an instruction.
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return ask_until_read(self.model, self._complete, messages, read)

    def _complete(self, messages: Sequence[Mapping[str, str]]) -> Answer:
        self.before_call()
        litellm = import_litellm("the judge")
        response = litellm.completion(model=self.model, messages=messages, **{**self.args, **self.sampling})
        self.usage = self.usage + usage_of(litellm, response)
        return Answer.of(response.choices[0].model_dump())


def ask_until_read(
    model: str,
    complete: Callable[[Sequence[Mapping[str, str]]], Answer],
    messages: Sequence[Mapping[str, str]],
    read: Callable[[str], T],
) -> T:
    """Return what is read of a judge's answer; one that cannot be read is asked for once more, saying why.

    :param complete: asks the model.
    :raises LLMError: if the model fails, or neither answer can be read.
    """
    said = problem = ""
    asked = list(messages)
    for _ in range(2):
        try:
            said, cut_off = complete(asked)
        except A2ABenchError:  # of a function in the model's place
            raise
        except Exception as exc:
            raise failed(f"the judge's model {model!r}", exc) from exc
        try:
            return read(said)
        except UnusableAnswerError as error:
            problem = f"{error}{' (cut off at the length limit)' * cut_off}"
        if said.strip():
            asked.append({"role": "assistant", "content": said})
        asked.append({"role": "user", "content": f"Your answer cannot be used: {problem}. Answer again, as asked."})
    raise LLMError(
        f"the judge's model {model!r} did not answer as asked, nor when it was asked again: {problem}; it said: "
        f"{one_line(said, _SHOWN) or 'nothing'}"
    )


def enclose(what: str, text: str) -> str:
    """Put untrusted text between markers that it cannot hold itself: they are made from all of it."""
    # A hash of the whole text cannot be written into it beforehand.
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    return f"Below, between two lines with the mark {mark}, is {what}.\n{mark}\n{text}\n{mark}"


def reach_of(settings: Settings) -> dict[str, Any]:
    """Return the arguments of a judge: it is reached where the user's model is, but never sampled as that is."""
    return {key: value for key, value in settings.user_llm_args.items() if key in _REACHING}


def model_problems(settings: Settings) -> Iterator[tuple[Literal["user", "judge"], str]]:
    """Yield the role of each language model that cannot be used, and why: no provider, key, model or server."""
    steady = {"temperature": 0.0}
    try:
        if settings.user_kind == "llm" and settings.user_llm is not None:
            if problem := find_model_problem(settings.user_llm, steady | settings.user_llm_args):
                yield "user", problem
        if settings.judge_llm is not None:
            if problem := find_model_problem(settings.judge_llm, steady | reach_of(settings)):
                yield "judge", problem
    except MissingExtraError as error:
        yield "user" if settings.user_kind == "llm" else "judge", str(error)
