"""The language models that options name, asked once before the first trial."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pytest_a2a_bench.benchmarks.model_judge import reach_of
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import MissingExtraError
from pytest_a2a_bench.language_models import find_model_problem


def find_problems(settings: Settings) -> Iterator[tuple[Literal["user", "judge"], str]]:
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
