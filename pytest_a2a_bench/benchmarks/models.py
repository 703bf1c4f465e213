"""Language models that play a user, from a benchmark's instructions, and that judge a conversation.

What a judge is given of others is marked as material. Its values are found tolerantly (``json_repair``), but a verdict
is never guessed: each expected outcome needs a result of its own that says true or false, and an answer that cannot be
used is asked for once more.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self, TypeVar

from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, ConfigurationError, LLMError, MissingExtraError
from pytest_a2a_bench.language_models import failed, find_model_problem, import_litellm, usage_of
from pytest_a2a_bench.model import Usage
from pytest_a2a_bench.text import one_line

STOP = "###STOP###"
"""A simulated user's word when it is done; never sent to the agent."""

BEGIN = "(You are connected. Begin.)"
# Models sometimes answer with nothing; asking again is cheaper than losing the trial.
_ATTEMPTS = 3
_MODEL_TIMEOUT = 120.0


class ModelUser:
    """A language model in a role.

    :param instructions: its person and request, and that it says :data:`STOP` when it is done.
    :param before_turn: called before each request; raises to stop the trial.
    :param begin: its first message.
    :param tidy: changes its words before they are passed on.
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
        """Let the model begin; raises LLMError if it cannot, or stops before it has asked anything."""
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


_MET = "metexpectation"

_NUMBER = ("number", "index", "id", "position")
"""Members of a result that may hold the number of its expected outcome."""

_LISTED = re.compile(r"\A\W*(\d+)\s*(?:[.):\]-]|\Z)\s*")
"""The number before an expected outcome: ``1. The agent ...``."""


class UnusableAnswerError(ValueError):
    """The problem of a judge's answer, in words with which the judge is asked again."""


@dataclass(frozen=True)
class Result:
    """A judge's result for one expected outcome."""

    met: bool
    reasoning: str


def read_results(text: str, expected: Sequence[str]) -> list[Result]:
    """Return the result of each expected outcome, in their order.

    A result is an object with ``metExpectation``. It belongs to the outcome whose text its ``expectedOutcome`` repeats
    (but for case, spaces and punctuation), or else whose number it gives.

    :raises UnusableAnswerError: unless each expected outcome has exactly one result, and each says true or false.
    """
    value = _parse(text)
    results = list(_objects(value, _MET))
    if len(results) > len(expected) and isinstance(value, list) and _MET not in _plain(value[-1]):
        # Models write drafts before the answer that they mean.
        results = list(_objects(value[-1], _MET))
    if len(results) != len(expected):
        raise UnusableAnswerError(f"it has {len(results)} results for {len(expected)} expected outcomes")
    found: dict[int, Result] = {}
    for result, place in zip(results, _places(results, expected), strict=True):
        if place is None or place in found:
            continue
        met = read_bool(result[_MET])
        if met is None:
            raise UnusableAnswerError("a metExpectation is neither true nor false")
        found[place] = Result(met, str(result.get("reasoning") or ""))
    for place, outcome in enumerate(expected):
        if place not in found:
            raise UnusableAnswerError(
                f'no result has the expectedOutcome "{one_line(outcome, 200)}", which is to be repeated word for word'
            )
    return [found[place] for place in range(len(expected))]


def by_majority(times: int, judge: Callable[[], list[Result]]) -> list[Result]:
    """Return the majority of several judgements on each expected outcome; its reasoning says how many agreed.

    :param times: an odd number.
    """
    rounds = [judge() for _ in range(times)]
    if times == 1:
        return rounds[0]
    found = []
    for results in zip(*rounds, strict=True):
        met = 2 * sum(result.met for result in results) > times
        agreeing = [result for result in results if result.met == met]
        found.append(Result(met, f"[{len(agreeing)} of {times} judgements] {agreeing[0].reasoning}".strip()))
    return found


_SPREAD = re.compile(r"\[(\d+) of (\d+) judgements\]")


def is_split(detail: str) -> bool | None:
    """Return whether judgements differed, by the reasoning of :func:`by_majority`; None where there was only one."""
    found = _SPREAD.match(detail)
    return None if found is None else found[1] != found[2]


