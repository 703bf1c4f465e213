"""Where a language model comes in: tau2's own user simulator, and the judge of natural-language assertions.

What tau2 asks models, and what they answer, is stored with the result: our tests give the answers to tau2's own user
simulator again, and what that asks must be what was asked here. Histories grow by a message a turn and
are asked with each time, so parts of requests are stored once.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pytest_a2a_bench.benchmarks.models import Answer, ask_until_read, by_majority, reach_of, read_results
from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2
from pytest_a2a_bench.benchmarks.tau2.user.facts import Guard
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, JudgeMissingError, LLMError
from pytest_a2a_bench.language_models import failed
from pytest_a2a_bench.model import TrialKey, Usage

_ATTEMPTS = 3
"""How often the user's model is asked where its answer is empty."""

# tau2 keeps its judge's model in globals of a module, which all trials of a process share.
_JUDGE_LOCK = threading.Lock()


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


@functools.cache
def _user_class(base: Any) -> Any:
    class LLMUser(base):  # type: ignore[misc]
        """tau2's user simulator, with its model's errors kept apart from all others."""

        def __init__(self, before_turn: Callable[[], Any], guard: Guard | None, reminder: Any, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self._before_turn = before_turn
            self.empty = 0
            self.guard = guard
            self._reminder = reminder

        def generate_next_message(self, message: Any, state: Any) -> Any:
            if self.guard is None:
                return self._answer(message, state)
            before = len(state.messages)
            answer, state = self._answer(message, state)
            heard = [m.content for m in state.messages if m.role == "assistant" and m.content]
            if not answer.is_tool_call() and self.guard.refuses(answer.content, answer.raw_data or {}, heard):
                del state.messages[before:]
                state.system_messages.append(self._reminder(Guard.REMINDER))
                answer, state = self._answer(message, state)
                state.system_messages.pop()
            if not answer.is_tool_call() and (words := self.guard.without_stop(answer.content)):
                # In its memory, too: it has not stopped.
                answer = state.messages[-1] = answer.model_copy(update={"content": words})
            return answer, state

        def _answer(self, message: Any, state: Any) -> Any:
            before, asked = len(state.messages), len(kept().calls)
            for _ in range(_ATTEMPTS):
                self._before_turn()
                answer = self._generate(message, state)
                if answer[0].is_tool_call() or answer[0].has_text_content():
                    return answer
                self.empty += 1
                # Without the empty answer, which the model would see as its own.
                del state.messages[before:]
                kept().keep_only(asked)
            raise LLMError(f"the user simulator's model {self.llm!r} gave an empty answer {_ATTEMPTS} times")

        def _generate(self, message: Any, state: Any) -> Any:
            try:
                return super().generate_next_message(message, state)
            # A trial that was cancelled is no trouble of the model's.
            except A2ABenchError:
                raise
            except Exception as exc:
                raise failed(f"the user simulator's model {self.llm!r}", exc) from exc

    return LLMUser


def prepare_judge(tau2: Tau2, key: TrialKey, settings: Settings) -> None:
    """Set the model that judges in tau2.

    :raises JudgeMissingError: if none is configured.
    """
    if settings.judge_llm is None:
        raise JudgeMissingError(
            f"{key.task_key} is judged by a language model (its reward basis has NL_ASSERTION) "
            "and none is configured; pass --a2a-judge-llm MODEL"
        )
    configure_judge(tau2, settings.judge_llm, judge_arguments(settings), settings.judge_times)


def judge_arguments(settings: Settings) -> dict[str, Any]:
    """Return what the judge's model is called with."""
    return {"temperature": 0.0, **reach_of(settings)}


def user_arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments for the user's model: temperature 0 unless the settings say otherwise."""
    return {"temperature": 0.0, **settings.user_llm_args}


def configure_judge(tau2: Tau2, model: str, args: Mapping[str, Any], times: int = 1) -> None:
    """Let tau2's judge use a model, and refuse answers of the judge that do not answer.

    Upstream asks and parses; between these its judge's answer is read by :mod:`pytest_a2a_bench.benchmarks.models`.
    Upstream itself takes the results that there are for all that were asked for, and ``{"results": []}`` for success.
    """
    module = tau2.nl_assertions_module
    _listen()
    with _JUDGE_LOCK:
        module.DEFAULT_LLM_NL_ASSERTIONS = model
        module.DEFAULT_LLM_NL_ASSERTIONS_ARGS = dict(args)
        module.a2a_bench_judge_times = times
        # The module is patched once for all trials of the process.
        if not hasattr(module.generate, "_a2a_bench_judge"):
            module.generate = _complete_judge(module.generate, lambda: int(module.a2a_bench_judge_times))
            evaluator = module.NLAssertionsEvaluator
            evaluator.calculate_reward = staticmethod(_remembering(evaluator.calculate_reward))


_COUNTER = threading.local()


@contextlib.contextmanager
def counting_judge(spent: list[Usage]) -> Iterator[None]:
    """Collect what the judge costs in this thread; it answers in the thread that evaluates."""
    # In this thread: other trials judge at the same time.
    _COUNTER.spent = spent
    try:
        yield
    finally:
        _COUNTER.spent = None


def _remembering(calculate_reward: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the assertions for :func:`_complete_judge`, which upstream calls in the same thread."""

    @functools.wraps(calculate_reward)
    def remembering(task: Any, full_trajectory: Any) -> Any:
        criteria = task.evaluation_criteria
        _IN_THREAD.assertions = (criteria and criteria.nl_assertions) or []
        return calculate_reward(task, full_trajectory)

    return remembering


def _complete_judge(generate: Callable[..., Any], times: Callable[[], int]) -> Callable[..., Any]:
    """Let the function with which upstream's judge asks its model return a result for each assertion."""

    @functools.wraps(generate)
    def complete(model: str, messages: list[Any], **args: Any) -> Any:
        assertions: list[str] = _IN_THREAD.assertions
        calls, before = kept().calls, len(kept().calls)
        said: Any = None

        def ask(asked: Sequence[Mapping[str, str]]) -> Answer:
            nonlocal said
            kinds = {message.role: type(message) for message in (*messages, said) if message is not None}
            again = [kinds[message["role"]](**message) for message in asked[len(messages) :]]
            # Where an answer is empty, tau2 asks again in the same words; the judge is asked again with what was wrong.
            _IN_THREAD.retries_are_ours = "num_retries" not in args
            try:
                said = generate(model=model, messages=[*messages, *again], **{"num_retries": 0, **args})
            finally:
                _IN_THREAD.retries_are_ours = False
            spent: list[Usage] | None = getattr(_COUNTER, "spent", None)
            if spent is not None:
                used = said.usage or {}
                spent.append(Usage(used.get("prompt_tokens"), used.get("completion_tokens"), said.cost))
            raw = said.raw_data or {}
            return Answer.of((raw.get("choices") or [raw])[0])

        plain = [{"role": message.role, "content": message.content} for message in messages]
        results = by_majority(
            times(), lambda: ask_until_read(model, ask, plain, lambda answer: read_results(answer, assertions))
        )
        said.content = json.dumps(
            {
                "results": [
                    {"expectedOutcome": assertion, "reasoning": result.reasoning, "metExpectation": result.met}
                    for assertion, result in zip(assertions, results, strict=True)
                ]
            }
        )
        # Kept as if upstream's one request had been answered so: played back into upstream, anything else would differ.
        for call in calls[before : before + 1]:
            call["answer"]["choices"][0]["message"]["content"] = said.content
        del calls[before + 1 :]
        return said

    complete._a2a_bench_judge = True  # type: ignore[attr-defined]
    return complete


_SHARED = ("messages", "tools")
"""Members of a request whose items it shares with others."""

_IN_THREAD = threading.local()
_LOCK = threading.Lock()


class ModelCalls:
    """The calls of one model in one trial, in order.

    :ivar calls: ``request`` (what ``litellm.completion`` is called with) and ``answer`` of each.
    """

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def keep_only(self, many: int) -> None:
        """Forget an answer that is not used: the request is made again."""
        del self.calls[many:]

    def to_json(self) -> dict[str, Any]:
        """Return the stored form; see :func:`read_calls`."""
        parts: dict[str, int] = {}

        def place(part: Any) -> int:
            return parts.setdefault(json.dumps(part), len(parts))

        def compact(name: str, value: Any) -> Any:
            return [place(item) for item in value] if name in _SHARED and isinstance(value, list) else value

        calls = [
            {"request": {name: compact(name, v) for name, v in call["request"].items()}, "answer": call["answer"]}
            for call in self.calls
        ]
        return {"parts": [json.loads(text) for text in parts], "calls": calls}


def read_calls(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls, each with its whole request, from what :meth:`ModelCalls.to_json` wrote."""

    def whole(name: str, value: Any) -> Any:
        return [stored["parts"][i] for i in value] if name in _SHARED and isinstance(value, list) else value

    return [
        {"request": {name: whole(name, v) for name, v in call["request"].items()}, "answer": call["answer"]}
        for call in stored["calls"]
    ]


@contextlib.contextmanager
def keeping(calls: ModelCalls) -> Iterator[None]:
    """Keep the calls that tau2 makes in this thread: other trials make theirs at the same time."""
    _listen()
    _IN_THREAD.calls = calls
    try:
        yield
    finally:
        _IN_THREAD.calls = None


def kept() -> ModelCalls:
    """Return what is kept in this thread; where nobody asked for it, what is thrown away."""
    return getattr(_IN_THREAD, "calls", None) or ModelCalls()


def _listen() -> None:
    module: Any = importlib.import_module("tau2.utils.llm_utils")
    with _LOCK:
        # Once for all trials of the process.
        if not getattr(module.completion, "_a2a_bench_keeps", False):
            module.completion = _listening(module.completion)


def _listening(completion: Any) -> Any:
    @functools.wraps(completion, updated=())
    def listening(*args: Any, **request: Any) -> Any:
        if getattr(_IN_THREAD, "retries_are_ours", False):
            # That is for tau2 alone: what got no answer is asked again all the same.
            request.pop("num_retries", None)
        # Before the call: lists in it grow when the conversation goes on.
        asked = json.loads(json.dumps(request, default=str))
        response = completion(*args, **request)
        answer = json.loads(json.dumps(response.model_dump(), default=str))
        kept().calls.append({"request": asked, "answer": answer})
        return response

    listening._a2a_bench_keeps = True  # type: ignore[attr-defined]
    return listening
