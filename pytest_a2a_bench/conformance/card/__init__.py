"""Agent cards, judged: ``check_card`` (pure), ``fetch_card`` and ``check_online`` (over the network).

The network parts are imported on first use, so that judging a file costs no HTTP client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.conformance.card.judge import CardHttp, card_versions, check_card
from pytest_a2a_bench.conformance.card.signatures import ALGORITHMS

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.card.fetch import fetch_card, fetch_card_async
    from pytest_a2a_bench.conformance.card.online import check_online, check_online_async

__all__ = [
    "ALGORITHMS",
    "CardHttp",
    "card_versions",
    "check_card",
    "check_online",
    "check_online_async",
    "fetch_card",
    "fetch_card_async",
]

_LAZY = {
    "check_online": "online",
    "check_online_async": "online",
    "fetch_card": "fetch",
    "fetch_card_async": "fetch",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
