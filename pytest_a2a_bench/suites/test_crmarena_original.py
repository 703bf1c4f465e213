"""The original CRMArena: the nine service categories, from the user's copy of the data."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.model import TrialResult


@pytest.mark.crmarena("original")
def test_original(trial: TrialResult) -> None:
    assert trial.success
