"""The built-in mini org, with a simulated user who asks the questions."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.model import TrialResult


@pytest.mark.crmarena("mini_interactive")
def test_mini_interactive(trial: TrialResult) -> None:
    assert trial.success
