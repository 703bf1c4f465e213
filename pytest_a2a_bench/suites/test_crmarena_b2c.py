"""CRMArena-Pro's B2C org, from the user's copy of the data."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.model import TrialResult


@pytest.mark.crmarena("b2c")
def test_b2c(trial: TrialResult) -> None:
    assert trial.success
