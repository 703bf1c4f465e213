"""Tests that others have declared in ACTS files (``acts``): one item per test and declared binding."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.conformance.report import Judgement


@pytest.mark.conformance("acts")
def test_acts(conformance_check: Judgement) -> None:
    assert conformance_check.passed
