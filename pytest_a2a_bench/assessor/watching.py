"""What happens inside an assessment, logged while it happens: trials, turns and evaluations.

These are spans, too, so what is logged is what spans are told: numbers and names, and nothing that anybody said.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from pytest_a2a_bench.tracing import Kind, Span, Tracing, Value

log = logging.getLogger(__name__)

_TOLD_OF_TURNS = {
    "gen_ai.usage.input_tokens": "input_tokens",
    "gen_ai.usage.output_tokens": "output_tokens",
    "a2a.task.state": "state",
}


class Watching(Tracing):
    """The spans of one assessment's trials.

    :param inner: makes them, or makes none.
    """

    def __init__(self, inner: Tracing, assessment: str) -> None:
        self._inner = inner
        self._assessment = assessment

    def trial(self, key: str, attributes: Mapping[str, Value | None]) -> Span:
        """Begin a trial's span."""
        told = {"assessment": self._assessment, "trial": key}
        log.info("trial begun", extra=told)
        return _Trial(self._inner.trial(key, attributes), told)


class _Watched(Span):
    def __init__(self, inner: Span, told: Mapping[str, Any]) -> None:
        self._inner, self._told = inner, dict(told)

    def child(self, name: str, kind: Kind = "internal", attributes: Mapping[str, Value | None] | None = None) -> Span:
        return self._inner.child(name, kind, attributes)

    def set(self, attributes: Mapping[str, Value | None]) -> None:
        self._inner.set(attributes)

    def event(self, name: str, attributes: Mapping[str, Value | None]) -> None:
        self._inner.event(name, attributes)

    def fail(self, error_type: str, description: str = "") -> None:
        self._inner.fail(error_type, description)

    def end(self) -> None:
        self._inner.end()

    def headers(self) -> dict[str, str]:
        return self._inner.headers()


class _Trial(_Watched):
    """A trial's span; its children are turns, which have their number."""

    def __init__(self, inner: Span, told: Mapping[str, Any]) -> None:
        super().__init__(inner, told)
        self._turns = 0

    def child(self, name: str, kind: Kind = "internal", attributes: Mapping[str, Value | None] | None = None) -> Span:
        self._turns += 1
        return _Turn(super().child(name, kind, attributes), {**self._told, "turn": self._turns})

    def event(self, name: str, attributes: Mapping[str, Value | None]) -> None:
        super().event(name, attributes)
        if name == "gen_ai.evaluation.result":
            told = {
                "reward": attributes.get("gen_ai.evaluation.score.value"),
                "outcome": attributes.get("gen_ai.evaluation.score.label"),
            }
            log.info("trial evaluated", extra={**self._told, **told})


class _Turn(_Watched):
    def __init__(self, inner: Span, told: Mapping[str, Any]) -> None:
        super().__init__(inner, told)
        self._began = time.monotonic()

    def set(self, attributes: Mapping[str, Value | None]) -> None:
        super().set(attributes)
        self._told |= {name: attributes[key] for key, name in _TOLD_OF_TURNS.items() if key in attributes}

    def fail(self, error_type: str, description: str = "") -> None:
        super().fail(error_type, description)
        # Its description may quote the agent.
        self._told["error"] = error_type

    def end(self) -> None:
        super().end()
        log.info("turn ended", extra={**self._told, "seconds": round(time.monotonic() - self._began, 3)})
