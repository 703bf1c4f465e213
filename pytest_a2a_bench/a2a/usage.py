"""Tokens and money that an agent reports about itself in metadata (pure).

A2A has no field for it. Read are ``usage`` (OpenAI's and Anthropic's names) and the ``usageMetadata`` of Google's
ADK. What is not reported stays None, which is not zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_a2a_bench.model import Usage

_CONTAINERS = ("usage", "adk_usage_metadata", "usage_metadata", "usageMetadata", "token_usage")
_INPUT = ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "promptTokenCount", "prompt_token_count")
_OUTPUT = (
    "output_tokens",
    "completion_tokens",
    "outputTokens",
    "completionTokens",
    "candidatesTokenCount",
    "candidates_token_count",
)
_COST = ("cost_usd", "cost", "costUsd", "total_cost")


def read_usage(metadata: Mapping[str, Any]) -> Usage | None:
    """Return the usage that one metadata object reports, or None."""
    for name in _CONTAINERS:
        found = metadata.get(name)
        if isinstance(found, Mapping):
            usage = Usage(_count(found, _INPUT), _count(found, _OUTPUT), _money(found))
            if usage != Usage():
                return usage
    return None


def first_usage(candidates: Iterable[Mapping[str, Any]]) -> Usage:
    """Return the first usage that any of some metadata objects reports; an empty one if none does.

    Servers repeat the same numbers on message, task and artifact, so they are not added up.
    """
    return next((u for u in map(read_usage, candidates) if u is not None), Usage())


def _count(data: Mapping[str, Any], names: Iterable[str]) -> int | None:
    for name in names:
        value = _number(data.get(name))
        if value is not None:
            return int(value)
    return None


def _money(data: Mapping[str, Any]) -> float | None:
    return next((float(v) for v in (_number(data.get(n)) for n in _COST) if v is not None), None)


def _number(value: Any) -> float | int | None:
    # Protobuf's Struct turns every integer into a float, so 12.0 is a count too.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) and 0 <= value < 2**63 else None
