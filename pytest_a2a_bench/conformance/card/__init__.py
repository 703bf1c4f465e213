"""Agent cards, judged: ``check_card`` (pure) and ``fetch_card`` (over the network).

``fetch_card`` is imported on first use, so that judging a file loads no HTTP client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.conformance.card.judge import CardHttp, card_versions, check_card
from pytest_a2a_bench.conformance.card.signatures import ALGORITHMS

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.card.fetch import fetch_card, fetch_card_async

__all__ = ["ALGORITHMS", "CardHttp", "card_versions", "check_card", "fetch_card", "fetch_card_async"]


def __getattr__(name: str) -> Any:
    if name in ("fetch_card", "fetch_card_async"):
        from pytest_a2a_bench.conformance.card import fetch

        return getattr(fetch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
