"""What a gateway changes between its clients and the agent behind it: one item per requirement and binding."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.conformance.report import Judgement


@pytest.mark.conformance("gateway")
def test_gateway(conformance_check: Judgement) -> None:
    assert conformance_check.passed
