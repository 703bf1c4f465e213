"""CRMArena-Pro's B2B org, from the user's copy of the data."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.model import TrialResult


@pytest.mark.crmarena("b2b")
def test_b2b(trial: TrialResult) -> None:
    assert trial.success
