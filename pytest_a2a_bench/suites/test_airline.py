"""tau2's airline domain: one item per task and trial."""

from __future__ import annotations

import pytest

from pytest_a2a_bench.model import TrialResult


@pytest.mark.tau2("airline")
def test_airline(trial: TrialResult) -> None:
    assert trial.success
