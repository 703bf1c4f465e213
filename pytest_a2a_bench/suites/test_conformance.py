"""The agent's card and protocol."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.conformance.report import CheckRow


@pytest.mark.conformance("card")
def test_card(conformance_check: CheckRow) -> None:
    """Judge the agent's card: one item per requirement."""
    assert conformance_check.passed


@pytest.mark.conformance("protocol")
def test_protocol(conformance_check: CheckRow) -> None:
    """Judge what the agent does on the wire: one item per requirement and declared binding."""
    assert conformance_check.passed


@pytest.mark.conformance("acts")
def test_acts(conformance_check: CheckRow) -> None:
    """Run the tests that others have declared in ACTS files (``acts``): one item per test and declared binding."""
    assert conformance_check.passed


@pytest.mark.conformance("gateway")
def test_gateway(conformance_check: CheckRow) -> None:
    """Judge what a gateway changes of the agent behind it: one item per requirement and binding."""
    assert conformance_check.passed
