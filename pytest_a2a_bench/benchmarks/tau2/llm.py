"""tau2's uses of a language model: its user simulator, and the judge of natural-language assertions; and errors of a
model that plays the user did that no user does: facts from structure, each with its turn.

None of the facts proves whose fault a miss is, which :mod:`pytest_a2a_bench.benchmarks.tau2.evaluate` does.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from pytest_a2a_bench import dialects
from pytest_a2a_bench.benchmarks.models import ModelJudge, by_majority, reach_of, read_results
from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2
from pytest_a2a_bench.benchmarks.tau2.user import device
from pytest_a2a_bench.benchmarks.tau2.user.scenario import identifiers
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, JudgeMissingError, LLMError
from pytest_a2a_bench.language_models import failed, import_litellm, usage_of
from pytest_a2a_bench.model import Part, ToolSpec, TrialKey, Turn, Usage, UserFault
from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS
from pytest_a2a_bench.text import one_line

TOKENS = re.compile("###STOP###|###TRANSFER###|###OUT-OF-SCOPE###")
"""The words with which tau2's users end a conversation."""

_ALMOST = re.compile(r"[#*<\[({]+ *(?:STOP|TRANSFER|OUT[- _]OF[- _]SCOPE) *[#*>\])}]+", re.I)
_SPEAKER = re.compile(r"^[^\w\n]{0,3}(?:assistant|agent)[^\w\n]{0,3}:", re.I | re.M)
_SHORT = 40
"""Most characters of an agent's text that a user may repeat by chance."""
_SPOKEN_FREELY = ("date",)
"""Kinds of identifiers that a user may say by itself."""


