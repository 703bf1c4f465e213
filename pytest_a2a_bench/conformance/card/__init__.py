"""Agent cards, judged: ``check_card`` (pure), and in :mod:`.fetch` ``fetch_card`` (over the network).

Judging a file loads no HTTP client.
"""

from __future__ import annotations

from pytest_a2a_bench.conformance.card.judge import CardHttp, card_versions, check_card
from pytest_a2a_bench.conformance.card.signatures import ALGORITHMS

__all__ = ["ALGORITHMS", "CardHttp", "card_versions", "check_card"]
