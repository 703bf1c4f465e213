"""What tau2 asks language models, and what they answer, kept where tau2 calls LiteLLM.

For verifying: the answers are given to tau2's own user simulator again, and what that asks must be what was asked here.
Histories grow by a message a turn and are asked with each time, so parts of requests are stored once.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

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
