"""One item per task and trial of the shop."""

from __future__ import annotations

import pytest

from pytest_a2a_bench import TrialResult


@pytest.mark.shop("orders")
def test_orders(trial: TrialResult) -> None:
    assert trial.success
