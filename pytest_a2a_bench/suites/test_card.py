"""The agent's card: one item per requirement."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.conformance.report import Judgement


@pytest.mark.conformance("card")
def test_card(conformance_check: Judgement) -> None:
    assert conformance_check.passed