def read_object(text: str, member: str) -> Mapping[str, Any]:
    """Return the last object that has a member; names of members are in lower case, without separators.

    :raises UnusableAnswerError: if there is none.
    """
    found = list(_objects(_parse(text), member))
    if not found:
        raise UnusableAnswerError(f"it has no {member!r}")
    return found[-1]


def read_bool(value: Any) -> bool | None:
    """Return a truth value that may be written as a text or a number; None for anything else."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return bool(value) if isinstance(value, int) and value in (0, 1) else None


def read_text(text: str) -> str:
    """Return an answer in words; raises UnusableAnswerError if there is none."""
    if not text.strip():
        raise UnusableAnswerError("it is empty")
    return text


def _parse(text: str) -> Any:
    try:
        from json_repair import loads
    except ImportError as error:
        # Not by an extra: that of tau2 would bring another tau2 where upstream's is installed.
        raise ConfigurationError("a judge needs json-repair; run: pip install json-repair") from error
    read_text(text)
    try:
        value = loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableAnswerError("it is not JSON") from error
    if not isinstance(value, dict | list):
        raise UnusableAnswerError("it is not JSON")
    return value


def _objects(value: Any, member: str) -> Iterator[dict[str, Any]]:
    """Yield the innermost objects that have a member."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [each for item in inner for each in _objects(item, member)]
    plain = _plain(value)
    yield from found or ([plain] if member in plain else [])


def _plain(value: Any) -> dict[str, Any]:
    """Return an object with the names of its members in lower case, without separators; nothing of anything else."""
    if not isinstance(value, dict):
        return {}
    return {re.sub(r"[\W_]", "", str(name)).lower(): item for name, item in value.items()}


def _places(results: Sequence[Mapping[str, Any]], expected: Sequence[str]) -> list[int | None]:
    """Return which expected outcome each result is about; None where that is not said."""
    texts = [_words(outcome) for outcome in expected]
    free = list(range(len(expected)))
    places: list[int | None] = []
    numbers: list[int | None] = []
    for result in results:
        said = str(result.get("expectedoutcome") or "")
        listed = _LISTED.match(said)
        wanted = {_words(said), _words(said[listed.end() :] if listed else said)} - {""}
        # Two outcomes may have the same text.
        place = next((place for place in free if texts[place] in wanted), None)
        if place is not None:
            free.remove(place)
        places.append(place)
        given = [result.get(name) for name in _NUMBER] + [listed[1] if listed else None]
        numbers.append(
            next((int(n) for n in given if isinstance(n, int) or (isinstance(n, str) and n.isdigit())), None)
        )
    first = 0 if 0 in numbers else 1
    for position, number in enumerate(numbers):
        if places[position] is None and number is not None and number - first in free:
            places[position] = number - first
            free.remove(number - first)
    return places


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


T = TypeVar("T")

_REACHING = ("api_base", "base_url", "api_version", "custom_llm_provider", "timeout", "_skip_mcp_handler")
"""Arguments of the user's model that say where it is reached, and the judge's with it."""

_SHOWN = 300
"""How many characters of an answer that is no verdict are shown."""


class Answer(NamedTuple):
    """A judge's answer, and whether it was cut off at the length limit."""

    text: str
    cut_off: bool

    @classmethod
    def of(cls, choice: Mapping[str, Any]) -> Self:
        """Read one of the choices of a chat completion."""
        message = choice.get("message") or {}
        # Some servers put the whole answer of a model that reasons beside the content; a refusal stands there, too.
        said = (str(message.get(name) or "") for name in ("content", "reasoning_content", "refusal"))
        return cls(next(filter(str.strip, said), ""), choice.get("finish_reason") == "length")


@dataclass
class ModelJudge:
    """One model, and its cost so far.

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
        """Return the model's answer as read; see :func:`ask_until_read`."""
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
    """Return a judge's answer as read; an unreadable one is asked for once more, with the reason.

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
