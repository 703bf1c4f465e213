"""The built-in mini org: tasks of all 22 categories, with no download and no login."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.model import TrialResult


@pytest.mark.crmarena("mini")
def test_mini(trial: TrialResult) -> None:
    assert trial.success