def defects(text: str, tools: Sequence[ToolSpec], heard: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield kind and evidence of the errors of one message of the user, whatever its scenario.

    :param tools: the tools of both sides.
    :param heard: the agent's messages.
    """
    if _SPEAKER.search(text) or any(len(said) > _SHORT and said in text for said in heard):
        yield "spoke_as_agent", text
    calls = dialects.get("auto").decode_reply([Part.of_text(text)], tools, DEFAULT_BOUNDS).calls
    if calls:
        yield "calls_as_text", f"{calls[0].name} in {text}"
    if not TOKENS.search(text) and (almost := _ALMOST.search(text)):
        yield "misspelt_stop", almost[0]


def find(
    turns: Sequence[Turn], given: str, user_tools: Sequence[ToolSpec], tools: Sequence[ToolSpec]
) -> list[UserFault]:
    """Return the user's errors in a conversation, each kind of each turn once.

    :param given: all instructions of the user.
    :param user_tools: the user's own tools; ``tools`` the agent's.
    """
    found: list[UserFault] = []
    known, heard, asked = given.lower(), [], ""
    for number, turn in enumerate(turns):
        if turn.role != "user":
            if turn.role == "agent" or turn.requestor == "user":
                known += f"\n{(turn.text or '').lower()}"
            if turn.role == "agent" and turn.text:
                heard.append(turn.text.strip())
            asked = turn.text or "" if turn.role == "agent" else ""
            continue
        text = turn.text or ""
        of_turn = list(defects(text, [*user_tools, *tools], heard))
        for kind, values in identifiers(text).items():
            unknown = [v for v in values if _is_id(kind, v) and v.lower().lstrip("#") not in known]
            of_turn += [("unknown_id", ", ".join(unknown))] if unknown else []
        if user_tools and asked and not turn.calls and "?" not in text and not TOKENS.search(text):
            acts = device.instructed(asked, [tool.name for tool in user_tools])
            of_turn += [("no_call", f"asked for {acts[0].name}, it said {text!r}")] if acts else []
        found += [UserFault(kind, one_line(evidence, 300), number) for kind, evidence in of_turn]
        known += f"\n{text.lower()}"
    return found


class Guard:
    """Asks the user's model again for a defective message, and holds a stop that is glued to words back one turn.

    :param tools: the tools of both sides.
    :ivar again: messages that were asked for again; ``held_back`` stops that were delayed by one turn.
    """

    REMINDER = (
        "You are the customer. Your last answer cannot be used: it spoke as the agent, refused, wrote a tool call as "
        "text or misspelt the stop token. Answer again as the customer, in plain words."
    )

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.again = self.held_back = 0
        self._tools = tools
        self._has_just_delayed = False

    def refuses(self, text: str, raw: Mapping[str, Any], heard: Sequence[str]) -> bool:
        """Return whether a message is to be asked for again.

        :param raw: the model's answer.
        :param heard: the agent's messages.
        """
        defective = any(defects(text, self._tools, heard)) or any(m.kind == "refusal" for m in marks(raw))
        self.again += defective
        return defective

    def without_stop(self, text: str) -> str:
        """Return the words that are delivered in the place of a message whose stop is held back; empty for none."""
        words = TOKENS.sub(" ", text).strip() if TOKENS.search(text) and not self._has_just_delayed else ""
        self._has_just_delayed = bool(words)
        self.held_back += bool(words)
        return words

    def facts(self) -> Iterator[UserFault]:
        """Yield its errors."""
        for kind, many in (("asked_again", self.again), ("stop_held_back", self.held_back)):
            if many:
                yield UserFault(kind, f"{many} times")


def _is_id(kind: str, value: str) -> bool:
    # Words in capital letters look like reservations.
    return kind not in _SPOKEN_FREELY and any(map(str.isdigit, value))


def marks(raw: Mapping[str, Any]) -> Iterator[UserFault]:
    """Yield what its provider marks in an answer of the model that plays the user: a refusal, words that are cut off.

    :param raw: one of the choices of a chat completion, or the whole.
    """
    choice = (raw.get("choices") or [raw])[0]
    message = choice.get("message") or {}
    said = message.get("refusal")
    if said or choice.get("finish_reason") == "content_filter":
        yield UserFault("refusal", one_line(str(said or "content_filter"), 300))
    if choice.get("finish_reason") == "length":
        yield UserFault("cut_off", one_line(str(message.get("content") or ""), 300))


_ATTEMPTS = 3
"""How often the user's model is asked where its answer is empty."""


def make_llm_user(
    tau2: Tau2,
    task: Any,
    tools: list[Any] | None,
    model: str,
    args: Mapping[str, Any],
    before_turn: Callable[[], Any],
    style: str = "",
    guard: Guard | None = None,
) -> Any:
    """Make tau2's own user simulator with the user's model.

    :param before_turn: called before each request; raises to stop the trial.
    :param style: added to its instructions.
    :param guard: looks at its messages before they are said.
    """
    return _user_class(tau2.user_simulator)(
        before_turn,
        guard,
        lambda text: tau2.messages.SystemMessage(role="system", content=text),
        tools=tools,
        instructions=f"{task.user_scenario}{style}",
        llm=model,
        llm_args=dict(args),
    )


class _Asking(threading.local):
    """The user whose model this thread asks."""

    user: Any = None


_asking = _Asking()


def _metered(get_response_cost: Callable[[Any], float]) -> Callable[[Any], float]:
    """Add what an answer cost to its user's, also where tau2 or we drop the answer and ask again."""

    @functools.wraps(get_response_cost)
    def metered(response: Any) -> float:
        # For tau2, a model without a price is free.
        cost = get_response_cost(response)
        if _asking.user is not None:
            _asking.user.usage += usage_of(import_litellm("the user simulator"), response)
        return cost

    return metered


@functools.cache
def _user_class(base: Any) -> Any:
    # Patched once for all trials of the process; tau2 calls it for each answer.
    module = importlib.import_module("tau2.utils.llm_utils")
    module.get_response_cost = _metered(module.get_response_cost)  # type: ignore[attr-defined]

    class LLMUser(base):  # type: ignore[misc]
        """tau2's user simulator, with its model's errors kept apart from all others.

        :ivar facts: its model's returns that were no words.
        :ivar usage: of all answers of its model.
        """

        def __init__(self, before_turn: Callable[[], Any], guard: Guard | None, reminder: Any, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.usage = Usage()
            self._before_turn = before_turn
            self._empty = 0
            self._marks: list[UserFault] = []
            self._guard = guard
            self._reminder = reminder

        @property
        def facts(self) -> Iterator[UserFault]:
            if self._empty:
                yield UserFault("empty", f"{self._empty} times")
            yield from dict.fromkeys(self._marks)
            yield from self._guard.facts() if self._guard is not None else ()

        def generate_next_message(self, message: Any, state: Any) -> Any:
            if self._guard is None:
                return self._answer(message, state)
            before = len(state.messages)
            answer, state = self._answer(message, state)
            heard = [m.content for m in state.messages if m.role == "assistant" and m.content]
            if not answer.is_tool_call() and self._guard.refuses(answer.content, answer.raw_data or {}, heard):
                del state.messages[before:]
                state.system_messages.append(self._reminder(Guard.REMINDER))
                answer, state = self._answer(message, state)
                state.system_messages.pop()
            if not answer.is_tool_call() and (words := self._guard.without_stop(answer.content)):
                # In its memory, too: it has not stopped.
                answer = state.messages[-1] = answer.model_copy(update={"content": words})
            return answer, state

        def _answer(self, message: Any, state: Any) -> Any:
            before = len(state.messages)
            for _ in range(_ATTEMPTS):
                self._before_turn()
                answer = self._generate(message, state)
                if answer[0].is_tool_call() or answer[0].has_text_content():
                    self._marks += marks(answer[0].raw_data or {})
                    return answer
                self._empty += 1
                # Without the empty answer, which the model would see as its own.
                del state.messages[before:]
            raise LLMError(f"the user simulator's model {self.llm!r} gave an empty answer {_ATTEMPTS} times")

        def _generate(self, message: Any, state: Any) -> Any:
            _asking.user = self
            try:
                return super().generate_next_message(message, state)
            # A trial that was cancelled is no trouble of the model's.
            except A2ABenchError:
                raise
            except Exception as exc:
                raise failed(f"the user simulator's model {self.llm!r}", exc) from exc
            finally:
                _asking.user = None

    return LLMUser


def user_arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments for the user's model: temperature 0 unless the settings say otherwise."""
    return {"temperature": 0.0, **settings.user_llm_args}


# --- the judge ---


class _Judging(threading.local):
    """The judge of the evaluation that runs in this thread: others judge at the same time."""

    judge: ModelJudge
    times = 1
    assertions: list[str]


_judging = _Judging()
_LOCK = threading.Lock()


@contextlib.contextmanager
def judging(tau2: Tau2, key: TrialKey, settings: Settings) -> Iterator[ModelJudge]:
    """Let tau2's evaluator ask the judge's model in this thread, inside the block; give the judge.

    Upstream writes the question. It takes the results that there are for all that were asked for, and
    ``{"results": []}`` for success, so that the answer is read by :mod:`pytest_a2a_bench.benchmarks.models`.

    :raises JudgeMissingError: if none is configured.
    """
    require_judge(key, settings)
    with _LOCK:
        # The module is patched once for all trials of the process.
        if tau2.nl_assertions_module.generate is not _ask:
            tau2.nl_assertions_module.generate = _ask
            evaluator = tau2.nl_assertions_module.NLAssertionsEvaluator
            evaluator.calculate_reward = staticmethod(_remembering(evaluator.calculate_reward))
    _judging.judge = ModelJudge(str(settings.judge_llm), reach_of(settings))
    _judging.times = settings.judge_times
    yield _judging.judge


def require_judge(key: TrialKey, settings: Settings) -> None:
    """Check that there is a model that judges; raises JudgeMissingError if none is configured."""
    if settings.judge_llm is None:
        raise JudgeMissingError(
            f"{key.task_key} is judged by a language model (its reward basis has NL_ASSERTION) "
            "and none is configured; pass --a2a-judge-llm MODEL"
        )


def _remembering(calculate_reward: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the assertions for :func:`_ask`, which upstream calls in the same thread."""

    @functools.wraps(calculate_reward)
    def remembering(task: Any, full_trajectory: Any) -> Any:
        criteria = task.evaluation_criteria
        _judging.assertions = (criteria and criteria.nl_assertions) or []
        return calculate_reward(task, full_trajectory)

    return remembering


def _ask(model: str, messages: list[Any], **_: Any) -> Any:
    """Answer in the place of tau2's ``generate``: with a result for each assertion."""
    system, user = (message.content for message in messages)
    expected = _judging.assertions
    results = by_majority(
        _judging.times, lambda: _judging.judge.ask(system, user, lambda answer: read_results(answer, expected))
    )
    found = [
        {"expectedOutcome": assertion, "reasoning": result.reasoning, "metExpectation": result.met}
        for assertion, result in zip(expected, results, strict=True)
    ]
    return SimpleNamespace(content=json.dumps({"results": found}))
