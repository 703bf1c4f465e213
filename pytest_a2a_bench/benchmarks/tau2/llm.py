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
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2
from pytest_a2a_bench.errors import A2ABenchError, JudgeMissingError, LLMError
from pytest_a2a_bench.language_models import failed, unfence
from pytest_a2a_bench.model import TrialKey, Usage
from pytest_a2a_bench.settings import Settings

_ATTEMPTS = 3
"""How often an unusable answer (empty, or not the JSON that was asked for) is asked for again."""

# tau2 keeps its judge's model in globals of a module, which all trials of a process share.
_JUDGE_LOCK = threading.Lock()


def make_llm_user(
    tau2: Tau2, task: Any, tools: list[Any] | None, model: str, args: Mapping[str, Any], before_turn: Callable[[], Any]
) -> Any:
    """Make tau2's own user simulator with the user's model.

    :param before_turn: called before each request; raises to stop the trial.
    """
    return _user_class(tau2.user_simulator)(
        before_turn,
        tools=tools,
        instructions=str(task.user_scenario),
        llm=model,
        llm_args=dict(args),
    )


@functools.cache
def _user_class(base: Any) -> Any:
    class LLMUser(base):  # type: ignore[misc]
        """tau2's user simulator whose model's trouble is told apart from everything else."""

        def __init__(self, before_turn: Callable[[], Any], **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self._before_turn = before_turn

        def generate_next_message(self, message: Any, state: Any) -> Any:
            before, asked = len(state.messages), len(kept().calls)
            for _ in range(_ATTEMPTS):
                self._before_turn()
                answer = self._generate(message, state)
                if answer[0].is_tool_call() or answer[0].has_text_content():
                    return answer
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


def has_nl_basis(tau2: Tau2, task: Any) -> bool:
    """Tell whether natural-language assertions are part of the task's reward basis."""
    criteria = task.evaluation_criteria
    return criteria is not None and tau2.reward_type.NL_ASSERTION in criteria.reward_basis


def needs_judge(tau2: Tau2, task: Any) -> bool:
    """Tell whether evaluating the task calls the judge: with no assertion to judge, upstream does not."""
    return has_nl_basis(tau2, task) and bool(task.evaluation_criteria.nl_assertions)


def prepare_judge(tau2: Tau2, key: TrialKey, settings: Settings) -> None:
    """Tell tau2 which model judges.

    :raises JudgeMissingError: if none is configured.
    """
    if settings.judge_llm is None:
        raise JudgeMissingError(
            f"{key.task_key} is judged by a language model (its reward basis has NL_ASSERTION) "
            "and none is configured; pass --a2a-judge-llm MODEL"
        )
    configure_judge(tau2, settings.judge_llm, judge_arguments(settings))


def judge_arguments(settings: Settings) -> dict[str, Any]:
    """Return what the judge's model is called with."""
    return {"temperature": 0.0, **_reach(settings)}


def user_arguments(settings: Settings) -> dict[str, Any]:
    """Return what the user's model is called with: it should vary as little as possible, unless somebody wants that."""
    return {"temperature": 0.0, **settings.user_llm_args}


def _reach(settings: Settings) -> dict[str, Any]:
    """Return how to reach the model server (never how to sample): the judge lives where the user's model does."""
    wanted = ("api_base", "base_url", "api_version", "custom_llm_provider", "timeout", "_skip_mcp_handler")
    return {k: v for k, v in settings.user_llm_args.items() if k in wanted}


def configure_judge(tau2: Tau2, model: str, args: Mapping[str, Any]) -> None:
    """Let tau2's judge use a model, and refuse answers of the judge that do not answer.

    Upstream accepts ``{"results": []}`` as "everything met" and crashes on JSON inside a code fence; both are guarded.
    """
    module = tau2.nl_assertions_module
    with _JUDGE_LOCK:
        module.DEFAULT_LLM_NL_ASSERTIONS = model
        module.DEFAULT_LLM_NL_ASSERTIONS_ARGS = dict(args)
        # The module is patched once for all trials of the process.
        if not getattr(module.generate, "_a2a_bench_guard", False):
            module.generate = _guarded(module.generate)


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


def _count(answer: Any) -> None:
    spent: list[Usage] | None = getattr(_COUNTER, "spent", None)
    if spent is not None:
        used = answer.usage or {}
        spent.append(Usage(used.get("prompt_tokens"), used.get("completion_tokens"), answer.cost))


def _guarded(generate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(generate)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        problem, asked = "", len(kept().calls)
        for _ in range(_ATTEMPTS):
            kept().keep_only(asked)
            try:
                answer = generate(*args, **kwargs)
            except A2ABenchError:  # of a function in the model's place
                raise
            except Exception as exc:
                raise failed(f"the judge's model {kwargs.get('model')!r}", exc) from exc
            _count(answer)
            # Before upstream parses it: a fence makes it crash.
            answer.content = unfence(answer.content or "")
            problem = judge_problem(answer.content)
            if not problem:
                _keep_unfenced(answer.content)
                return answer
        raise LLMError(f"the judge's model {kwargs.get('model')!r} did not answer as asked: {problem}")

    guarded._a2a_bench_guard = True  # type: ignore[attr-defined]
    return guarded


def _keep_unfenced(text: str) -> None:
    """Keep an answer as upstream parses it: played back into upstream itself, its fence would make that crash."""
    for call in kept().calls[-1:]:
        call["answer"]["choices"][0]["message"]["content"] = text


def judge_problem(text: str) -> str:
    """Say what is wrong with a judge's answer; an empty string where nothing is."""
    try:
        data = json.loads(text)
    except ValueError as exc:
        return f"not JSON ({exc})"
    results = data.get("results") if isinstance(data, dict) else None
    # Upstream takes an empty list for everything met.
    if not isinstance(results, list) or not results:
        return "no results"
    for result in results:
        if not isinstance(result, dict) or not isinstance(result.get("metExpectation"), bool):
            return "a result without a true or false metExpectation"
        if not isinstance(result.get("expectedOutcome"), str) or not isinstance(result.get("reasoning"), str):
            return "a result without expectedOutcome or reasoning"
    return ""


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
        """Forget what came of an answer that is not used: it is asked for again as if it had never been."""
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
        # Before the call: lists in it grow when the conversation goes on.
        asked = json.loads(json.dumps(request, default=str))
        response = completion(*args, **request)
        answer = json.loads(json.dumps(response.model_dump(), default=str))
        kept().calls.append({"request": asked, "answer": answer})
        return response

    listening._a2a_bench_keeps = True  # type: ignore[attr-defined]
    return listening
