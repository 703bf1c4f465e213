"""CRMArena-Pro's B2B org with a simulated user, from the user's copy of the data."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.model import TrialResult


@pytest.mark.crmarena("b2b_interactive")
def test_b2b_interactive(trial: TrialResult) -> None:
    assert trial.success
