"""What the agent does on the wire: one item per requirement and declared binding."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.conformance.report import Judgement


@pytest.mark.conformance("protocol")
def test_protocol(conformance_check: Judgement) -> None:
    assert conformance_check.passed
